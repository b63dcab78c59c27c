/** Shorter words have too many neighbours. */
const MIN_PREFIX_CHARS = 4;
const MIN_TYPO_CHARS = 5;
/** From this length on two typos are corrected, else one. */
const MIN_TWO_TYPOS_CHARS = 8;
/** Most words found for one word. */
const MAX_FOUND = 5;

/** The words of an index in order, to find those that resemble a word it does not contain. */
export class Vocabulary {
  /** Sorted by code units. */
  readonly #words: readonly string[];

  constructor(words: readonly string[]) {
    this.#words = words.toSorted();
  }

  /** Words that start with this one, shortest first; without any, words with its first letter and few other letters changed. */
  resembling(word: string): string[] {
    if (word.length >= MIN_PREFIX_CHARS) {
      const longer = this.#starting(word).toSorted((a, b) => a.length - b.length);
      if (longer.length > 0) return longer.slice(0, MAX_FOUND);
    }
    if (word.length < MIN_TYPO_CHARS) return [];
    const most = word.length >= MIN_TWO_TYPOS_CHARS ? 2 : 1;
    return this.#starting(word[0]!)
      .flatMap((other) => {
        const typos = Math.abs(other.length - word.length) > most ? most + 1 : distance(word, other);
        return typos <= most ? [{ other, typos }] : [];
      })
      .toSorted((a, b) => a.typos - b.typos)
      .slice(0, MAX_FOUND)
      .map(({ other }) => other);
  }

  #starting(prefix: string): string[] {
    let [low, high] = [0, this.#words.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#words[middle]! < prefix) low = middle + 1;
      else high = middle;
    }
    let end = low;
    while (this.#words[end]?.startsWith(prefix)) end += 1;
    return this.#words.slice(low, end);
  }
}

/** Insertions, deletions, replacements and swaps of neighbours that make one word the other (optimal string alignment). */
function distance(a: string, b: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const isSame = a[row - 1] === b[column - 1];
      let least = Math.min(previous[column]! + 1, current[column - 1]! + 1, previous[column - 1]! + (isSame ? 0 : 1));
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1])
        least = Math.min(least, beforePrevious[column - 2]! + 1);
      current.push(least);
    }
    beforePrevious = previous;
    previous = current;
  }
  return previous[b.length]!;
}
