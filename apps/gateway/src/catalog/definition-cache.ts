import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';

/** Where definitions come from when the cache has none: the registry. */
export interface DefinitionSource {
  get(name: string, tenantId: string): Promise<RegisteredTool | null>;
  /** Every tool a tenant may see, by name in byte order. */
  list(tenantId: string): Promise<{ tools: RegisteredTool[]; version: number }>;
}

/** What changed, as the registry publishes it. */
export interface DefinitionChange {
  added: readonly string[];
  changed: readonly string[];
  removed: readonly string[];
}

/** A tenant's whole catalog at one version. */
export interface CatalogList {
  tools: readonly RegisteredTool[];
  version: number;
  /** True when the registry could not be asked and the list is from before. */
  stale: boolean;
}

interface Entry<T> {
  value: T;
  readAt: number;
}

/** A definition by the name it was asked for, which may be an alias. */
interface NamedEntry extends Entry<RegisteredTool> {
  name: string;
}

/** Questions under way: whoever asks the same meanwhile waits for the same answer. */
class Pending<T> {
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

/** Tools remembered per gateway; least recently asked ones go first. */
const MAX_ENTRIES = 10_000;
/** An outage of the registry is asked about again after this time, not on every call. */
const RETRY_AFTER_MS = 1_000;

/**
 * Definitions as this gateway knows them: at most `ttlMs` old, dropped at once when the registry announces a change,
 * and used beyond their age while the registry is away. One question at a time per name and per list. Ages are monotonic.
 */
export class DefinitionCache {
  private readonly byName = new Map<string, NamedEntry>();
  private readonly lists = new Map<string, Entry<{ tools: RegisteredTool[]; version: number }>>();
  private readonly pendingTools = new Pending<RegisteredTool | null>();
  private readonly pendingLists = new Pending<{ tools: RegisteredTool[]; version: number }>();
  /** Raised by every change: an answer that was asked for before must not be kept as current. */
  private generation = 0;

  constructor(
    private readonly source: DefinitionSource,
    private readonly clock: Clock,
    private readonly ttlMs: number,
  ) {}

  /** The definition of a name or alias as a tenant sees it; null when there is none. */
  async get(name: string, tenantId: string): Promise<RegisteredTool | null> {
    // The length keeps tenant and name apart, whatever characters either has.
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
        const fresh = await this.source.list(tenantId);
        const kept = known?.value.version === fresh.version ? known.value : fresh;
        if (generation === this.generation) this.lists.set(tenantId, { value: kept, readAt: this.clock.monotonic() });
        return kept;
      });
      return { ...value, stale: false };
    } catch (error) {
      if (!known) throw error;
      this.postpone(known);
      return { ...known.value, stale: true };
    }
  }

  /** Forgets what the change names; every list is asked for again. */
  invalidate(change: DefinitionChange): void {
    this.outdate();
    const names = new Set([...change.added, ...change.changed, ...change.removed]);
    for (const [key, { value, name }] of this.byName) {
      if (names.has(value.name) || names.has(name)) this.byName.delete(key);
    }
    for (const entry of this.lists.values()) entry.readAt = -Infinity;
  }

  /** Forgets the age of everything: after a reconnect, changes may have been missed. */
  invalidateAll(): void {
    this.outdate();
    for (const entry of this.byName.values()) entry.readAt = -Infinity;
    for (const entry of this.lists.values()) entry.readAt = -Infinity;
  }

  /** Whatever was asked for before may be answered with what was before: nobody who comes now waits for it. */
  private outdate(): void {
    this.generation += 1;
    this.pendingTools.clear();
    this.pendingLists.clear();
  }

  private isFresh(entry: Entry<unknown>): boolean {
    return this.clock.monotonic() - entry.readAt < this.ttlMs;
  }

  private postpone(entry: Entry<unknown>): void {
    entry.readAt = this.clock.monotonic() - this.ttlMs + RETRY_AFTER_MS;
  }

  private remember(key: string, name: string, value: RegisteredTool): void {
    this.byName.delete(key);
    if (this.byName.size >= MAX_ENTRIES) this.byName.delete(this.byName.keys().next().value as string);
    this.byName.set(key, { name, value, readAt: this.clock.monotonic() });
  }
}
