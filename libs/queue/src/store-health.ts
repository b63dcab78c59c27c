import { isToolError, ToolError } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';

/** After a failure or time-out the store is not used for this long, so that one call pays for the time-out instead of all. */
const DOWN_MS = 1_000;
/** The time-out is counted in this many timers: a blocked event loop delays one of them, not the whole time-out. */
const TIMEOUT_STEPS = 4;

/**
 * Health of a store that calls can do without. Each operation has a short time-out; after a failure the store counts as down
 * for a second and is not asked.
 */
export class StoreHealth {
  /** 0 before the first failure. */
  #downUntil = 0;

  constructor(
    private readonly clock: Clock,
    private readonly timeoutMs: number,
  ) {}

  /** False for a second after a failure or time-out. */
  get isUp(): boolean {
    return this.#downUntil === 0 || this.clock.monotonic() >= this.#downUntil;
  }

  /** Resolves to the result of the operation, or to undefined when the store is down, fails or exceeds the time-out. */
  async run<T>(operation: () => Promise<T>): Promise<T | undefined> {
    if (!this.isUp) return undefined;
    const timeout = this.#startTimeout();
    try {
      return await Promise.race([operation(), timeout.elapsed]);
    } catch {
      this.#markDown();
      return undefined;
    } finally {
      timeout.cancel();
    }
  }

  /**
   * A time-out that does not elapse while a reply waits in the socket: a gateway too busy to read replies must not take the
   * store for down, because that would lift shared limits exactly under load.
   */
  #startTimeout(): { elapsed: Promise<undefined>; cancel: () => void } {
    let cancelTimer = () => {};
    let cancelled = false;
    const elapsed = new Promise<undefined>((resolve) => {
      const wait = (stepsLeft: number) => {
        cancelTimer = this.clock.after(this.timeoutMs / TIMEOUT_STEPS, () => {
          if (stepsLeft > 1) return wait(stepsLeft - 1);
          // The event loop reads sockets between its timers and its immediates.
          setImmediate(() => {
            if (cancelled) return;
            this.#markDown();
            resolve(undefined);
          });
        });
      };
      wait(TIMEOUT_STEPS);
    });
    return {
      elapsed,
      cancel: () => {
        cancelled = true;
        cancelTimer();
      },
    };
  }

  #markDown(): void {
    this.#downUntil = this.clock.monotonic() + DOWN_MS;
  }
}

/**
 * Resolves to what a store that the caller cannot do without answers. The error of the store's client becomes the cause and is
 * not shown to callers.
 * @param what subject of the message, such as "The store of calls"
 * @throws ToolError SERVICE_UNAVAILABLE when the store fails, or the ToolError that the operation rejected with
 */
export async function orUnavailable<T>(what: string, operation: Promise<T>): Promise<T> {
  try {
    return await operation;
  } catch (cause) {
    if (isToolError(cause)) throw cause;
    throw new ToolError('SERVICE_UNAVAILABLE', { message: `${what} cannot be reached; retry later`, cause });
  }
}
