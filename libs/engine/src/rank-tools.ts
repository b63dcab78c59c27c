import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import MiniSearch from 'minisearch';

/** The searched fields of a tool. */
interface IndexedTool {
  id: string;
  name: string;
  description: string;
  category: string;
  tags: string;
  parameters: string;
}

/** Words that do not help to find a tool. */
const STOP_WORDS = new Set(
  'a an and any are as at be by can could do does for from get give have how i in into is it its let me my need of on or our please show so some tell that the their them then there this to us use using want we what when where which who will with would you your'.split(
    ' ',
  ),
);

/** Searched words of a task; the rest of a long text is ignored. */
const MAX_WORDS = 50;
/** Words of a task whose typos are corrected. Each is compared with all words of the index: 15 ms for 5,000 tools. */
const MAX_CORRECTED = 4;

/** A tool found by a search. */
interface RankedTool {
  name: string;
  /** BM25 score; comparable within one ranking only. */
  score: number;
  /** Words of the task that matched. */
  terms: string[];
}

/**
 * Finds the tools that fit a task in plain words, by name, description, category, tags and parameters: BM25 with prefix matches,
 * and with typo correction for words that no tool contains. `/tools/select` and `search_tools` share it (`provider_used:
 * "keyword"`). Build one per list of tools.
 */
export class ToolRanker {
  readonly #index: MiniSearch<IndexedTool>;
  readonly #known = new Set<string>();

  constructor(tools: readonly RegisteredTool[]) {
    this.#index = new MiniSearch<IndexedTool>({
      fields: ['name', 'description', 'category', 'tags', 'parameters'],
      tokenize: splitWords,
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
    this.#index.addAll(tools.map(toIndexedTool));
  }

  /** At most `limit` tools, best first; none for a task without any known word. */
  rank(task: string, limit: number): RankedTool[] {
    const words = splitWords(task.slice(0, 4_000)).slice(0, MAX_WORDS).join(' ');
    let corrected = 0;
    const fuzzy = (term: string): number | boolean =>
      term.length > 5 && !this.#known.has(term) && (corrected += 1) <= MAX_CORRECTED ? 0.2 : false;
    return this.#index
      .search(words, { fuzzy })
      .slice(0, Math.max(0, limit))
      .map((hit) => ({ name: String(hit.id), score: hit.score, terms: hit.terms }));
  }
}

function toIndexedTool(tool: RegisteredTool): IndexedTool {
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

/** Splits names and sentences into words: `webSearch_v2` gives web, search, v2. */
function splitWords(text: string): string[] {
  return (
    text
      .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? []
  );
}

/** Removes common English endings, so that "calculations" finds "calculate". */
function stem(term: string): string {
  return term.length > 5
    ? term.replace(/(?:ations?|ating|ated|ates?|ators?|ings?|ed|es|s)$/, '')
    : term.replace(/s$/, '');
}
