import type { Milliseconds } from '@toolfleet/contracts';
import type { CancelTimer, Clock } from '@toolfleet/resilience';

const TICK_MS: Milliseconds = 100;
/** A stall of two acknowledgement windows: every exec message that waited through it has been sent again. */
const LATE_AFTER_MS: Milliseconds = 500;

/**
 * Notices that the event loop was held, and tells which messages waited meanwhile: after a stall they all arrive at once, and
 * to work them off would make everything behind them late, too. A round trip to the server ends the lateness: messages that
 * arrive before its answer were sent before.
 */
export class LoopLateness {
  #tickAt = 0;
  #late = false;
  #stalls = 0;
  #cancelTick: CancelTimer | undefined;

  constructor(
    private readonly clock: Clock,
    /** Resolves when everything the server had for this process has arrived. */
    private readonly roundTrip: () => Promise<unknown>,
    /** Hears how long the loop was held. */
    private readonly onStall: (stalledMs: Milliseconds) => void = () => undefined,
  ) {}

  start(): void {
    if (this.#cancelTick) return;
    this.#tickAt = this.clock.monotonic();
    this.#schedule();
  }

  stop(): void {
    this.#cancelTick?.();
    this.#cancelTick = undefined;
    this.#late = false;
  }

  /** True while the messages that arrive have waited for the event loop. Never before `start`. */
  get late(): boolean {
    if (this.#cancelTick) this.#look();
    return this.#late;
  }

  #schedule(): void {
    this.#cancelTick = this.clock.after(TICK_MS, () => {
      this.#look();
      this.#tickAt = this.clock.monotonic();
      this.#schedule();
    });
  }

  #look(): void {
    const now = this.clock.monotonic();
    const stalledMs = now - this.#tickAt - TICK_MS;
    if (stalledMs < LATE_AFTER_MS) return;
    this.#tickAt = now;
    this.#late = true;
    const stall = (this.#stalls += 1);
    const over = (): void => {
      if (stall === this.#stalls) this.#late = false; // else the loop was held again meanwhile
    };
    this.onStall(Math.round(stalledMs));
    this.roundTrip().then(over, over);
  }
}
