import { readFileSync } from 'node:fs';
import { DEFAULT_QUOTAS, quotaExceeded, type Quotas } from '@toolfleet/contracts/account';
import { defineScript, type Script } from '@toolfleet/queue/redis';
import type { Redis } from 'ioredis';
import {
  MAX_PINS,
  registrationStamp,
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
} from './definition-store.js';
import { storeNow } from './redis-declarations.js';
import { splitName } from './tool-key.js';
import type { Protections } from './announcements.js';

const IS_KEPT = readFileSync(new URL('../lua/is-kept.lua', import.meta.url), 'utf8');
const EXPIRE = readFileSync(new URL('../lua/expire.lua', import.meta.url), 'utf8');
const PUT = IS_KEPT + readFileSync(new URL('../lua/put.lua', import.meta.url), 'utf8');
const REMOVE = IS_KEPT + readFileSync(new URL('../lua/remove.lua', import.meta.url), 'utf8');
const REPLACE = readFileSync(new URL('../lua/replace.lua', import.meta.url), 'utf8');

/** All keys share one hash tag, so that scripts run on Redis Cluster. */
const TAG = '{registry}';
const KEYS = {
  owners: `${TAG}:owners`,
  stamps: `${TAG}:stamps`,
  tools: `${TAG}:tools`,
  changes: `${TAG}:changes`,
  version: `${TAG}:version`,
  leases: `${TAG}:leases`,
  away: `${TAG}:away`,
  registrations: `${TAG}:registrations`,
  protections: `${TAG}:protections`,
  documents: `${TAG}:documents`,
  looks: `${TAG}:looks`,
} as const;

/** KEYS of the scripts. */
const SCRIPT_KEYS = 10;
/** Tools per script run and per read, so that a document of 20,000 operations does not block Redis for other clients. */
const BATCH = 250;
/** Matches any stored stamp; stamps start with a hash. */
const ANY_STAMP = '*';

type PutReply = [
  version: number,
  added: string[],
  changed: string[],
  conflicts: string[],
  moved: string[],
  kept: 1 | 0 | -1 | -2 | -3,
];

/**
 * Definitions in Redis. Writes are Lua scripts (apps/registry/lua): whether a name is free or a registration still stored is decided
 * in the step that writes, because several replicas may register at once.
 */
export class RedisDefinitionStore {
  private readonly scripts: Record<'put' | 'replace' | 'remove' | 'expire', Script>;

  constructor(
    private readonly redis: Redis,
    private readonly quotas: Pick<Quotas, 'sources' | 'source_bytes'> = DEFAULT_QUOTAS,
  ) {
    this.scripts = {
      put: defineScript(redis, 'registryPut', SCRIPT_KEYS, PUT),
      replace: defineScript(redis, 'registryReplace', SCRIPT_KEYS, REPLACE),
      remove: defineScript(redis, 'registryRemove', SCRIPT_KEYS, REMOVE),
      expire: defineScript(redis, 'registryExpire', SCRIPT_KEYS, EXPIRE),
    };
  }

  /** The current catalog version. */
  async version(): Promise<number> {
    return Number((await this.redis.get(KEYS.version)) ?? 0);
  }

  /** Changes after version `since`; 0 reads everything. */
  async changesSince(since: number): Promise<CatalogDelta> {
    // The version is read first: tools read after it may be newer and are then read twice, but none is missed.
    const version = await this.version();
    const away = await this.redis.smembers(KEYS.away);
    const keys = await this.redis.zrangebyscore(KEYS.changes, `(${since}`, '+inf');
    const tools: StoredTool[] = [];
    const removed: string[] = [];
    for (let start = 0; start < keys.length; start += BATCH) {
      const batch = keys.slice(start, start + BATCH);
      const values = await this.redis.hmget(KEYS.tools, ...batch);
      for (const [index, key] of batch.entries()) {
        const value = values[index];
        if (value) tools.push(JSON.parse(value) as StoredTool);
        else removed.push(key);
      }
    }
    return { version, tools, removed, away };
  }

