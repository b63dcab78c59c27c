import type { Milliseconds } from '@toolfleet/contracts';
import { onAbort, type Clock } from '@toolfleet/base';

/**
 * The instant by which work must be finished. Anchored once to the monotonic clock, so that a jump of the wall clock
 * neither ends a call early nor extends it.
 */
export class Deadline {
  readonly #endsAt: Milliseconds;

  private constructor(
    private readonly clock: Clock,
    remainingMs: Milliseconds,
  ) {
    this.#endsAt = clock.monotonic() + remainingMs;
  }

  /** From the milliseconds left, as messages carry them. */
  static in(clock: Clock, remainingMs: Milliseconds): Deadline {
    return new Deadline(clock, remainingMs);
  }

  /** Milliseconds left, never below 0. */
  remainingMs(): Milliseconds {
    return Math.max(0, this.#endsAt - this.clock.monotonic());
  }
}

/** Error of `withTimeout`, and reason of signals, when the time is over. */
export class TimedOut extends Error {
  constructor(readonly timeoutMs: Milliseconds) {
    super(`Timed out after ${Math.round(timeoutMs)}ms`);
    this.name = 'TimedOut';
  }
}

/**
 * Waits for `work` at most `timeoutMs`, or until `parent` is aborted. The work goes on, and a late outcome is dropped.
 * @throws TimedOut, the reason of `parent`, or what `work` throws
 */
export function withTimeout<T>(
  clock: Clock,
  timeoutMs: Milliseconds,
  work: Promise<T>,
  parent?: AbortSignal,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const end = (): void => {
      cancel();
      leave?.();
    };
    const fail = (reason: unknown): void => {
      end();
      reject(reason);
    };
    const cancel = clock.after(timeoutMs, () => fail(new TimedOut(timeoutMs)));
    const leave = parent && onAbort(parent, () => fail(parent.reason));
    if (parent?.aborted) fail(parent.reason);
    work.then((value) => {
      end();
      resolve(value);
    }, fail);
  });
}
