import type { DefinitionChanged } from '@toolfleet/contracts/registry';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';
import { LRUCache } from 'lru-cache';

/** Every tool a tenant may see at one version, by name in byte order. */
export interface ReadList {
  tools: RegisteredTool[];
  version: number;
}

/** Source of definitions that are not cached: the registry. */
export interface DefinitionSource {
  get(name: string, tenantId: string): Promise<RegisteredTool | null>;
  /** @param known the list as it was read before: only what changed is read again */
  list(tenantId: string, known?: ReadList): Promise<ReadList>;
}

/** The whole catalog of a tenant at one version. `stale`: the registry is unavailable and the list may be outdated. */
type CatalogList = Readonly<ReadList> & { stale: boolean };

interface CachedEntry<T> {
  value: T;
  readAt: number;
}

/** A definition and the name it was requested by (may be an alias). */
interface NamedEntry extends CachedEntry<RegisteredTool> {
  name: string;
}

/** Requests in progress: concurrent requests with the same key share one. */
export class Pending<T> {
  private readonly asking = new Map<string, Promise<T>>();

  once(key: string, ask: () => Promise<T>): Promise<T> {
    const running = this.asking.get(key);
    if (running) return running;
    const asked = ask().finally(() => {
      if (this.asking.get(key) === asked) this.asking.delete(key);
    });
    this.asking.set(key, asked);
    return asked;
  }

  clear(): void {
    this.asking.clear();
  }
}

/** Tools cached per gateway; the oldest are dropped first. */
const MAX_ENTRIES = 10_000;
/** Tools in the lists of all tenants, about 2 KB each; the least recently used tenants' are dropped first. */
const MAX_LISTED = 200_000;
/** While the registry is unavailable it is asked again after this time, not on every call. */
const RETRY_AFTER_MS = 1_000;

/**
 * Caches definitions for at most `ttlMs`, drops them when the registry announces a change, and serves older ones while the
 * registry is unavailable. There is one request at a time per name and per list. Ages are measured on the monotonic clock.
 */
export class DefinitionCache {
  private readonly byName = new Map<string, NamedEntry>();
  private readonly lists: LRUCache<string, CachedEntry<ReadList>>;
  private readonly pendingTools = new Pending<RegisteredTool | null>();
  private readonly pendingLists = new Pending<ReadList>();
  /** Incremented by every change: an answer to an earlier request must not be cached as current. */
  private generation = 0;

  constructor(
    private readonly source: DefinitionSource,
    private readonly clock: Clock,
    private readonly ttlMs: number,
    maxListed = MAX_LISTED,
  ) {
    // A list that alone exceeds the bound is kept: without it every call of its tenant would ask for it.
    const sizeCalculation = ({ value }: CachedEntry<ReadList>): number =>
      Math.min(maxListed, Math.max(1, value.tools.length));
    this.lists = new LRUCache({ maxSize: maxListed, sizeCalculation });
  }

  /** The definition of a name or alias as a tenant sees it; null if there is none. */
  async get(name: string, tenantId: string): Promise<RegisteredTool | null> {
    // The length separates tenant and name, whatever characters they contain.
    const key = `${tenantId.length}:${tenantId}${name}`;
    const known = this.byName.get(key);
    if (known && this.isFresh(known)) return known.value;
    try {
      return await this.pendingTools.once(key, async () => {
        const generation = this.generation;
        const tool = await this.source.get(name, tenantId);
        if (generation !== this.generation) return tool;
        if (tool) this.remember(key, name, tool);
        else this.byName.delete(key);
        return tool;
      });
    } catch (error) {
      if (!known) throw error;
      this.postpone(known);
      return known.value;
    }
  }

  /** Every tool of a tenant. The same array object as long as nothing changed. */
  async list(tenantId: string): Promise<CatalogList> {
    const known = this.lists.get(tenantId);
    if (known && this.isFresh(known)) return { ...known.value, stale: false };
    try {
      const value = await this.pendingLists.once(tenantId, async () => {
        const generation = this.generation;
        const fresh = await this.source.list(tenantId, known?.value);
        const kept = known?.value.version === fresh.version ? known.value : fresh;
        this.rememberList(tenantId, kept, generation === this.generation);
        return kept;
      });
      return { ...value, stale: false };
    } catch (error) {
      if (!known) throw error;
      this.postpone(known);
      return { ...known.value, stale: true };
    }
  }

  /** Drops the definitions that changed, and every list. */
  invalidate(change: Pick<DefinitionChanged, 'added' | 'changed' | 'removed'>): void {
    this.outdate();
    const names = new Set([...change.added, ...change.changed, ...change.removed]);
    for (const [key, { value, name }] of this.byName) {
      if (names.has(value.name) || names.has(name)) this.byName.delete(key);
    }
    for (const entry of this.lists.values()) entry.readAt = -Infinity;
  }

  /** Treats everything as outdated: after a reconnect, changes may have been missed. */
  invalidateAll(): void {
    this.outdate();
    for (const entry of this.byName.values()) entry.readAt = -Infinity;
    for (const entry of this.lists.values()) entry.readAt = -Infinity;
  }

  /** Requests in progress may be answered with the previous state, so new callers do not share them. */
  private outdate(): void {
    this.generation += 1;
    this.pendingTools.clear();
    this.pendingLists.clear();
  }

  private isFresh(entry: CachedEntry<unknown>): boolean {
    return this.clock.monotonic() - entry.readAt < this.ttlMs;
  }

  private postpone(entry: CachedEntry<unknown>): void {
    entry.readAt = this.clock.monotonic() - this.ttlMs + RETRY_AFTER_MS;
  }

  /** A list that a change overtook is kept as an outdated one, so that an outage does not bring back the list before it. */
  private rememberList(tenantId: string, value: ReadList, isCurrent: boolean): void {
    const newest = this.lists.get(tenantId);
    if (isCurrent) this.lists.set(tenantId, { value, readAt: this.clock.monotonic() });
    else if (!newest || newest.value.version < value.version) this.lists.set(tenantId, { value, readAt: -Infinity });
  }

  private remember(key: string, name: string, value: RegisteredTool): void {
    this.byName.delete(key);
    if (this.byName.size >= MAX_ENTRIES) this.byName.delete(this.byName.keys().next().value as string);
    this.byName.set(key, { name, value, readAt: this.clock.monotonic() });
  }
}
