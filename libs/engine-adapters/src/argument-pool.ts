import { isToolError, ToolError } from '@toolfleet/contracts';
import { CostlyArguments, type ArgumentJob } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import { childProgram, ChildPool } from '@toolfleet/resilience/child-pool';
import type { ReadArguments } from '@toolfleet/bounded-schema';

/** Longest check. The steps of a child take two seconds, and five on a slow core. */
const TIMEOUT_MS = 6_000;
const HEAP_MB = 256;
const CHILDREN = 2;
/** Most waiting checks of a tenant. */
const MAX_WAITING = 8;
const RETRY_MS = 1_000;

/**
 * Reads costly arguments in child processes. The steps of a check decide whether arguments are too costly at all, so that equal
 * arguments get the same answer on every machine; the time limit ends only slow steps, and can be retried.
 */
export class ArgumentPool extends CostlyArguments {
  readonly name = 'costly arguments';
  private readonly pool: ChildPool<ArgumentJob, ReadArguments>;

  /** @param timeoutMs longest check */
  constructor(
    clock: Clock,
    private readonly timeoutMs = TIMEOUT_MS,
  ) {
    super();
    const program = childProgram(import.meta.url, 'argument-child');
    this.pool = new ChildPool(clock, { program, size: CHILDREN, maxWaiting: MAX_WAITING, heapMb: HEAP_MB });
  }

  override async read(
    job: ArgumentJob,
    { tenantId: tenant, signal }: { tenantId: string; signal: AbortSignal },
  ): Promise<ReadArguments> {
    try {
      return await this.pool.run(job, { timeoutMs: this.timeoutMs, signal, tenant });
    } catch (error) {
      // A child that took too much time or memory, or was lost.
      if (!isToolError(error) || !['TOOL_ERROR', 'MEMORY_EXCEEDED'].includes(error.code)) throw error;
      throw new ToolError('SERVICE_UNAVAILABLE', {
        message: 'The arguments could not be checked in time; send smaller or simpler arguments, or retry later',
        facts: { begun: 'no' },
        retryAfterMs: RETRY_MS,
        cause: error,
      });
    }
  }

  async stop(): Promise<void> {
    this.pool.close();
  }
}
