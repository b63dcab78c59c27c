import { setImmediate } from 'node:timers/promises';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { searchedWords, type SearchedWord, toolWords } from './tool-words.js';
import { Vocabulary } from './vocabulary.js';

/** A tool found by a search. */
interface RankedTool {
  name: string;
  /** Up to 1 for the best tool by words, and up to `HISTORY_WEIGHT` more; comparable within one ranking only. */
  score: number;
}

/** BM25: count at which repetitions of a word reach half of their effect. */
const K1 = 1.2;
/** Share of the score that a tool keeps if it covers hardly anything of the task. */
const TASK_FLOOR = 0.4;
/** Share of the score that a tool keeps if the task covers nothing of its name: `claims_export_policy` is about more than exports. */
const NAME_FLOOR = 0.3;
/** Most tools found by words; further ones are not ranked. */
const MAX_BY_WORDS = 100;
/** Tools with words that are read before others get a turn: a few ms of work. */
const READ_AT_ONCE = 100;
/** Most that history adds. A tool with other evidence less than this below the best one can come first by it. */
export const HISTORY_WEIGHT = 0.25;

/** The tools that contain a stem. */
interface Postings {
  /** Positions in the list of tools. */
  positions: Uint32Array;
  /** Score that the stem gives each of them, from 0 to the rarity of the stem. */
  impacts: Float32Array;
  /** Share of each tool's name that the stem is, by rarity; 0 when the name does not contain it. */
  nameShares: Float32Array;
  /** Inverse document frequency. */
  rarity: number;
}

/**
 * Finds the tools that fit a task in plain words: BM25 over name, description, category, tags, arguments and examples, with
 * stems, related words, and prefixes and corrections of words that no tool contains; raised by history, if any.
 * `/tools/select` and `search_tools` share it. Build one per list of tools.
 */
