/** Holds a member until it is removed. */
interface Held<T> {
  member: T | undefined;
}

/**
 * Objects of calls in progress, in the order in which they were added. Use it instead of a `Set` of objects that come and go with
 * every call.
 *
 * V8 moves a `Set` or `Map` to a new table after a few additions, and the old table points to the new one. The tables of a collection that
 * lives long are in the old generation, so a dead table keeps its successor, and members that were removed since, through all minor
 * collections: V8 copies a third of such members, with all that they refer to, to the old generation. Here tables refer to members through
 * holders that are emptied.
 */
export class InFlight<T extends object> implements Iterable<T> {
  readonly #held = new Set<Held<T>>();

  get size(): number {
    return this.#held.size;
  }

  /** Adds a member. @returns a function that removes it; calling it again has no effect */
  add(member: T): () => void {
    const held: Held<T> = { member };
    this.#held.add(held);
    return () => {
      held.member = undefined;
      this.#held.delete(held);
    };
  }

  /** Members may be added and removed meanwhile, as in a `Set`. */
  *[Symbol.iterator](): Generator<T, void> {
    for (const { member } of this.#held) if (member) yield member;
  }
}

/** `InFlight` with keys, instead of a `Map`. Tables keep the keys, so they should be short texts or numbers. */
export class InFlightMap<K extends string | number, T extends object> {
  readonly #held = new Map<K, Held<T>>();

  get size(): number {
    return this.#held.size;
  }

  get(key: K): T | undefined {
    return this.#held.get(key)?.member;
  }

  set(key: K, member: T): void {
    this.delete(key);
    this.#held.set(key, { member });
  }

  delete(key: K): void {
    const held = this.#held.get(key);
    if (!held) return;
    held.member = undefined;
    this.#held.delete(key);
  }

  clear(): void {
    for (const key of this.#held.keys()) this.delete(key);
  }

  /** Members may be added and removed meanwhile, as in a `Map`. */
  *values(): Generator<T, void> {
    for (const { member } of this.#held.values()) if (member) yield member;
  }
}
