import { type Origin, type Principal, ToolError } from '@toolfleet/contracts';
import { type RegisteredTool, TOOL_NAME_PATTERN } from '@toolfleet/contracts/tool-definition';
import { quarantineRefusal, toPublicTool, ToolRanker } from '@toolfleet/engine';
import { mayUse } from '@toolfleet/engine/access';
import type { DefinitionCache } from './definition-cache.js';

/** One page of tools, or all of them. */
export interface ToolPage {
  tools: RegisteredTool[];
  /** Cursor of the next page; absent on the last one. */
  next?: string;
  /** The registry is unavailable and the list may be outdated. */
  stale: boolean;
}

/** Restricts a list of tools. */
export interface ToolFilter {
  /** Category or tag. */
  category?: string;
  limit?: number;
  cursor?: string;
}

/**
 * The catalog as one caller may see it, on every entry point: without dangerous and quarantined tools and those of other tenants.
 * Public callers, the default, do not see argument values that are refused to them. A tool that acts for an internal caller also
 * sees dangerous tools, because only names from this list reach its sub-agents; policy decides on each of their calls.
 */
export class ToolList {
  /** Visible tools by list and globs. Lists are replaced and never changed, so an entry is valid as long as its list. */
  private readonly visible = new WeakMap<readonly RegisteredTool[], Map<string, RegisteredTool[]>>();

  constructor(private readonly cache: DefinitionCache) {}

  /** Visible tools by name in byte order. The same array as long as nothing changed. */
  async all(
    principal: Principal,
    origin: Origin = 'public',
  ): Promise<{ tools: RegisteredTool[]; version: number; stale: boolean }> {
    const { tools, version, stale } = await this.cache.list(principal.tenantId);
    let byGlobs = this.visible.get(tools);
    if (!byGlobs) this.visible.set(tools, (byGlobs = new Map()));
    const listsDangerous = principal.via === 'delegation' && origin === 'internal';
    const scope = `${origin} ${listsDangerous} ${JSON.stringify(principal.tools)}`;
    let shown = byGlobs.get(scope);
    if (!shown) {
      shown = tools.filter(
        (tool) => !tool.quarantine && (listsDangerous || !tool.dangerous) && mayUse(principal.tools, tool),
      );
      if (origin === 'public') shown = shown.map(toPublicTool);
      byGlobs.set(scope, shown);
    }
    return { tools: shown, version, stale };
  }

  /**
   * A page, or all tools without a limit. A cursor is the last name of the previous page, so it stays valid when tools change.
   * @throws ToolError REQUEST_INVALID for a malformed cursor
   */
  async page(principal: Principal, { category, limit, cursor }: ToolFilter, origin?: Origin): Promise<ToolPage> {
    const { tools, stale } = await this.all(principal, origin);
    let shown =
      category === undefined
        ? tools
        : tools.filter((tool) => tool.category === category || tool.tags?.includes(category));
    if (cursor !== undefined) {
      const after = readCursor(cursor);
      shown = shown.filter((tool) => tool.name > after);
    }
    const last = limit !== undefined && shown.length > limit ? shown[limit - 1] : undefined;
    if (!last) return { tools: shown, stale };
    return { tools: shown.slice(0, limit), next: toCursor(last.name), stale };
  }

  /**
   * One tool by name or alias, as a public caller sees it.
   * @throws ToolError TOOL_NOT_FOUND, also for tools of other tenants; TOOL_DANGEROUS; TOOL_QUARANTINED
   */
  async one(principal: Principal, name: string): Promise<RegisteredTool> {
    const tool = await this.cache.get(name, principal.tenantId);
    if (!tool || !mayUse(principal.tools, tool)) {
      throw new ToolError('TOOL_NOT_FOUND', { message: `Tool '${name}' not found`, details: { tool: name } });
    }
    if (tool.dangerous) throw new ToolError('TOOL_DANGEROUS');
    if (tool.quarantine) throw quarantineRefusal(tool.name, tool.quarantine);
    return toPublicTool(tool);
  }
}

const toCursor = (name: string): string => Buffer.from(name).toString('base64url');

function readCursor(cursor: string): string {
  const name = Buffer.from(cursor, 'base64url').toString();
  if (TOOL_NAME_PATTERN.test(name) && toCursor(name) === cursor) return name;
  throw new ToolError('REQUEST_INVALID', {
    message: 'cursor is not valid for this list; take it from the Link header of the previous page',
    details: { fields: ['cursor'] },
  });
}

/** A tool and how well it matches. Scores are comparable only within one answer. */
interface FoundTool {
  tool: RegisteredTool;
  score: number;
}

/** Keyword search over the tools a caller may see. The index of a list is built on first use. */
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
