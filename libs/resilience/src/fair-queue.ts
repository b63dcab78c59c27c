/** Owners with a remembered last turn. */
const MAX_OWNERS = 1_000;

/**
 * A queue with one line per owner. The owner that was served longest ago is next, so a flood of one owner does not delay the
 * others, and owners with few items do not starve it either.
 */
export class FairQueue<T> {
  private readonly lines = new Map<string, T[]>();
  /** Number of the last turn of each owner, the latest one last. */
  private readonly turns = new Map<string, number>();
  private turn = 0;

  /** Items of one owner. */
  waiting(owner: string): number {
    return this.lines.get(owner)?.length ?? 0;
  }

  push(owner: string, item: T): void {
    const line = this.lines.get(owner);
    if (line) line.push(item);
    else this.lines.set(owner, [item]);
  }

  /**
   * Removes the first item of the owner in turn; undefined if there is none.
   * @param mayRun owners that it refuses keep their turn
   */
  shift(mayRun: (owner: string) => boolean = () => true): T | undefined {
    let next: string | undefined;
    for (const owner of this.lines.keys()) {
      if (!mayRun(owner)) continue;
      if (next === undefined || this.lastTurn(owner) < this.lastTurn(next)) next = owner;
    }
    if (next === undefined) return undefined;
    const line = this.lines.get(next);
    const item = line?.shift();
    if (line?.length === 0) this.lines.delete(next);
    this.served(next);
    return item;
  }

  /** Removes an item; false if it was not waiting. */
  remove(owner: string, item: T): boolean {
    const line = this.lines.get(owner);
    const position = line?.indexOf(item) ?? -1;
    if (!line || position < 0) return false;
    line.splice(position, 1);
    if (line.length === 0) this.lines.delete(owner);
    return true;
  }

  /** Removes all items. */
  drain(): T[] {
    const items = [...this.lines.values()].flat();
    this.lines.clear();
    return items;
  }

  private lastTurn(owner: string): number {
    return this.turns.get(owner) ?? 0;
  }

  private served(owner: string): void {
    this.turns.delete(owner);
    this.turns.set(owner, (this.turn += 1));
    if (this.turns.size > MAX_OWNERS) this.turns.delete(this.turns.keys().next().value ?? '');
  }
}
