import type { EpochMs, Milliseconds } from '@toolfleet/contracts';
import type { Clock } from './clock.js';

/**
 * The instant by which work must be finished. Anchored once to the monotonic clock, so that a jump of the wall clock
 * neither ends a call early nor lets it run for an hour longer.
 */
export class Deadline {
  readonly #endsAt: Milliseconds;

  private constructor(
    private readonly clock: Clock,
    remainingMs: Milliseconds,
  ) {
    this.#endsAt = clock.monotonic() + remainingMs;
  }

  /** From milliseconds left, the form in which a deadline travels on NATS. */
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
