import pLimit from 'p-limit';

/** Bounded concurrency with a bounded queue: no unbounded array between two awaits. */
export class Semaphore {
  readonly #limit: ReturnType<typeof pLimit>;

  constructor(
    readonly permits: number,
    /** Callers that may wait; more are refused. */
    readonly maxWaiting: number = Number.POSITIVE_INFINITY,
  ) {
    this.#limit = pLimit(permits);
  }

  /** Work that is running. */
  get active(): number {
    return this.#limit.activeCount;
  }

  /** Callers that wait. */
  get waiting(): number {
    return this.#limit.pendingCount;
  }

  /** True when the next caller would be refused. */
  get full(): boolean {
    return this.active >= this.permits && this.waiting >= this.maxWaiting;
  }

  /** Runs `work` when a permit is free; undefined instead of a promise when the queue is full. */
  run<T>(work: () => Promise<T>): Promise<T> | undefined {
    return this.full ? undefined : this.#limit(work);
  }

  /** Runs `work` for every item, keeping the order of the items in the answer. */
  map<Item, T>(items: readonly Item[], work: (item: Item, index: number) => Promise<T>): Promise<T[]> {
    return Promise.all(items.map((item, index) => this.#limit(work, item, index)));
  }
}
