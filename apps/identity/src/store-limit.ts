import { isToolError, ToolError, type Milliseconds } from '@toolfleet/contracts';
import { withTimeout, type Clock } from '@toolfleet/resilience';

/** Bounds the wait of a request for the store. */
export class StoreLimit {
  constructor(
    private readonly clock: Clock,
    private readonly maxMs: Milliseconds,
  ) {}

  /** @throws ToolError as `work`; SERVICE_UNAVAILABLE when the store fails or does not answer in time */
  run<T>(work: () => Promise<T>): Promise<T> {
    return withTimeout(this.clock, this.maxMs, work()).catch((cause: unknown) => {
      if (isToolError(cause)) throw cause;
      const message = 'The store of sessions and grants is unavailable; retry later';
      throw new ToolError('SERVICE_UNAVAILABLE', { message, cause });
    });
  }
}