  /**
   * Writes tools of one owner, except keys of other owners (conflicts) and keys that changed meanwhile (moved).
   * @throws ToolError QUOTA_EXCEEDED for a new registration beyond the quotas of its tenant; then nothing is written
   */
  async put(owner: string, writes: readonly ToolWrite[], terms: PutTerms = {}): Promise<PutChange> {
    const { ttlMs = -1, footing } = terms;
    const all: PutChange = {
      version: 0,
      added: [],
      changed: [],
      removed: [],
      conflicts: [],
      moved: [],
      isSuperseded: false,
    };
    const stamp = footing ? registrationStamp(footing.registration) : '';
    let mode = footing ? (footing.isNew ? 'new' : 'same') : '';
    for (let start = 0; start === 0 || start < writes.length; start += BATCH) {
      const values = writes
        .slice(start, start + BATCH)
        .flatMap(({ tool, over }) => [
          tool.key,
          toStamp(tool),
          JSON.stringify(tool),
          over === undefined ? ANY_STAMP : toStamp(over),
        ]);
      const reply = (await this.scripts.put(
        ...scriptKeys(owner),
        owner,
        ttlMs,
        stamp,
        mode,
        footing && mode === 'new' ? registrationText(footing.registration) : '',
        this.quotas.sources,
        this.quotas.source_bytes,
        ...values,
      )) as PutReply;
      const [version, added, changed, conflicts, moved, kept] = reply;
      if (kept === -2) throw quotaExceeded('sources', this.quotas.sources);
      if (kept === -3) throw quotaExceeded('source_bytes', this.quotas.source_bytes);
      all.version = version;
      all.isSuperseded = kept === -1;
      if (all.isSuperseded) break;
      // This batch stored the registration; the following ones are written only while it stays stored.
      if (kept === 1) mode = 'same';
      all.added.push(...added);
      all.changed.push(...changed);
      all.moved.push(...moved);
      for (let at = 0; at + 1 < conflicts.length; at += 2) {
        all.conflicts.push({ key: conflicts[at] ?? '', owner: conflicts[at + 1] ?? '' });
      }
    }
    return all;
  }

  /** Replaces one tool if it is still `seen`; otherwise nothing changes. The lease of its owner is not renewed. */
  async replace(tool: StoredTool, seen: StoredTool): Promise<StoreChange> {
    const values = [tool.owner, tool.key, toStamp(tool), JSON.stringify(tool), toStamp(seen)];
    const reply = await this.scripts.replace(...scriptKeys(tool.owner), ...values);
    const [version, changed] = reply as [number, string[]];
    return { version, added: [], changed, removed: [] };
  }

  /** Removes all tools of an owner except `keys`. With a registration: only if exactly that one is stored. */
  retain(owner: string, keys: readonly string[], registration?: StoredRegistration): Promise<StoreChange> {
    return this.drop(owner, 'keep', registration ? registrationStamp(registration) : '', keys);
  }

  /** Removes the named tools of an owner. */
  remove(owner: string, keys: readonly string[]): Promise<StoreChange> {
    return this.drop(owner, 'only', '', keys);
  }

  /** Removes all tools of an owner and its registration. `wasKept`: a registration was stored. */
  forget(owner: string): Promise<StoreChange & { wasKept: boolean }> {
    return this.drop(owner, 'forget');
  }

  /** Removes all tools of an owner that has no stored registration. */
  removeOrphans(owner: string): Promise<StoreChange> {
    return this.drop(owner, 'orphans');
  }

  private async drop(
    owner: string,
    mode: 'keep' | 'only' | 'forget' | 'orphans',
    stamp = '',
    keys: readonly string[] = [],
  ): Promise<StoreChange & { wasKept: boolean }> {
    const reply = await this.scripts.remove(...scriptKeys(owner), owner, mode, stamp, ...keys);
    const [version, removed, forgotten] = reply as [number, string[], number];
    return { version, added: [], changed: [], removed, wasKept: forgotten === 1 };
  }

  /** Marks owners after their lease as unavailable. If several replicas call it, only one receives the change of an owner. */
  async expire(): Promise<{ owner: string; change: StoreChange }[]> {
    const overdue = await this.redis.zrangebyscore(KEYS.leases, '-inf', await storeNow(this.redis));
    const expired: { owner: string; change: StoreChange }[] = [];
    for (const owner of overdue) {
      const reply = (await this.scripts.expire(...scriptKeys(owner), owner)) as [number, string[]] | [];
      const [version, changed] = reply;
      if (version === undefined || changed === undefined) continue;
      expired.push({ owner, change: { version, added: [], changed, removed: [] } });
    }
    return expired;
  }

