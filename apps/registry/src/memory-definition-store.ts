import type { EpochMs, Milliseconds } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import {
  DefinitionStore,
  stampOf,
  type CatalogDelta,
  type PutChange,
  type StoreChange,
  type StoredRegistration,
  type StoredTool,
  type ToolWrite,
} from './definition-store.js';

/** Definitions of one process, for tests and as the readable twin of the Redis scripts. */
export class MemoryDefinitionStore extends DefinitionStore {
  private current = 0;
  private readonly tools = new Map<string, StoredTool>();
  private readonly changes = new Map<string, number>();
  private readonly leases = new Map<string, EpochMs>();
  private readonly away = new Set<string>();
  private readonly saved = new Map<string, StoredRegistration>();

  constructor(private readonly clock: Clock) {
    super();
  }

  override async version(): Promise<number> {
    return this.current;
  }

  override async changesSince(since: number): Promise<CatalogDelta> {
    const keys = [...this.changes].filter(([, version]) => version > since).map(([key]) => key);
    const tools: StoredTool[] = [];
    const removed: string[] = [];
    for (const key of keys) {
      const tool = this.tools.get(key);
      if (tool) tools.push(structuredClone(tool));
      else removed.push(key);
    }
    return { version: this.current, tools, removed, away: [...this.away] };
  }

  override async put(owner: string, writes: readonly ToolWrite[], ttlMs?: Milliseconds): Promise<PutChange> {
    const change: Omit<PutChange, 'version'> = { added: [], changed: [], removed: [], conflicts: [], moved: [] };
    for (const { tool, over } of writes) {
      const known = this.tools.get(tool.key);
      if (known && known.owner !== owner) {
        change.conflicts.push({ key: tool.key, owner: known.owner });
        continue;
      }
      if (known && stampOf(known) === stampOf(tool)) continue;
      if (over !== undefined && stampOf(over) !== stampOf(known)) {
        change.moved.push(tool.key);
        continue;
      }
      (known ? change.changed : change.added).push(tool.key);
      this.tools.set(tool.key, structuredClone(tool));
    }
    if (this.away.delete(owner)) {
      const seen = new Set([...change.added, ...change.changed]);
      for (const key of this.keysOf(owner)) if (!seen.has(key)) change.changed.push(key);
    }
    if (ttlMs === undefined) this.leases.delete(owner);
    else this.leases.set(owner, this.clock.now() + ttlMs);
    return { ...change, version: this.bump([...change.added, ...change.changed]) };
  }

  override async replace(tool: StoredTool, seen: StoredTool): Promise<StoreChange> {
    const known = this.tools.get(tool.key);
    if (known?.owner !== tool.owner || stampOf(known) !== stampOf(seen))
      return { version: this.current, added: [], changed: [], removed: [] };
    this.tools.set(tool.key, structuredClone(tool));
    return { version: this.bump([tool.key]), added: [], changed: [tool.key], removed: [] };
  }

  override retain(owner: string, keys: readonly string[]): Promise<StoreChange> {
    const kept = new Set(keys);
    return this.remove(
      owner,
      this.keysOf(owner).filter((key) => !kept.has(key)),
    );
  }

  override async remove(owner: string, keys?: readonly string[]): Promise<StoreChange> {
    const removed = (keys ?? this.keysOf(owner)).filter((key) => this.tools.get(key)?.owner === owner);
    for (const key of removed) this.tools.delete(key);
    if (this.keysOf(owner).length === 0) {
      this.leases.delete(owner);
      this.away.delete(owner);
    }
    return { version: this.bump(removed), added: [], changed: [], removed };
  }

  override async expire(): Promise<{ owner: string; change: StoreChange }[]> {
    const expired: { owner: string; change: StoreChange }[] = [];
    for (const [owner, until] of this.leases) {
      if (until > this.clock.now()) continue;
      this.leases.delete(owner);
      this.away.add(owner);
      const changed = this.keysOf(owner);
      expired.push({ owner, change: { version: this.bump(changed), added: [], changed, removed: [] } });
    }
    return expired;
  }

  override async registrations(): Promise<StoredRegistration[]> {
    return [...this.saved.values()].map((one) => structuredClone(one));
  }

  override async saveRegistration(registration: StoredRegistration): Promise<void> {
    this.saved.set(`${registration.kind}/${registration.name}`, structuredClone(registration));
  }

  override async removeRegistration(kind: StoredRegistration['kind'], name: string): Promise<boolean> {
    return this.saved.delete(`${kind}/${name}`);
  }

  private keysOf(owner: string): string[] {
    return [...this.tools.values()].filter((tool) => tool.owner === owner).map((tool) => tool.key);
  }

  private bump(keys: readonly string[]): number {
    if (keys.length === 0) return this.current;
    this.current += 1;
    for (const key of keys) this.changes.set(key, this.current);
    return this.current;
  }
}
