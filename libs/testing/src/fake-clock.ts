import { Clock, type CancelTimer } from '@toolfleet/resilience';

interface Timer {
  at: number;
  fire: () => void;
}

/** A clock that moves only when told to. Timers fire in order of their time, at their time. */
export class FakeClock extends Clock {
  #now: number;
  #monotonic = 0;
  #timers: Timer[] = [];

  /** `startAt` is the wall time of the first moment, epoch ms. */
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

  /** Timers that have not fired. */
  get pending(): number {
    return this.#timers.length;
  }

  /** Moves time and fires what falls due, timers set by timers included. Promise callbacks do not run in between. */
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

  /** Like `advance`, letting promise callbacks run before it, after each timer and at the end. */
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

  /** Makes the wall clock jump (NTP, suspend); monotonic time does not move. */
  jumpWall(ms: number): void {
    this.#now += ms;
  }

  #moveTo(monotonic: number): void {
    this.#now += monotonic - this.#monotonic;
    this.#monotonic = monotonic;
  }
}

/** Lets all promise callbacks that are ready run. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
}