  async registrations(): Promise<StoredRegistration[]> {
    const values = await this.redis.hvals(KEYS.registrations);
    return values.map((value) => JSON.parse(value) as StoredRegistration);
  }

  /** The protections that announcements of these keys must keep. Keys without any are left out. */
  async floors(keys: readonly string[]): Promise<Map<string, Protections>> {
    const floors = await this.fields(KEYS.protections, keys);
    return new Map([...floors].map(([key, text]) => [key, JSON.parse(text) as Protections]));
  }

  /** Stores protections. They outlive the tool; only `dropFloors` removes them. */
  async raiseFloors(floors: ReadonlyMap<string, Protections>): Promise<void> {
    if (floors.size === 0) return;
    const fields = [...floors].flatMap(([key, protections]) => [key, JSON.stringify(protections)]);
    await this.redis.hset(KEYS.protections, ...fields);
  }

  /** Pins of tools that an owner listed earlier, by key. */
  removedPins(owner: string, keys: readonly string[]): Promise<Map<string, string>> {
    return this.fields(pinsKey(owner), keys);
  }

  /** The fields of a hash that have a value. */
  private async fields(hash: string, names: readonly string[]): Promise<Map<string, string>> {
    if (names.length === 0) return new Map();
    const values = await this.redis.hmget(hash, ...names);
    return new Map(
      names.map((name, index) => [name, values[index] ?? ''] as const).filter(([, value]) => value !== ''),
    );
  }

  /** Stores the pins of tools that are about to be removed; at most `MAX_PINS` per owner. */
  async keepPins(owner: string, pins: ReadonlyMap<string, string>): Promise<void> {
    const left = MAX_PINS - (await this.redis.hlen(pinsKey(owner)));
    const fields = [...pins].slice(0, Math.max(0, left)).flat();
    if (fields.length > 0) await this.redis.hset(pinsKey(owner), ...fields);
  }

  async dropPins(owner: string): Promise<void> {
    await this.redis.del(pinsKey(owner));
  }

  /** SHA-256 of the document from which an owner's tools were last made; undefined if none is stored. */
  async documentHash(owner: string): Promise<string | undefined> {
    return (await this.redis.hget(KEYS.documents, owner)) ?? undefined;
  }

  async keepDocumentHash(owner: string, sha256: string | undefined): Promise<void> {
    if (sha256 === undefined) await this.redis.hdel(KEYS.documents, owner);
    else await this.redis.hset(KEYS.documents, owner, sha256);
  }

  /** The last looks at sources, by owner. */
  async looks(): Promise<Map<string, StoredLook>> {
    const all = await this.redis.hgetall(KEYS.looks);
    return new Map(Object.entries(all).map(([owner, text]) => [owner, JSON.parse(text) as StoredLook]));
  }

  /** Records a look; undefined forgets those at this source. */
  async keepLook(owner: string, look: SourceLook | undefined): Promise<void> {
    if (!look) return void (await this.redis.hdel(KEYS.looks, owner));
    const before = await this.redis.hget(KEYS.looks, owner);
    const kept = toStoredLook(look, before === null ? undefined : (JSON.parse(before) as StoredLook));
    await this.redis.hset(KEYS.looks, owner, JSON.stringify(kept));
  }

  async dropFloors(keys: readonly string[]): Promise<void> {
    if (keys.length > 0) await this.redis.hdel(KEYS.protections, ...keys);
  }
}

const keptKey = (tenant: string): string => `${TAG}:kept:${tenant}`;
const pinsKey = (owner: string): string => `${TAG}:pins:${owner}`;

/** KEYS of the scripts, in the order that put.lua documents. */
function scriptKeys(owner: string): string[] {
  const { owners, stamps, tools, changes, version, leases, away, registrations } = KEYS;
  const kept = keptKey(splitName(owner).tenant ?? '');
  return [owners, stamps, tools, changes, version, `${TAG}:names:${owner}`, leases, away, registrations, kept];
}

/** The methods of the store, for specs that replace it. */
export type DefinitionStore = Pick<RedisDefinitionStore, keyof RedisDefinitionStore>;
