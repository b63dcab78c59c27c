import type { Clock } from '@toolfleet/resilience';

/** A store that hangs is left alone for this long: one call pays for finding out, not every call. */
const DISTRUST_MS = 1_000;

/** Asks a store with limited patience, and not at all for a while after it failed or hung. */
export class StoreTrust {
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
    let cancel = () => {};
    const patience = new Promise<undefined>((resolve) => {
      cancel = this.clock.after(this.patienceMs, () => {
        this.#distrust();
        resolve(undefined);
      });
    });
    try {
      return await Promise.race([question(), patience]);
    } catch {
      this.#distrust();
      return undefined;
    } finally {
      cancel();
    }
  }

  #distrust(): void {
    this.#distrustedUntil = this.clock.monotonic() + DISTRUST_MS;
  }
}
