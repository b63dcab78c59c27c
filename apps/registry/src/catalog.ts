import { ToolError } from '@toolfleet/contracts';
import type { DefinitionList, DefinitionListReply } from '@toolfleet/contracts/registry';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { withTimeout, type Clock } from '@toolfleet/resilience';
import type { DefinitionStore, StoredTool } from './definition-store.js';

/** Tools per page when the caller names no limit, and at most. */
const DEFAULT_PAGE = 500;
const MOST_PER_PAGE = 1_000;
/** A page stays well below the payload limit of NATS (16 MB), whatever its tools weigh. */
const MOST_PAGE_CHARS = 4 * 1024 * 1024;
/** A store that does not answer in this time counts as away: the caller waits at most 5 s. */
const STORE_TIMEOUT_MS = 1_500;
/** Views of tenants kept at once. */
const MOST_VIEWS = 200;

/** A tool as readers get it, and its size in characters of JSON. */
interface Shown {
  tool: RegisteredTool;
  chars: number;
}

/** What one audience sees. */
interface View {
  /** By name, byte order. */
  listed: RegisteredTool[];
  byName: Map<string, RegisteredTool>;
  /** Sizes in characters of JSON, for paging. */
  chars: number[];
}

/**
 * The read side: all definitions in memory, brought up to the store's version before each answer. While the store is away
 * the last known state answers, so that known tools keep working.
 */
export class Catalog {
  private readonly tools = new Map<string, StoredTool>();
  /** What was made of a stored tool, so that one change among thousands does not make all of them again. */
  private readonly shown = new WeakMap<StoredTool, Shown>();
  private away = new Set<string>();
  private views = new Map<string, View>();
  private tenants = new Map<string, Set<string>>();
  private known = 0;
  private refreshing: Promise<void> = Promise.resolve();
  private isLoaded = false;

  constructor(
    private readonly store: DefinitionStore,
    private readonly clock: Clock,
  ) {}

  /** Version of what is in memory. */
  get version(): number {
    return this.known;
  }

  /** Number of definitions of all tenants. */
  get size(): number {
    return this.tools.size;
  }

  /**
   * Reads what changed. While the store is away, what is known answers.
   * @throws ToolError SERVICE_UNAVAILABLE when nothing was ever read
   */
  async refresh(): Promise<void> {
    try {
      await withTimeout(this.clock, STORE_TIMEOUT_MS, undefined, () => this.readChanges());
    } catch (error) {
      if (!this.isLoaded)
        throw new ToolError('SERVICE_UNAVAILABLE', { message: 'Definitions cannot be read', cause: error });
    }
  }

  private async readChanges(): Promise<void> {
    if (this.isLoaded && (await this.store.version()) === this.known) return;
    // One at a time: a delta applied after a newer one would undo it.
    const turn = this.refreshing.then(() => this.catchUp());
    this.refreshing = turn.catch(() => undefined);
    await turn;
  }

  private async catchUp(): Promise<void> {
    const delta = await this.store.changesSince(this.known);
    if (delta.version < this.known) {
      // The store was emptied or replaced: start over.
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
    this.tenants = tenantsOf(this.tools.values());
  }

  /** The tool of a name or alias as a tenant sees it. A tenant's own tool wins over one of the fleet. */
  get(name: string, tenantId: string | undefined): RegisteredTool | null {
    return this.view(tenantId).byName.get(name) ?? null;
  }

  /** A page of what a tenant sees; quarantined tools are not listed. */
  list({ tenant_id, category, cursor, limit }: DefinitionList): DefinitionListReply {
    const view = this.view(tenant_id);
    const most = Math.min(Math.max(1, limit ?? DEFAULT_PAGE), MOST_PER_PAGE);
    const page: RegisteredTool[] = [];
    let chars = 0;
    let at = cursor === undefined ? 0 : firstAfter(view.listed, cursor);
    for (; at < view.listed.length; at += 1) {
      const tool = view.listed[at];
      if (!tool || (category !== undefined && tool.category !== category && !tool.tags?.includes(category))) continue;
      chars += view.chars[at] ?? 0;
      if (page.length === most || (page.length > 0 && chars > MOST_PAGE_CHARS)) break;
      page.push(tool);
    }
    const more = at < view.listed.length;
    const last = page.at(-1);
    return { tools: page, version: this.known, ...(more && last ? { next_cursor: last.name } : {}) };
  }

  /** The stored form of a tool by key. */
  stored(key: string): StoredTool | undefined {
    return this.tools.get(key);
  }

  /** The tools of one owner. */
  storedOf(owner: string): StoredTool[] {
    return [...this.tools.values()].filter((tool) => tool.owner === owner);
  }

  /** Every owner of a tool. */
  owners(): Set<string> {
    return new Set([...this.tools.values()].map((tool) => tool.owner));
  }

  /** Tools that await approval. */
  quarantined(): StoredTool[] {
    return [...this.tools.values()].filter((tool) => tool.quarantine).toSorted((a, b) => compare(a.key, b.key));
  }

  private view(tenantId: string | undefined): View {
    const owns = tenantId !== undefined && this.tenants.has(tenantId) ? tenantId : '';
    const known = this.views.get(owns);
    if (known) return known;
    const made = this.makeView(owns);
    if (this.views.size >= MOST_VIEWS) this.views.delete(this.views.keys().next().value as string);
    this.views.set(owns, made);
    return made;
  }

  private makeView(tenantId: string): View {
    const byName = new Map<string, RegisteredTool>();
    const own = this.tenants.get(tenantId) ?? new Set<string>();
    const all = new Map<string, Shown>();
    for (const key of [...(this.tenants.get('') ?? []), ...own]) {
      const stored = this.tools.get(key);
      if (stored) all.set(stored.definition.name, this.show(stored));
    }
    const ordered = [...all.values()].toSorted((a, b) => compare(a.tool.name, b.tool.name));
    for (const { tool } of ordered) byName.set(tool.name, tool);
    // Names win over aliases, and among aliases the first name in order: the same on every replica.
    for (const { tool } of ordered) {
      for (const alias of tool.aliases ?? []) if (!byName.has(alias)) byName.set(alias, tool);
    }
    const listed = ordered.filter(({ tool }) => !tool.quarantine);
    return { listed: listed.map(({ tool }) => tool), byName, chars: listed.map(({ chars }) => chars) };
  }

  private show(stored: StoredTool): Shown {
    const available = !this.away.has(stored.owner);
    const known = this.shown.get(stored);
    if (known && known.tool.available === available) return known;
    const { quarantine } = stored;
    const tool: RegisteredTool = {
      ...stored.definition,
      revision: stored.revision,
      available,
      ...(quarantine
        ? {
            quarantine: {
              reason: quarantine.reason,
              since_at: quarantine.sinceAt,
              pending_revision: quarantine.pendingRevision,
            },
          }
        : {}),
    };
    const made = { tool, chars: known?.chars ?? JSON.stringify(tool).length };
    this.shown.set(stored, made);
    return made;
  }
}

/** Keys by tenant; those of no tenant under ''. */
function tenantsOf(tools: Iterable<StoredTool>): Map<string, Set<string>> {
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
