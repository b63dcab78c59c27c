import pLimit from 'p-limit';

/** Bounded concurrency with a bounded queue. */
export class Semaphore {
  readonly #limit: ReturnType<typeof pLimit>;

  constructor(
    readonly permits: number,
    /** Most callers that wait; more are refused. */
    readonly maxWaiting: number = Number.POSITIVE_INFINITY,
  ) {
    this.#limit = pLimit(permits);
  }

  /** Work running now. */
  get active(): number {
    return this.#limit.activeCount;
  }

  /** Callers waiting now. */
  get waiting(): number {
    return this.#limit.pendingCount;
  }

  /** True when the next caller would be refused. */
  get full(): boolean {
    return this.active >= this.permits && this.waiting >= this.maxWaiting;
  }

  /** Runs `work` when a permit is free; returns undefined when the queue is full. */
  run<T>(work: () => Promise<T>): Promise<T> | undefined {
    return this.full ? undefined : this.#limit(work);
  }

  /** Runs `work` for every item; the results are in the order of the items. */
  map<Item, T>(items: readonly Item[], work: (item: Item, index: number) => Promise<T>): Promise<T[]> {
    return Promise.all(items.map((item, index) => this.#limit(work, item, index)));
  }
}

/** Runs the work of one key one after the other, in the order of the calls; work of different keys runs concurrently. */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Runs `work` after all earlier work of the key has settled. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const result = (this.#last.get(key) ?? Promise.resolve()).then(work);
    const settled = result.catch(() => undefined);
    this.#last.set(key, settled);
    try {
      return await result;
    } finally {
      if (this.#last.get(key) === settled) this.#last.delete(key);
    }
  }
}
