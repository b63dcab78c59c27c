/**
 * A map that forgets what was used least recently, in two generations: entries that are used move to the younger one, and once that is
 * full with half of `max`, the older one is forgotten. So it has at most `max` entries and at least the half of them that was used last, and
 * a look-up is one function call; a list in the order of use takes seven.
 */
export class RecentMap<K, V> {
  #young = new Map<K, V>();
  #old = new Map<K, V>();
  readonly #half: number;
  readonly #dispose: ((value: V, key: K) => void) | undefined;

  /** @param options.dispose called for each entry that is forgotten or deleted, not for one that is replaced */
  constructor({ max, dispose }: { max: number; dispose?: (value: V, key: K) => void }) {
    this.#half = Math.max(1, Math.floor(max / 2));
    this.#dispose = dispose;
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  get(key: K): V | undefined {
    const value = this.#young.get(key);
    if (value !== undefined) return value;
    const older = this.#old.get(key);
    if (older !== undefined) this.set(key, older);
    return older;
  }

  /** As `get`, but does not count as a use. */
  peek(key: K): V | undefined {
    return this.#young.get(key) ?? this.#old.get(key);
  }

  set(key: K, value: V): void {
    this.#old.delete(key);
    if (this.#young.size >= this.#half && !this.#young.has(key)) this.#forget();
    this.#young.set(key, value);
  }

  delete(key: K): void {
    const entry = this.peek(key);
    this.#young.delete(key);
    this.#old.delete(key);
    if (entry !== undefined) this.#dispose?.(entry, key);
  }

  clear(): void {
    for (const [key] of this.entries()) this.delete(key);
  }

  values(): V[] {
    return [...this.#old.values(), ...this.#young.values()];
  }

  entries(): [K, V][] {
    return [...this.#old, ...this.#young];
  }

  #forget(): void {
    const forgotten = this.#old;
    this.#old = this.#young;
    this.#young = new Map();
    if (this.#dispose) for (const [key, value] of forgotten) this.#dispose(value, key);
  }
}
