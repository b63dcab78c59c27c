import { DEFAULT_QUOTAS, quotaExceeded, type Quotas } from '@toolfleet/contracts/account';
import type { EpochMs } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import {
  MAX_PINS,
  registrationText,
  toStamp,
  toStoredLook,
  type CatalogDelta,
  type PutChange,
  type PutTerms,
  type SourceLook,
  type StoreChange,
  type StoredLook,
  type StoredRegistration,
  type StoredTool,
  type ToolWrite,
} from '../src/definition-store.js';
import type { DefinitionStore } from '../src/redis-definition-store.js';
import type { Protections } from '../src/announcements.js';

/** In-memory definitions for specs, held to the same conformance cases as the Redis store. */
export class MemoryDefinitionStore implements DefinitionStore {
  private current = 0;
  private readonly tools = new Map<string, StoredTool>();
  private readonly changes = new Map<string, number>();
  private readonly leases = new Map<string, EpochMs>();
  private readonly away = new Set<string>();
  /** Texts of registrations by owner. */
  private readonly kept = new Map<string, string>();
  private readonly pins = new Map<string, Map<string, string>>();
  private readonly documents = new Map<string, string>();
  private readonly seenLooks = new Map<string, StoredLook>();
  private readonly protections = new Map<string, Protections>();

  constructor(
    private readonly clock: Clock,
    private readonly quotas: Pick<Quotas, 'sources' | 'source_bytes'> = DEFAULT_QUOTAS,
  ) {}

  async version(): Promise<number> {
    return this.current;
  }

  async changesSince(since: number): Promise<CatalogDelta> {
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

  async put(owner: string, writes: readonly ToolWrite[], terms: PutTerms = {}): Promise<PutChange> {
    const { ttlMs, footing } = terms;
    const isSuperseded = footing?.isNew === false && !this.isKept(owner, footing.registration);
    const change = { added: [], changed: [], removed: [], conflicts: [], moved: [], isSuperseded } as Omit<
      PutChange,
      'version'
    >;
    if (isSuperseded) return { ...change, version: this.current };
    if (footing?.isNew) this.requireRoom(owner, registrationText(footing.registration));
    for (const { tool, over } of writes) {
      const known = this.tools.get(tool.key);
      if (known && known.owner !== owner) {
        change.conflicts.push({ key: tool.key, owner: known.owner });
        continue;
      }
      if (known && toStamp(known) === toStamp(tool)) continue;
      if (over !== undefined && toStamp(over) !== toStamp(known)) {
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
    if (footing?.isNew && (writes.length === 0 || change.conflicts.length < writes.length))
      this.kept.set(owner, registrationText(footing.registration));
    if (ttlMs === undefined) this.leases.delete(owner);
    else this.leases.set(owner, this.clock.now() + ttlMs);
    return { ...change, version: this.bump([...change.added, ...change.changed]) };
  }

  async replace(tool: StoredTool, seen: StoredTool): Promise<StoreChange> {
    const known = this.tools.get(tool.key);
    if (known?.owner !== tool.owner || toStamp(known) !== toStamp(seen))
      return { version: this.current, added: [], changed: [], removed: [] };
    this.tools.set(tool.key, structuredClone(tool));
    return { version: this.bump([tool.key]), added: [], changed: [tool.key], removed: [] };
  }

  retain(owner: string, keys: readonly string[], registration?: StoredRegistration): Promise<StoreChange> {
    const named = new Set(keys);
    const isStale = registration !== undefined && !this.isKept(owner, registration);
    return this.remove(
      owner,
      this.keysOf(owner).filter((key) => !isStale && !named.has(key)),
    );
  }

  async forget(owner: string): Promise<StoreChange & { wasKept: boolean }> {
    const wasKept = this.kept.delete(owner);
    return { ...(await this.remove(owner, this.keysOf(owner))), wasKept };
  }

  removeOrphans(owner: string): Promise<StoreChange> {
    return this.remove(owner, this.kept.has(owner) ? [] : this.keysOf(owner));
  }

  async remove(owner: string, keys: readonly string[]): Promise<StoreChange> {
    const removed = keys.filter((key) => this.tools.get(key)?.owner === owner);
    for (const key of removed) this.tools.delete(key);
    if (this.keysOf(owner).length === 0) {
      this.leases.delete(owner);
      this.away.delete(owner);
    }
    return { version: this.bump(removed), added: [], changed: [], removed };
  }

  async expire(): Promise<{ owner: string; change: StoreChange }[]> {
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

  async registrations(): Promise<StoredRegistration[]> {
    return [...this.kept.values()].map((text) => JSON.parse(text) as StoredRegistration);
  }

  async floors(keys: readonly string[]): Promise<Map<string, Protections>> {
    return new Map([...this.protections].filter(([key]) => keys.includes(key)));
  }

  async raiseFloors(floors: ReadonlyMap<string, Protections>): Promise<void> {
    for (const [key, protections] of floors) this.protections.set(key, structuredClone(protections));
  }

  async dropFloors(keys: readonly string[]): Promise<void> {
    for (const key of keys) this.protections.delete(key);
  }

  async removedPins(owner: string, keys: readonly string[]): Promise<Map<string, string>> {
    return new Map([...(this.pins.get(owner) ?? [])].filter(([key]) => keys.includes(key)));
  }

  async keepPins(owner: string, pins: ReadonlyMap<string, string>): Promise<void> {
    const kept = this.pins.get(owner) ?? new Map<string, string>();
    for (const [key, pin] of pins) if (kept.has(key) || kept.size < MAX_PINS) kept.set(key, pin);
    this.pins.set(owner, kept);
  }

  async dropPins(owner: string): Promise<void> {
    this.pins.delete(owner);
  }

  async documentHash(owner: string): Promise<string | undefined> {
    return this.documents.get(owner);
  }

  async keepDocumentHash(owner: string, sha256: string | undefined): Promise<void> {
    if (sha256 === undefined) this.documents.delete(owner);
    else this.documents.set(owner, sha256);
  }

  async looks(): Promise<Map<string, StoredLook>> {
    return new Map(this.seenLooks);
  }

  async keepLook(owner: string, look: SourceLook | undefined): Promise<void> {
    if (look) this.seenLooks.set(owner, toStoredLook(look, this.seenLooks.get(owner)));
    else this.seenLooks.delete(owner);
  }

  private requireRoom(owner: string, text: string): void {
    const tenant = /@.*$/.exec(owner)?.[0];
    if (tenant === undefined) return;
    const others = [...this.kept].filter(([other]) => other !== owner && /@.*$/.exec(other)?.[0] === tenant);
    const bytes = others.reduce((sum, [, each]) => sum + Buffer.byteLength(each), Buffer.byteLength(text));
    const { sources, source_bytes } = this.quotas;
    if (others.length >= sources) throw quotaExceeded('sources', sources);
    if (bytes > source_bytes) throw quotaExceeded('source_bytes', source_bytes);
  }

  private isKept(owner: string, registration: StoredRegistration): boolean {
    return this.kept.get(owner) === registrationText(registration);
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
