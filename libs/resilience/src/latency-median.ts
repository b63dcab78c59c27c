import type { Milliseconds } from '@toolfleet/contracts';

/** Samples needed before there is an estimate. */
const MIN_SAMPLES = 20;
/** Share by which one sample moves the estimate: it follows a change within a few dozen calls. */
const STEP = 0.05;

/** Running estimate of a median in constant memory: each sample moves it one small step towards itself. */
export class LatencyMedian {
  #first: Milliseconds[] | undefined = [];
  #median = 0;

  /** Undefined until there are enough samples. */
  get medianMs(): Milliseconds | undefined {
    return this.#first ? undefined : this.#median;
  }

  add(durationMs: Milliseconds): void {
    if (this.#first) {
      this.#first.push(durationMs);
      if (this.#first.length < MIN_SAMPLES) return;
      this.#median = this.#first.toSorted((a, b) => a - b)[MIN_SAMPLES / 2] ?? 0;
      this.#first = undefined;
      return;
    }
    const step = Math.max(0.1, this.#median * STEP);
    if (durationMs > this.#median) this.#median = Math.min(durationMs, this.#median + step);
    else if (durationMs < this.#median) this.#median = Math.max(durationMs, this.#median - step);
  }
}
