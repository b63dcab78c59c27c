import type { EpochMs, Milliseconds } from '@toolfleet/contracts';
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

  /** From an instant of this process' wall clock. */
  static at(clock: Clock, deadlineAt: EpochMs): Deadline {
    return new Deadline(clock, deadlineAt - clock.now());
  }

  /** Milliseconds left, never below 0. */
  remainingMs(): Milliseconds {
    return Math.max(0, this.#endsAt - this.clock.monotonic());
  }

  /** True once no time is left. */
  get expired(): boolean {
    return this.clock.monotonic() >= this.#endsAt;
  }
}

/** Abort reason of a signal of `withTimeout` when the time is over. */
export class TimedOut extends Error {
  constructor(readonly timeoutMs: Milliseconds) {
    super(`Timed out after ${Math.round(timeoutMs)}ms`);
    this.name = 'TimedOut';
  }
}

/** A controller that follows a parent signal until `release`, so that listeners do not accumulate on long-lived parents. */
interface LinkedAbort {
  readonly signal: AbortSignal;
  abort(reason: unknown): void;
  release(): void;
}

/** A signal that is aborted with its parent or by `abort`. */
export function linkAbort(parent?: AbortSignal): LinkedAbort {
  const controller = new AbortController();
  if (!parent) return { signal: controller.signal, abort: (reason) => controller.abort(reason), release: () => {} };
  const follow = () => controller.abort(parent.reason);
  if (parent.aborted) follow();
  else parent.addEventListener('abort', follow, { once: true });
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    release: () => parent.removeEventListener('abort', follow),
  };
}

/**
 * Runs `work` with a signal that is aborted after `timeoutMs` (reason: `TimedOut`) or with `parent`. The promise rejects at once, even when
 * the work ignores its signal; a late outcome is dropped.
 * @throws TimedOut, the reason of `parent`, or what `work` throws
 */
export async function withTimeout<T>(
  clock: Clock,
  timeoutMs: Milliseconds,
  parent: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const link = linkAbort(parent);
  const cancel = clock.after(timeoutMs, () => link.abort(new TimedOut(timeoutMs)));
  try {
    return await untilAborted(work(link.signal), link.signal);
  } finally {
    cancel();
    link.release();
  }
}

/** Settles as `promise` does, or rejects with the signal's reason as soon as that is aborted. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    if (signal.aborted) {
      promise.catch(() => {}); // dropped, but a rejection must not be unhandled
      reject(signal.reason);
      return;
    }
    const leave = onAbort(signal, () => reject(signal.reason));
    promise.then(
      (value) => {
        leave();
        resolve(value);
      },
      (error: unknown) => {
        leave();
        reject(error);
      },
    );
  });
}