export class ToolRanker {
  readonly #names: readonly string[];
  readonly #positions: ReadonlyMap<string, number>;
  readonly #postings = new Map<string, Postings>();
  readonly #vocabulary: Vocabulary;
  /** Sums of one ranking by position; all 0 between rankings. */
  readonly #sums: {
    score: Float64Array;
    task: Float64Array;
    name: Float64Array;
    best: Float64Array;
    touched: Uint32Array;
  };

  /** As the constructor, with pauses for other work: reading the words of 10,000 tools takes about half a second. */
  static async build(tools: readonly RegisteredTool[]): Promise<ToolRanker> {
    for (let start = 0; start < tools.length; start += READ_AT_ONCE) {
      for (const tool of tools.slice(start, start + READ_AT_ONCE)) toolWords(tool);
      await setImmediate();
    }
    return new ToolRanker(tools);
  }

  constructor(tools: readonly RegisteredTool[]) {
    this.#names = tools.map((tool) => tool.name);
    this.#positions = new Map(this.#names.map((name, position) => [name, position]));
    const sums = () => new Float64Array(tools.length);
    this.#sums = { score: sums(), task: sums(), name: sums(), best: sums(), touched: new Uint32Array(tools.length) };
    this.#index(tools);
    this.#vocabulary = new Vocabulary([...this.#postings.keys()]);
  }

  #index(tools: readonly RegisteredTool[]): void {
    const frequency = new Map<string, number>();
    for (const tool of tools)
      for (const stem of toolWords(tool).stems) frequency.set(stem, (frequency.get(stem) ?? 0) + 1);
    for (const [stem, length] of frequency) {
      const rarity = Math.log(1 + (tools.length - length + 0.5) / (length + 0.5));
      const [impacts, nameShares] = [new Float32Array(length), new Float32Array(length)];
      this.#postings.set(stem, { positions: new Uint32Array(length), impacts, nameShares, rarity });
      frequency.set(stem, 0);
    }
    for (const [position, tool] of tools.entries()) {
      const { stems, counts, named } = toolWords(tool);
      let nameRarity = 0;
      for (let index = 0; index < named; index += 1) nameRarity += this.#postings.get(stems[index]!)!.rarity;
      for (let index = 0; index < stems.length; index += 1) {
        const stem = stems[index]!;
        const { positions, impacts, nameShares, rarity } = this.#postings.get(stem)!;
        const next = frequency.get(stem)!;
        frequency.set(stem, next + 1);
        const count = counts[index]!;
        positions[next] = position;
        impacts[next] = (rarity * count * (K1 + 1)) / (K1 + count);
        if (index < named) nameShares[next] = rarity / nameRarity;
      }
    }
  }

  /**
   * At most `limit` tools, best first; none for a task without any known word and without history.
   * @param called tools that were called after similar tasks, by name, with a weight from 0 to 1; unknown names are ignored
   */
  rank(task: string, limit: number, called: ReadonlyMap<string, number> = new Map()): RankedTool[] {
    const scores = normalise(this.#byWords(task));
    for (const [name, weight] of called) {
      const position = this.#positions.get(name);
      if (position !== undefined)
        scores.set(position, (scores.get(position) ?? 0) + HISTORY_WEIGHT * Math.min(1, Math.max(0, weight)));
    }
    return [...scores]
      .toSorted(([a, x], [b, y]) => y - x || a - b)
      .slice(0, Math.max(0, limit))
      .map(([position, score]) => ({ name: this.#names[position]!, score }));
  }

  /** The best tools by their words, with scores, best first. */
  #byWords(task: string): [position: number, score: number][] {
    const { score, task: covered, name, best, touched } = this.#sums;
    const found: number[] = [];
    let whole = 0;
    for (const words of Map.groupBy(this.#known(searchedWords(task)), (word) => word.origin).values()) {
      let reached = 0;
      let strongest = 0;
      for (const { stem, weight } of words) {
        const { positions, impacts, nameShares, rarity } = this.#postings.get(stem)!;
        strongest = Math.max(strongest, weight * rarity);
        for (let index = 0; index < positions.length; index += 1) {
          const position = positions[index]!;
          const sum = weight * impacts[index]!;
          const before = best[position]!;
          if (before === 0) touched[reached++] = position;
          if (sum > before) best[position] = sum;
          name[position]! += nameShares[index]!;
        }
      }
      whole += strongest;
      for (let index = 0; index < reached; index += 1) {
        const position = touched[index]!;
        if (score[position] === 0) found.push(position);
        score[position]! += best[position]!;
        covered[position]! += strongest;
        best[position] = 0;
      }
    }
    const all = Float64Array.from(found, (position) => {
      const ofTask = TASK_FLOOR + (1 - TASK_FLOOR) * (covered[position]! / whole);
      const ofName = NAME_FLOOR + (1 - NAME_FLOOR) * Math.min(1, name[position]!);
      const sum = score[position]! * ofTask * ofName;
      score[position] = covered[position] = name[position] = 0;
      return sum;
    });
    // Sorting numbers to find the lowest score that counts takes a tenth of the time of sorting thousands of pairs.
    const lowest = all.length <= MAX_BY_WORDS ? 0 : all.toSorted()[all.length - MAX_BY_WORDS]!;
    return found
      .flatMap((position, index): [number, number][] => (all[index]! >= lowest ? [[position, all[index]!]] : []))
      .toSorted(([a, x], [b, y]) => y - x || a - b)
      .slice(0, MAX_BY_WORDS);
  }

  /** The words that tools contain, and for all others the words of which they may be a prefix or a misspelling. */
  #known(words: readonly SearchedWord[]): SearchedWord[] {
    let corrected = 0;
    return words.flatMap((word) => {
      if (this.#postings.has(word.stem)) return [word];
      if (word.weight < 1 || (corrected += 1) > MAX_CORRECTED) return [];
      return this.#vocabulary.resembling(word.stem).map((stem) => ({ ...word, stem, weight: RESEMBLING_WEIGHT }));
    });
  }
}

/** Words of a task with a search for prefixes and typos. */
const MAX_CORRECTED = 4;
/** Weight of a word of which a searched word may be a prefix or a misspelling. */
const RESEMBLING_WEIGHT = 0.5;

/** Scores with 1 for the best. */
function normalise(scored: readonly [number, number][]): Map<number, number> {
  const best = scored[0]?.[1] ?? 1;
  return new Map(scored.map(([position, score]) => [position, score / best]));
}
