import { ResultSelector, type Selected } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import { childProgram, ChildPool } from '@toolfleet/resilience/child-pool';
import type { SelectExpression } from '@toolfleet/bounded-schema/select';
import type { SelectJob } from './select-child.js';

/** Maximum duration of an evaluation. A document of 4 MB takes about 100 ms, and ten times as long on a busy machine. */
const TIMEOUT_MS = 3_000;
/** Heap of a child: a document of 5 MiB, parsed, takes up to 100 MB. */
const HEAP_MB = 256;
const CHILDREN = 2;
/** Maximum number of waiting selections of a tenant. */
const MAX_WAITING = 64;

/**
 * Evaluates selections in child processes, so that the event loop of the gateway only writes and reads JSON. A component: it starts
 * children on demand and ends them when they are idle.
 */
export class SelectPool extends ResultSelector {
  readonly name = 'selections';
  private readonly pool: ChildPool<SelectJob, Selected>;

  constructor(clock: Clock) {
    super();
    const program = childProgram(import.meta.url, 'select-child');
    this.pool = new ChildPool(clock, { program, size: CHILDREN, maxWaiting: MAX_WAITING, heapMb: HEAP_MB });
  }

  override async select(
    document: string,
    selection: SelectExpression,
    { tenantId: tenant, signal }: { tenantId: string; signal: AbortSignal },
  ): Promise<Selected> {
    return this.pool.run({ document, selection }, { timeoutMs: TIMEOUT_MS, signal, tenant });
  }

  async stop(): Promise<void> {
    this.pool.close();
  }
}
