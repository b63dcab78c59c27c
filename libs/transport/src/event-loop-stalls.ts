import type { Milliseconds } from '@toolfleet/contracts';
import type { CancelTimer, Clock } from '@toolfleet/resilience';

const TICK_MS: Milliseconds = 100;
/** A stall of two acknowledgement windows: every exec message that waited that long has been sent again. */
const STALL_MS: Milliseconds = 500;

/**
 * Detects that the event loop was blocked, and which messages waited meanwhile. After a stall they all arrive at once, and serving
 * them would delay everything behind them. A round trip to the server ends the lateness: messages that arrive before its response
 * were sent before.
 */
export class EventLoopStalls {
  #tickAt = 0;
  #late = false;
  #stalls = 0;
  #cancelTick: CancelTimer | undefined;

  constructor(
    private readonly clock: Clock,
    /** Resolves when everything the server had for this process has arrived. */
    private readonly roundTrip: () => Promise<unknown>,
    /** Called with the duration of each stall. */
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

  /** True while arriving messages have waited for the event loop. Never before `start`. */
  get late(): boolean {
    if (this.#cancelTick) this.#check();
    return this.#late;
  }

  #schedule(): void {
    this.#cancelTick = this.clock.after(TICK_MS, () => {
      this.#check();
      this.#tickAt = this.clock.monotonic();
      this.#schedule();
    });
  }

  #check(): void {
    const now = this.clock.monotonic();
    const stalledMs = now - this.#tickAt - TICK_MS;
    if (stalledMs < STALL_MS) return;
    this.#tickAt = now;
    this.#late = true;
    const stall = (this.#stalls += 1);
    const over = (): void => {
      if (stall === this.#stalls) this.#late = false; // otherwise another stall has begun meanwhile
    };
    this.onStall(Math.round(stalledMs));
    this.roundTrip().then(over, over);
  }
}
