import type { RegisteredTool } from '@toolfleet/contracts';
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

/** One ranked tool. */
export interface RankedTool {
  name: string;
  /** BM25 score; only comparable inside one ranking. */
  score: number;
  /** Words of the task that matched. */
  terms: string[];
}

/**
 * Finds the tools whose names, descriptions and parameters fit a task in plain words: BM25 with prefixes and typos. One
 * ranker for `/tools/select` and `search_tools` (`provider_used: "keyword"`). Built once per list of tools.
 */
export class ToolRanker {
  readonly #index: MiniSearch<Entry>;

  constructor(tools: readonly RegisteredTool[]) {
    this.#index = new MiniSearch<Entry>({
      fields: ['name', 'description', 'category', 'tags', 'parameters'],
      tokenize: wordsOf,
      processTerm: (term) => (STOP_WORDS.has(term) ? null : stem(term)),
      searchOptions: {
        boost: { name: 4, tags: 2, category: 2, parameters: 0.5 },
        prefix: (term) => term.length > 3,
        fuzzy: (term) => (term.length > 5 ? 0.2 : false),
      },
    });
    this.#index.addAll(tools.map(entryOf));
  }

  /** At most `limit` tools, best first; none for a task without any known word. */
  rank(task: string, limit: number): RankedTool[] {
    return this.#index
      .search(task.slice(0, 4_000))
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
