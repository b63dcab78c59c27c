import type { EpochMs, Milliseconds } from '@toolfleet/contracts';
import { AbortSource, onAbort, type Clock } from '@toolfleet/base';

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

/** Follows a parent signal until `release`, so that listeners do not accumulate on long-lived parents. */
class LinkedAbort extends AbortSource {
  readonly release: () => void;

  constructor(parent: AbortSignal) {
    super();
    if (parent.aborted) this.abort(parent.reason);
    this.release = onAbort(parent, () => this.abort(parent.reason));
  }
}

/** A signal that is aborted with its parent or by `abort`. */
export const linkAbort = (parent: AbortSignal): LinkedAbort => new LinkedAbort(parent);

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
  const source = parent ? linkAbort(parent) : new AbortSource();
  const { signal } = source;
  const cancel = clock.after(timeoutMs, () => source.abort(new TimedOut(timeoutMs)));
  try {
    const working = work(signal);
    return await new Promise<T>((resolve, reject) => {
      working.then(resolve, reject);
      if (signal.aborted) reject(signal.reason);
      else onAbort(signal, () => reject(signal.reason));
    });
  } finally {
    cancel();
    if (source instanceof LinkedAbort) source.release();
  }
}
