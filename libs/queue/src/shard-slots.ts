/** Takes the jobs of one shard. */
type Taker = object;

/**
 * The slots of one worker, shared by the takers of its shards. A taker takes a slot before it asks for a job, so the slots bound the jobs of
 * all shards together. A slot goes to the waiting taker that has the fewest, of several to the one that has waited longest. A taker uses
 * the slot of a job that ended for the next job of its shard, to save a request, unless a waiting one has none or two fewer.
 */
export class ShardSlots {
  #free: number;
  readonly #held = new Map<Taker, number>();
  /** Longest waiting first. */
  readonly #waiting: { taker: Taker; resolve: () => void }[] = [];
  #given = Promise.withResolvers<void>();

  constructor(private readonly total: number) {
    this.#free = total;
  }

  /** Resolves when the taker has a slot. */
  take(taker: Taker): Promise<void> {
    if (this.tryTake(taker)) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ taker, resolve }));
  }

  /** Takes a slot if one is free. */
  tryTake(taker: Taker): boolean {
    if (this.#free === 0) return false;
    this.#free -= 1;
    this.#held.set(taker, this.#heldBy(taker) + 1);
    return true;
  }

  /** Returns a slot, for a taker that waits. */
  give(taker: Taker): void {
    const left = this.#heldBy(taker) - 1;
    if (left > 0) this.#held.set(taker, left);
    else this.#held.delete(taker);
    this.#free += 1;
    const fewest = Math.min(...this.#waiting.map((waiting) => this.#heldBy(waiting.taker)));
    const at = this.#waiting.findIndex((waiting) => this.#heldBy(waiting.taker) === fewest);
    const next = at < 0 ? undefined : this.#waiting.splice(at, 1)[0];
    if (next) {
      this.tryTake(next.taker);
      next.resolve();
    }
    this.#given.resolve();
    this.#given = Promise.withResolvers<void>();
  }

  /** Whether a taker may use one of its slots for another job. */
  mayKeep(taker: Taker): boolean {
    const held = this.#heldBy(taker);
    return this.#waiting.every((waiting) => {
      const others = this.#heldBy(waiting.taker);
      return waiting.taker === taker || (others > 0 && held - others < 2);
    });
  }

  /** Resolves when a taker does not have all slots itself. */
  async untilSpare(taker: Taker): Promise<void> {
    while (this.#heldBy(taker) === this.total) await this.#given.promise;
  }

  #heldBy(taker: Taker): number {
    return this.#held.get(taker) ?? 0;
  }
}
