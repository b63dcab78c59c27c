import { Clock, type CancelTimer } from '@toolfleet/resilience';

interface Timer {
  at: number;
  fire: () => void;
}

/** A clock that only moves when a test advances it. Timers fire in order, at their exact time. */
export class FakeClock extends Clock {
  #now: number;
  #monotonic = 0;
  #timers: Timer[] = [];

  /** @param startAt initial wall time in milliseconds since the epoch */
  constructor(startAt = 1_750_000_000_000) {
    super();
    this.#now = startAt;
  }

  override now(): number {
    return this.#now;
  }

  override monotonic(): number {
    return this.#monotonic;
  }

  override after(delayMs: number, fire: () => void): CancelTimer {
    const timer = { at: this.#monotonic + Math.max(0, delayMs), fire };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** Number of timers that have not fired. */
  get pending(): number {
    return this.#timers.length;
  }

  /** Advances time and fires due timers, including those that timers set. Promise callbacks do not run in between. */
  advance(ms: number): void {
    const until = this.#monotonic + ms;
    for (;;) {
      const next = this.#timers.reduce<Timer | undefined>(
        (first, timer) => (timer.at <= until && (!first || timer.at < first.at) ? timer : first),
        undefined,
      );
      if (!next) break;
      this.#timers = this.#timers.filter((timer) => timer !== next);
      this.#moveTo(Math.max(this.#monotonic, next.at));
      next.fire();
    }
    this.#moveTo(until);
  }

  /** Like `advance`, but runs promise callbacks before, after each timer, and at the end. */
  async run(ms: number): Promise<void> {
    const until = this.#monotonic + ms;
    await settle();
    for (;;) {
      const due = this.#timers.map((timer) => timer.at).filter((at) => at <= until);
      if (due.length === 0) break;
      this.advance(Math.max(0, Math.min(...due) - this.#monotonic));
      await settle();
    }
    this.advance(Math.max(0, until - this.#monotonic));
    await settle();
  }

  /** Lets time pass as for a process that is suspended: timers that became due fire afterwards, with the next advance. */
  suspend(ms: number): void {
    this.#moveTo(this.#monotonic + ms);
  }

  /** Moves the wall clock as NTP or a suspend does; monotonic time is unchanged. */
  jumpWall(ms: number): void {
    this.#now += ms;
  }

  #moveTo(monotonic: number): void {
    this.#now += monotonic - this.#monotonic;
    this.#monotonic = monotonic;
  }
}

/** Runs all pending promise callbacks. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
}
