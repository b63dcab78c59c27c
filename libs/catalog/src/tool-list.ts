import { type Origin, type Principal, ToolError } from '@toolfleet/contracts';
import { isForModels, type RegisteredTool, TOOL_NAME_PATTERN } from '@toolfleet/contracts/tool-definition';
import { quarantineRefusal } from '@toolfleet/engine';
import { toPublicTool } from './format-tool.js';
import type { ToolsetRef } from '@toolfleet/contracts/toolset';
import { mayUse, toolAllowed } from '@toolfleet/engine/access';
import { withSimilarTools } from './similar-tools.js';
import type { DefinitionCache } from './definition-cache.js';
import type { ToolsetView } from './toolset-view.js';
import { hasToolset, type Toolsets } from './toolsets.js';

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
  /** Name of a source: a remote server, an OpenAPI document, a plugin. */
  source?: string;
  limit?: number;
  cursor?: string;
}

/**
 * The catalog as one caller may see it, on every entry point: without dangerous and quarantined tools and other tenants'.
 * Public callers, the default, do not see argument values that are refused to them. A tool that acts for an internal caller also
 * sees dangerous tools, because only names from this list reach its sub-agents; policy decides on each of their calls.
 */
export class ToolList {
  /** Visible tools by list and globs. Lists are replaced and never changed, so an entry is valid as long as its list. */
  private readonly visible = new WeakMap<readonly RegisteredTool[], Map<string, RegisteredTool[]>>();

  /** Tools of toolsets by visible tools and by toolset, as long as its view is the same. */
  private readonly ofToolsets = new WeakMap<readonly RegisteredTool[], Map<string, ToolsetTools>>();

  constructor(
    private readonly cache: DefinitionCache,
    private readonly toolsets?: Toolsets,
  ) {}

  /**
   * Visible tools by name in byte order, a toolset's in its order. The same array as long as nothing changed.
   * @param forApps also tools that are not for models, but for the pages of MCP Apps
   */
  async all(
    principal: Principal,
    origin: Origin = 'public',
    forApps = false,
  ): Promise<{ tools: RegisteredTool[]; version: number; stale: boolean }> {
    const { tools, version, stale } = await this.cache.list(principal.tenantId);
    let byGlobs = this.visible.get(tools);
    if (!byGlobs) this.visible.set(tools, (byGlobs = new Map()));
    const listsDangerous = principal.via === 'delegation' && origin === 'internal';
    const scope = `${origin} ${listsDangerous} ${forApps} ${JSON.stringify(principal.tools)}`;
    let shown = byGlobs.get(scope);
    if (!shown) {
      shown = tools.filter(
        (tool) =>
          !tool.quarantine &&
          (listsDangerous || !tool.dangerous) &&
          (forApps || isForModels(tool)) &&
          mayUse(principal.tools, tool),
      );
      if (origin === 'public') shown = shown.map(toPublicTool);
      byGlobs.set(scope, shown);
    }
    return { tools: hasToolset(principal) ? await this.inToolset(principal, shown) : shown, version, stale };
  }

  /** Visible tools under their original names, as limits, breakers and usage name them; with a toolset, those that it shows. */
  async originals(principal: Principal): Promise<RegisteredTool[]> {
    const { tools } = await this.all({ ...principal, toolset: undefined });
    if (!hasToolset(principal) || !this.toolsets) return tools;
    return (await this.toolsets.view(principal.tenantId, principal.toolset)).select(tools);
  }

  /** Visible tools as the toolset of the caller shows them. */
  private async inToolset(
    { tenantId, toolset }: Principal & { toolset: ToolsetRef },
    visible: RegisteredTool[],
  ): Promise<RegisteredTool[]> {
    if (!this.toolsets) return [];
    const view = await this.toolsets.view(tenantId, toolset);
    let known = this.ofToolsets.get(visible);
    if (!known) this.ofToolsets.set(visible, (known = new Map()));
    const { tools: globs } = toolset;
    const key = JSON.stringify([view.name, view.version, globs ?? null]);
    const made = known.get(key);
    if (made?.view === view) return made.tools;
    const all = view.list(visible);
    const tools = globs ? all.filter(({ name }) => toolAllowed(globs, name)) : all;
    known.set(key, { view, tools });
    return tools;
  }

  /**
   * A page, or all tools without a limit. A cursor is the last name of the previous page, so it stays valid when tools change.
   * @throws ToolError REQUEST_INVALID for a malformed cursor
   */
  async page(principal: Principal, filter: ToolFilter, origin?: Origin): Promise<ToolPage> {
    const { tools, stale } = await this.all(principal, origin);
    return { ...pageOf(tools, filter), stale };
  }

  /**
   * One tool by name or alias, as a public caller sees it.
   * @throws ToolError TOOL_NOT_FOUND, also for tools of other tenants; TOOL_DANGEROUS; TOOL_QUARANTINED
   */
  async one(principal: Principal, name: string): Promise<RegisteredTool> {
    const found = hasToolset(principal)
      ? await this.toolsets?.find(principal, name).catch(async (error: unknown) => {
          throw await withSimilarTools(error, name, this, principal);
        })
      : undefined;
    const tool = found?.tool ?? (await this.cache.get(name, principal.tenantId));
    if (!tool || !mayUse(principal.tools, tool)) {
      const unknown = new ToolError('TOOL_NOT_FOUND', { message: `Tool '${name}' not found`, details: { tool: name } });
      throw await withSimilarTools(unknown, name, this, principal);
    }
    if (tool.dangerous) throw new ToolError('TOOL_DANGEROUS');
    if (tool.quarantine) throw quarantineRefusal(name, tool.quarantine);
    const shown = toPublicTool(tool);
    return found ? found.view.show(shown) : shown;
  }
}

/** The tools of a toolset, computed from its view. */
interface ToolsetTools {
  view: ToolsetView;
  tools: RegisteredTool[];
}

/** How callers may name a source: its name, without its tenant (`crm@acme`), and either after its kind, as `fleetctl sources` shows it. */
function namesOf({ kind, name }: RegisteredTool['source']): string[] {
  const short = name.split('@', 1)[0]!;
  return [name, short, `${kind}:${name}`, `${kind}:${short}`];
}

/** A filter of the tools that a caller may see. */
export type ToolPredicate = (tool: RegisteredTool) => boolean;

/** Whether a tool has the category and the source of a filter; undefined for a filter that names neither. */
export function matching({ category, source }: ToolFilter): ToolPredicate | undefined {
  if (category === undefined && source === undefined) return undefined;
  return (tool) =>
    (category === undefined || tool.category === category || tool.tags?.includes(category) === true) &&
    (source === undefined || namesOf(tool.source).includes(source));
}

/**
 * The page of a list at a cursor, in the order of the list.
 * @throws ToolError REQUEST_INVALID for a malformed cursor
 */
export function pageOf(
  tools: readonly RegisteredTool[],
  { limit, cursor, ...filter }: ToolFilter,
): Omit<ToolPage, 'stale'> {
  let shown = [...tools];
  if (cursor !== undefined) {
    const after = readCursor(cursor);
    const at = tools.findIndex(({ name }) => name === after);
    shown = at < 0 ? tools.filter((tool) => tool.name > after) : tools.slice(at + 1);
  }
  const isWanted = matching(filter);
  if (isWanted) shown = shown.filter(isWanted);
  const last = limit !== undefined && shown.length > limit ? shown[limit - 1] : undefined;
  return last ? { tools: shown.slice(0, limit), next: toCursor(last.name) } : { tools: shown };
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
