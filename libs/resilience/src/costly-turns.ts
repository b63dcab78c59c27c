import { setImmediate } from 'node:timers/promises';
import type { Clock } from '@toolfleet/base';
import { FairQueue } from './fair-queue.js';

/** Shorter work needs no rest. */
const BRIEF_MS = 2;

/**
 * Turns at work that may hold the event loop for tens of milliseconds and cannot be divided, such as parsing a large body. One piece
 * runs at a time, owners take turns, and after each piece the event loop serves everything else for as long as the piece took. A
 * call waits for the network several times: with a piece in every turn of the loop it would wait for as many pieces.
 */
export class CostlyTurns {
  readonly #waiting = new FairQueue<() => void>();
  #isRunning = false;

  constructor(private readonly clock: Clock) {}

  /** Resolves when it is the turn of this owner; what runs then until the event loop is free again counts as its work. */
  next(owner: string): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(owner, resolve);
      if (!this.#isRunning) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    for (let begin = this.#waiting.shift(); begin; begin = this.#waiting.shift()) {
      const from = this.clock.monotonic();
      begin();
      await setImmediate();
      const tookMs = this.clock.monotonic() - from;
      if (tookMs > BRIEF_MS) await this.clock.sleep(tookMs);
    }
    this.#isRunning = false;
  }
}
