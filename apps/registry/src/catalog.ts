import { ToolError } from '@toolfleet/contracts';
import type { DefinitionList, DefinitionListReply } from '@toolfleet/contracts/registry';
import { executorClass } from '@toolfleet/contracts/subjects';
import { isFeature, type RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { RecentMap, withTimeout, type Clock } from '@toolfleet/resilience';
import type { Quarantine, StoredTool } from './definition-store.js';
import type { DefinitionStore } from './redis-definition-store.js';
import { toolKey } from './tool-key.js';

/** Tools per page by default and at most. */
const DEFAULT_PAGE = 500;
const MAX_PER_PAGE = 1_000;
/** Keeps a page well below the payload limit of NATS (16 MB). */
const MAX_PAGE_CHARS = 4 * 1024 * 1024;
/** A store that takes longer counts as unavailable. Callers wait at most 5 s for their answer. */
const STORE_TIMEOUT_MS = 1_500;
/** Tenants with a cached view. */
const MAX_VIEWS = 200;

/** A tool as readers receive it, and its size in characters of JSON. */
interface RenderedTool {
  tool: RegisteredTool;
  chars: number;
  /** Another one for each change. */
  id: number;
}

/** The version since which a tenant sees a tool unchanged. */
interface Appearance {
  id: number;
  since: number;
}

/** What one tenant sees. */
interface View {
  /** Sorted by name in byte order. */
  listed: RegisteredTool[];
  byName: Map<string, RegisteredTool>;
  /** Sizes of `listed` in characters of JSON, for paging. */
  chars: number[];
  /** Of `listed`, by name. */
  appearances: ReadonlyMap<string, Appearance>;
}

/**
 * The read side: all definitions in memory, updated to the store's version before each answer. While the store is unavailable,
 * the last known state is served, so that known tools keep working.
 */
export class Catalog {
  private readonly tools = new Map<string, StoredTool>();
  /** Rendered tools by stored tool, so that one change does not render thousands of tools again. */
  private readonly rendered = new WeakMap<StoredTool, RenderedTool>();
  private away = new Set<string>();
  private views = new Map<string, View>();
  private renderings = 0;
  /** What tenants saw last. */
  private readonly seen = new RecentMap<string, View['appearances']>({ max: MAX_VIEWS });
  private tenants = new Map<string, Set<string>>();
  private known = 0;
  private refreshing: Promise<void> = Promise.resolve();
  private isLoaded = false;

  constructor(
    private readonly store: DefinitionStore,
    private readonly clock: Clock,
  ) {}

  /** Version of the state in memory. */
  get version(): number {
    return this.known;
  }

  /**
   * Reads what changed since the last refresh. While the store is unavailable, the known state stays.
   * @throws ToolError SERVICE_UNAVAILABLE when the store was never read
   */
  async refresh(): Promise<void> {
    try {
      await withTimeout(this.clock, STORE_TIMEOUT_MS, this.readChanges());
    } catch (error) {
      if (!this.isLoaded)
        throw new ToolError('SERVICE_UNAVAILABLE', {
          message: 'Tool definitions are unavailable; retry later',
          cause: error,
        });
    }
  }

  private async readChanges(): Promise<void> {
    if (this.isLoaded && (await this.store.version()) === this.known) return;
    // One at a time: an older delta applied after a newer one would undo it.
    const turn = this.refreshing.then(() => this.catchUp());
    this.refreshing = turn.catch(() => undefined);
    await turn;
  }

  private async catchUp(): Promise<void> {
    const delta = await this.store.changesSince(this.known);
    if (delta.version < this.known) {
      // The store was emptied or replaced.
      this.tools.clear();
      this.known = 0;
      return this.catchUp();
    }
    for (const key of delta.removed) this.tools.delete(key);
    for (const tool of delta.tools) this.tools.set(tool.key, tool);
    this.away = new Set(delta.away);
    this.known = delta.version;
    this.isLoaded = true;
    this.views = new Map();
    this.tenants = keysByTenant(this.tools.values());
  }

  /** The tool with this name or alias as a tenant sees it. A tenant's own tool takes precedence over one of the fleet. */
  get(name: string, tenantId: string | undefined): RegisteredTool | null {
    return this.view(tenantId).byName.get(name) ?? null;
  }

  /** Names and aliases of the tools a tenant sees. */
  names(tenantId: string | undefined): Iterable<string> {
    return this.view(tenantId).byName.keys();
  }

  /** The tenants with a tool of their own of this name, and undefined for the fleet if it has one. */
  tenantsOf(name: string): (string | undefined)[] {
    const tenants = ['', ...this.tenants.keys()].filter((tenant) => this.tools.has(toolKey(name, tenant || undefined)));
    return [...new Set(tenants)].map((tenant) => tenant || undefined);
  }

  /** A page of the tools a tenant sees, or of the prompts and resources. Quarantined tools are not listed. */
  list({ tenant_id, category, features = false, cursor, limit, since = -1 }: DefinitionList): DefinitionListReply {
    const view = this.view(tenant_id);
    const size = Math.min(Math.max(1, limit ?? DEFAULT_PAGE), MAX_PER_PAGE);
    const page: RegisteredTool[] = [];
    const unchanged: [name: string, revision: string][] = [];
    let chars = 0;
    let last: string | undefined;
    let at = cursor === undefined ? 0 : firstAfter(view.listed, cursor);
    for (; at < view.listed.length; at += 1) {
      const tool = view.listed[at];
      if (!tool || isFeature(tool) !== features) continue;
      if (category !== undefined && tool.category !== category && !tool.tags?.includes(category)) continue;
      const isKnown = view.appearances.get(tool.name)!.since <= since;
      chars += isKnown ? tool.name.length + tool.revision.length : view.chars[at]!;
      if (page.length === size || (last !== undefined && chars > MAX_PAGE_CHARS)) break;
      if (isKnown) unchanged.push([tool.name, tool.revision]);
      else page.push(tool);
      last = tool.name;
    }
    const nextCursor = at < view.listed.length ? last : undefined;
    return {
      tools: page,
      unchanged: unchanged.length > 0 ? unchanged : undefined,
      version: this.known,
      next_cursor: nextCursor,
    };
  }

  /** All tools that a tenant sees, by name. Quarantined tools are not among them. */
  toolsOf(tenantId: string): RegisteredTool[] {
    return this.view(tenantId).listed.filter((tool) => !isFeature(tool));
  }

  /** The definition that awaits an approval in place of a tool; null if there is none of this revision. */
  pending({ name, tenant, available }: RegisteredTool, revision: string): RegisteredTool | null {
    const { quarantine } = this.tools.get(toolKey(name, tenant)) ?? {};
    return quarantine?.pendingRevision === revision ? { ...quarantine.pending, revision, available } : null;
  }

  /** The stored tool with this key. */
  stored(key: string): StoredTool | undefined {
    return this.tools.get(key);
  }

  /** The tools of one owner. */
  ownedBy(owner: string): StoredTool[] {
    return [...this.tools.values()].filter((tool) => tool.owner === owner);
  }

  /** The tools of all owners. */
  all(): Iterable<StoredTool> {
    return this.tools.values();
  }

  /** Whether this owner stopped announcing its tools. */
  isAway(owner: string): boolean {
    return this.away.has(owner);
  }

  /** All owners of tools. */
  owners(): Set<string> {
    return new Set([...this.tools.values()].map((tool) => tool.owner));
  }

  /** Tools of all tenants by the class of executors that runs them. */
  countByExecutor(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { definition } of this.tools.values()) {
      const executor = executorClass(definition.binding);
      counts.set(executor, (counts.get(executor) ?? 0) + 1);
    }
    return counts;
  }

  /** Tools that await approval. */
  quarantined(): (StoredTool & { quarantine: Quarantine })[] {
    return [...this.tools.values()]
      .filter((tool): tool is StoredTool & { quarantine: Quarantine } => tool.quarantine !== undefined)
      .toSorted((a, b) => compare(a.key, b.key));
  }

  private view(tenantId: string | undefined): View {
    const owns = tenantId !== undefined && this.tenants.has(tenantId) ? tenantId : '';
    const known = this.views.get(owns);
    if (known) return known;
    const made = this.makeView(owns);
    if (this.views.size >= MAX_VIEWS) this.views.delete(this.views.keys().next().value as string);
    this.views.set(owns, made);
    return made;
  }

  private makeView(tenantId: string): View {
    const byName = new Map<string, RegisteredTool>();
    const own = this.tenants.get(tenantId) ?? new Set<string>();
    const all = new Map<string, RenderedTool>();
    for (const key of [...(this.tenants.get('') ?? []), ...own]) {
      const stored = this.tools.get(key);
      if (stored) all.set(stored.definition.name, this.render(stored));
    }
    const ordered = [...all.values()].toSorted((a, b) => compare(a.tool.name, b.tool.name));
    for (const { tool } of ordered) byName.set(tool.name, tool);
    // Names take precedence over aliases. An alias of several tools means the first by name, on every replica.
    for (const { tool } of ordered) {
      for (const alias of tool.aliases ?? []) if (!byName.has(alias)) byName.set(alias, tool);
    }
    const listed = ordered.filter(({ tool }) => !tool.quarantine);
    const before = this.seen.get(tenantId);
    const appearances = new Map<string, Appearance>();
    for (const { tool, id } of listed) {
      const known = before?.get(tool.name);
      appearances.set(tool.name, known?.id === id ? known : { id, since: this.known });
    }
    this.seen.set(tenantId, appearances);
    return { listed: listed.map(({ tool }) => tool), byName, chars: listed.map(({ chars }) => chars), appearances };
  }

  private render(stored: StoredTool): RenderedTool {
    const available = !this.away.has(stored.owner);
    const known = this.rendered.get(stored);
    if (known && known.tool.available === available) return known;
    const { quarantine } = stored;
    const tool: RegisteredTool = {
      ...stored.definition,
      revision: stored.revision,
      available,
      shared_since: stored.sharedSince,
      quarantine: quarantine && {
        reason: quarantine.reason,
        since_at: quarantine.sinceAt,
        pending_revision: quarantine.pendingRevision,
        rejected: quarantine.rejected ? true : undefined,
      },
    };
    const made = { tool, chars: known?.chars ?? JSON.stringify(tool).length, id: (this.renderings += 1) };
    this.rendered.set(stored, made);
    return made;
  }
}

/** Keys by tenant; without a tenant under ''. */
function keysByTenant(tools: Iterable<StoredTool>): Map<string, Set<string>> {
  const tenants = new Map<string, Set<string>>();
  for (const tool of tools) {
    const tenant = tool.definition.tenant ?? '';
    const keys = tenants.get(tenant) ?? new Set();
    tenants.set(tenant, keys.add(tool.key));
  }
  return tenants;
}

/** Byte order; names are ASCII, so code units are bytes. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function firstAfter(tools: readonly RegisteredTool[], cursor: string): number {
  let low = 0;
  let high = tools.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((tools[middle]?.name ?? '') > cursor) high = middle;
    else low = middle + 1;
  }
  return low;
}
