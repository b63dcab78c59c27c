import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import MiniSearch from 'minisearch';

/** What is searched of a tool. */
interface Entry {
  id: string;
  name: string;
  description: string;
  category: string;
  tags: string;
  parameters: string;
}

/** Words that say nothing about which tool is meant. */
const STOP_WORDS = new Set(
  'a an and any are as at be by can could do does for from get give have how i in into is it its let me my need of on or our please show so some tell that the their them then there this to us use using want we what when where which who will with would you your'.split(
    ' ',
  ),
);

/** Words of a task that are looked for; the rest of a long one says nothing more about which tool is meant. */
const MAX_WORDS = 50;
/** Words of a task that are corrected: each is compared with every word of the index (5,000 tools: some 15 ms). */
const MAX_CORRECTED = 4;

/** One ranked tool. */
export interface RankedTool {
  name: string;
  /** BM25 score; only comparable inside one ranking. */
  score: number;
  /** Words of the task that matched. */
  terms: string[];
}

/**
 * Finds the tools whose names, descriptions and parameters fit a task in plain words: BM25 with prefixes, and with typos of words that no tool uses. One
 * ranker for `/tools/select` and `search_tools` (`provider_used: "keyword"`). Built once per list of tools.
 */
export class ToolRanker {
  readonly #index: MiniSearch<Entry>;
  readonly #known = new Set<string>();

  constructor(tools: readonly RegisteredTool[]) {
    this.#index = new MiniSearch<Entry>({
      fields: ['name', 'description', 'category', 'tags', 'parameters'],
      tokenize: wordsOf,
      processTerm: (term) => {
        if (STOP_WORDS.has(term)) return null;
        const word = stem(term);
        this.#known.add(word);
        return word;
      },
      searchOptions: {
        boost: { name: 4, tags: 2, category: 2, parameters: 0.5 },
        processTerm: (term) => (STOP_WORDS.has(term) ? null : stem(term)),
        prefix: (term) => term.length > 3,
      },
    });
    this.#index.addAll(tools.map(entryOf));
  }

  /** At most `limit` tools, best first; none for a task without any known word. */
  rank(task: string, limit: number): RankedTool[] {
    const words = wordsOf(task.slice(0, 4_000)).slice(0, MAX_WORDS).join(' ');
    let corrected = 0;
    const fuzzy = (term: string): number | boolean =>
      term.length > 5 && !this.#known.has(term) && (corrected += 1) <= MAX_CORRECTED ? 0.2 : false;
    return this.#index
      .search(words, { fuzzy })
      .slice(0, Math.max(0, limit))
      .map((hit) => ({ name: String(hit.id), score: hit.score, terms: hit.terms }));
  }
}

function entryOf(tool: RegisteredTool): Entry {
  const properties = tool.input_schema.properties;
  return {
    id: tool.name,
    name: tool.name,
    description: tool.description,
    category: tool.category,
    tags: (tool.tags ?? []).join(' '),
    parameters: typeof properties === 'object' && properties !== null ? Object.keys(properties).join(' ') : '',
  };
}

/** Words of names and sentences: `webSearch_v2` is web, search, v2. */
function wordsOf(text: string): string[] {
  return (
    text
      .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? []
  );
}

/** The plainest English endings, so that "calculations" finds "calculate". */
function stem(term: string): string {
  return term.length > 5
    ? term.replace(/(?:ations?|ating|ated|ates?|ators?|ings?|ed|es|s)$/, '')
    : term.replace(/s$/, '');
}
