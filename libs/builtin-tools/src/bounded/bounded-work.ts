import type { Clock } from '@toolfleet/resilience';
import { childProgram, ChildPool, type JobBounds } from '@toolfleet/resilience/child-pool';
import { TENANT, type ToolRun } from '../builtin-tool.js';
import type { BoundedJob } from './bounded-child.js';

/** The limits of a job that come from the call. Part of the plugin API. */
export function boundsOf(run: Pick<ToolRun, 'signal' | typeof TENANT>): Omit<JobBounds, 'timeoutMs'> {
  return { signal: run.signal, tenant: run[TENANT] };
}

/** Heap of a child. A result has at most 4 MiB; the rest is for intermediate values. */
const HEAP_MB = 320;
/** Most waiting jobs of a tenant: each occupies one of the 256 concurrent calls of its process. */
const MAX_WAITING = 128;

/** Runs the jobs of builtin tools whose cost a caller determines in child processes. */
export class BoundedWork extends ChildPool<BoundedJob> {
  /** @param size most concurrent children */
  constructor(clock: Clock, size = 2, maxWaiting = MAX_WAITING) {
    super(clock, { program: childProgram(import.meta.url, 'bounded-child'), size, maxWaiting, heapMb: HEAP_MB });
  }
}
