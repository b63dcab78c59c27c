import type { Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { ToolRanker } from '@toolfleet/engine';
import type { ToolList } from './tool-list.js';

/** A found tool and how well it fits; scores compare inside one answer only. */
export interface FoundTool {
  tool: RegisteredTool;
  score: number;
}

/** Keyword search over what a caller may see; the index of a list is built when it is first asked. */
export class ToolSearch {
  private readonly rankers = new WeakMap<
    readonly RegisteredTool[],
    { ranker: ToolRanker; byName: Map<string, RegisteredTool> }
  >();

  constructor(private readonly list: ToolList) {}

  /** At most `limit` tools, best first. */
  async rank(principal: Principal, task: string, limit: number): Promise<FoundTool[]> {
    const { tools } = await this.list.all(principal);
    let known = this.rankers.get(tools);
    if (!known) {
      known = { ranker: new ToolRanker(tools), byName: new Map(tools.map((tool) => [tool.name, tool])) };
      this.rankers.set(tools, known);
    }
    const { ranker, byName } = known;
    return ranker.rank(task, limit).flatMap(({ name, score }) => {
      const tool = byName.get(name);
      return tool ? [{ tool, score }] : [];
    });
  }
}
