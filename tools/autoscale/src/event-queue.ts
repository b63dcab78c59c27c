/** Things to happen, taken in order of time; of one instant in the order in which they were added. */
export class EventQueue {
  #heap: { at: number; order: number; happen: () => void }[] = [];
  #added = 0;

  add(at: number, happen: () => void): void {
    const heap = this.#heap;
    heap.push({ at, order: this.#added++, happen });
    for (let child = heap.length - 1; child > 0;) {
      const parent = (child - 1) >> 1;
      if (!this.#isBefore(child, parent)) return;
      this.#swap(child, parent);
      child = parent;
    }
  }

  /** Removes and returns the earliest. */
  take(): { at: number; happen: () => void } | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (!first || !last || heap.length === 0) return first;
    heap[0] = last;
    for (let parent = 0; ;) {
      let child = 2 * parent + 1;
      if (child >= heap.length) return first;
      if (child + 1 < heap.length && this.#isBefore(child + 1, child)) child += 1;
      if (!this.#isBefore(child, parent)) return first;
      this.#swap(child, parent);
      parent = child;
    }
  }

  #isBefore(a: number, b: number): boolean {
    const [one, other] = [this.#heap[a]!, this.#heap[b]!];
    return one.at === other.at ? one.order < other.order : one.at < other.at;
  }

  #swap(a: number, b: number): void {
    [this.#heap[a], this.#heap[b]] = [this.#heap[b]!, this.#heap[a]!];
  }
}
