import type { Clock } from '@toolfleet/resilience';

/** A store that hangs is left alone for this long: one call pays for finding out, not every call. */
const DISTRUST_MS = 1_000;
/** The patience is waited for in so many steps: a busy event loop makes one step late, not all of them. */
const STEPS = 4;

/** Asks a store with limited patience, and not at all for a while after it failed or hung. */
export class StoreHealth {
  #distrustedUntil = 0;

  constructor(
    private readonly clock: Clock,
    private readonly patienceMs: number,
  ) {}

  /** False while the store is being left alone. */
  get given(): boolean {
    return this.clock.monotonic() >= this.#distrustedUntil;
  }

  /** The answer of the store, or undefined when it is away, fails or takes too long. */
  async ask<T>(question: () => Promise<T>): Promise<T | undefined> {
    if (!this.given) return undefined;
    const patience = this.#patience();
    try {
      return await Promise.race([question(), patience.over]);
    } catch {
      this.#distrust();
      return undefined;
    } finally {
      patience.end();
    }
  }

  /**
   * Ends after the patience, but never because this process was too busy to read an answer that has long arrived: a flood
   * of calls must not be taken for a store that is away, which would lift shared limits just when they matter.
   */
  #patience(): { over: Promise<undefined>; end: () => void } {
    let cancel = () => {};
    let ended = false;
    const over = new Promise<undefined>((resolve) => {
      const wait = (stepsLeft: number) => {
        cancel = this.clock.after(this.patienceMs / STEPS, () => {
          if (stepsLeft > 1) return wait(stepsLeft - 1);
          // Sockets are read between a timer and an immediate.
          setImmediate(() => {
            if (ended) return;
            this.#distrust();
            resolve(undefined);
          });
        });
      };
      wait(STEPS);
    });
    return {
      over,
      end: () => {
        ended = true;
        cancel();
      },
    };
  }

  #distrust(): void {
    this.#distrustedUntil = this.clock.monotonic() + DISTRUST_MS;
  }
}
