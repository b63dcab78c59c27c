import type { Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { ToolRanker } from './search/rank-tools.js';
import type { SearchHistory } from './search-history.js';
import type { ToolList, ToolPredicate } from './tool-list.js';
import { originalOf } from './toolset-view.js';

/** The index of a list of tools. */
interface ListIndex {
  ranker: ToolRanker;
  byName: ReadonlyMap<string, RegisteredTool>;
  /** Names in the list by the original names of records: toolsets rename tools. */
  shownNames: ReadonlyMap<string, string>;
}

/** Search over the tools a caller may see (docs/tool-search.md). The index of a list is built on first use. */
export class ToolSearch {
  readonly #indexes = new WeakMap<readonly RegisteredTool[], Promise<ListIndex>>();

  constructor(
    private readonly list: Pick<ToolList, 'all'>,
    private readonly history?: Pick<SearchHistory, 'called' | 'searched'>,
  ) {}

  /** At most `limit` of the wanted tools, best first. */
  async rank(principal: Principal, task: string, limit: number, isWanted?: ToolPredicate): Promise<RegisteredTool[]> {
    const { tools } = await this.list.all(principal);
    const { ranker, byName, shownNames } = await this.#index(tools);
    const called = [...(this.history?.called(principal, task) ?? [])].flatMap(([original, weight]) => {
      const shown = shownNames.get(original);
      return shown === undefined ? [] : [[shown, weight] as const];
    });
    const ranked = ranker.rank(task, isWanted ? tools.length : limit, new Map(called));
    const wanted = ranked.flatMap(({ name }) => {
      const tool = byName.get(name);
      return tool && (!isWanted || isWanted(tool)) ? [tool] : [];
    });
    const found = wanted.slice(0, limit);
    const names = found.map((tool) => originalOf(tool).name);
    this.history?.searched(principal, task, names);
    return found;
  }

  #index(tools: readonly RegisteredTool[]): Promise<ListIndex> {
    let index = this.#indexes.get(tools);
    if (!index) {
      index = ToolRanker.build(tools).then((ranker) => ({
        ranker,
        byName: new Map(tools.map((tool) => [tool.name, tool])),
        shownNames: new Map(tools.map((tool) => [originalOf(tool).name, tool.name])),
      }));
      this.#indexes.set(tools, index);
    }
    return index;
  }
}
