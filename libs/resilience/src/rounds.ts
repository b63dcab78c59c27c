import type { Milliseconds } from '@toolfleet/contracts';
import type { CancelTimer, Clock } from '@toolfleet/base';

/** What is repeated, and when. */
interface RoundsOptions {
  /** Of the component; default: rounds. */
  name?: string;
  clock: Clock;
  everyMs: Milliseconds;
  /** Time until the first round. Default: `everyMs`. */
  firstMs?: Milliseconds | undefined;
  /** One round. A rejection ends that round only. */
  work(): unknown;
  /**
   * Called when a round fails after one that succeeded, so that an outage is reported once.
   * Default: failures are ignored, because the next round repeats the work.
   */
  onFailure?: ((error: unknown) => void) | undefined;
  /** Called when a round succeeds after one that failed. */
  onRecovery?: (() => void) | undefined;
}

/** Times of upkeep of stores: a minute after the start, to keep it quick, then every hour. */
export const HOURLY = { firstMs: 60_000, everyMs: 3_600_000 } as const satisfies Partial<RoundsOptions>;

/**
 * Repeats work at an interval until it is stopped; a component of a service. Rounds never overlap: one that is due while the last one runs is left out.
 *
 * ```ts
 * const rounds = new Rounds({ ...HOURLY, clock, work: () => store.forgetEnded(clock.now()) });
 * rounds.start();
 * await rounds.stop(); // waits for the round that is under way
 * ```
 */
export class Rounds {
  readonly name: string;
  #cancel: CancelTimer | undefined;
  #running: Promise<void> | undefined;
  #isFailing = false;
  #isStopped = false;

  constructor(private readonly options: RoundsOptions) {
    this.name = options.name ?? 'rounds';
  }

  /** Schedules the first round; a second call has no effect while the rounds run. */
  start(): void {
    if (this.#cancel) return;
    this.#isStopped = false;
    this.#schedule(this.options.firstMs ?? this.options.everyMs);
  }

  /** Ends the rounds at once. Await the result where the work must not outlive its component. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel?.();
    this.#cancel = undefined;
    await this.#running;
  }

  /** Runs a round now, or joins the one that is under way. Never rejects. */
  run(): Promise<void> {
    return (this.#running ??= this.#round().finally(() => (this.#running = undefined)));
  }

  #schedule(delayMs: Milliseconds): void {
    this.#cancel = this.options.clock.after(delayMs, () => {
      if (this.#isStopped) return;
      this.#schedule(this.options.everyMs);
      void this.run();
    });
  }

  async #round(): Promise<void> {
    try {
      await this.options.work();
      if (this.#isFailing) this.options.onRecovery?.();
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) this.options.onFailure?.(error);
      this.#isFailing = true;
    }
  }
}
