import { randomUUID } from 'node:crypto';
import type { Cluster, Redis } from 'ioredis';
import type { Succeeded, Milliseconds } from '@toolfleet/contracts';
import { parseExact, toExactJson } from '@toolfleet/contracts/json-text';
import {
  MAX_CACHED_CHARS,
  MemoryResultCache,
  ResultCache,
  type CacheAges,
  type CachedResult,
  type CacheLookup,
  type CacheScope,
} from '@toolfleet/engine';
import { RecentMap, type Clock } from '@toolfleet/resilience';
import type { KeptResults } from '@toolfleet/journal';
import { sha256Hex } from '@toolfleet/bounded-schema';
import { defineScript, StoreHealth, type Script } from '@toolfleet/queue/redis';
import { readFileSync } from 'node:fs';

const READ_CACHED = readFileSync(new URL('../lua/read-cached.lua', import.meta.url), 'utf8');
const KEEP_CACHED = readFileSync(new URL('../lua/keep-cached.lua', import.meta.url), 'utf8');
const DROP_CACHED = readFileSync(new URL('../lua/drop-cached.lua', import.meta.url), 'utf8');

/** Longest wait for Redis: a cache slower than this does not help. */
const TIMEOUT_MS = 50;
/** Longest wait until a drop is confirmed. */
const DROP_TIMEOUT_MS = 250;
/** Longer than any entry is kept (a day), so that no entry outlives the version that invalidates it. */
const VERSION_TTL_MS = 25 * 3_600_000;
/** A version that is read lives at least this long, still longer than any entry. */
const VERSION_LEFT_MS = VERSION_TTL_MS - 1_800_000;
/** How long calls with effects rely on what Redis said: that a scope has no results. */
const UNREAD_MS = 1_000;
/** How long `version` remembers a version. */
const VERSION_MEMO_MS = 1_000;
/** Longest wait of a result that only replaces failures, for others of its scope that are written with it. */
const GROUP_MS = 25;
/** Size of a group that is written at once, in characters. */
const MAX_GROUP_CHARS = 4 * MAX_CACHED_CHARS;
/** Scopes of which something is remembered. */
const MAX_SCOPES = 10_000;
type ReadReply = [text: string | null, leftMs: number, version: string | null];

/** The stored entry. Its age is `kept_ms` minus the TTL that is left, so it needs no clock but Redis's. */
interface StoredEntry {
  fresh_ms: Milliseconds;
  kept_ms: Milliseconds;
  /** Version of its scope when its call began; it is valid only while that is the current one. */
  version: string;
  result: Succeeded;
}

/** An entry on its way to Redis. */
interface EntryWrite {
  ref: string;
  text: string;
  ttlMs: Milliseconds;
}

/** Entries of one scope that are written together. */
interface WriteGroup {
  tenantId: string;
  writes: EntryWrite[];
  chars: number;
}

/** What Redis knows about a key. */
interface SharedLookup {
  entry?: CachedResult & { isFresh: boolean };
  version: string;
}

/**
 * Results shared by all gateways in Redis, behind a near cache in this process. Keys contain tenant, revision and arguments. Each
 * scope (tenant and source) has a version in Redis, read together with the result: a call with effects replaces it; this
 * invalidates the scope's entries for all gateways at once. A Redis that is down or slow is a miss; writes are not awaited.
 *
 * A scope that no gateway has looked up has no version and no results, and its calls with effects ask Redis once in `UNREAD_MS`. Redis
 * marks the scope for that time: a lookup meanwhile neither gets nor caches a result, so none exists that a call has not dropped.
 */
export class RedisResultCache extends ResultCache {
  readonly #near: MemoryResultCache;
  readonly #health: StoreHealth;
  readonly #read: Script<ReadReply>;
  readonly #keep: Script;
  readonly #drop: Script<number>;
  readonly #results: Pick<KeptResults, 'keep'> | undefined;
  readonly #unreadMs: Milliseconds;
  /** Version keys that Redis has not confirmed to be replaced. Until then their scope is not looked up. */
  readonly #unconfirmedDrops = new Set<string>();
  /** Versions that were read lately, by version key. A result under an old one is never used, so they may be outdated. */
  readonly #versions = new RecentMap<string, { version: string; readAt: Milliseconds }>({ max: MAX_SCOPES });
  readonly #readingVersions = new Map<string, Promise<string | undefined>>();
  /** Results that wait to be written, by the prefix of their scope. */
  readonly #groups = new Map<string, WriteGroup>();
  /** Monotonic instants until which scopes, by version key, need no drop. */
  readonly #unreadUntil = new RecentMap<string, number>({ max: MAX_SCOPES });

  /** @param options.results counts entries against the quota of their tenant */
  constructor(
    private readonly redis: Redis | Cluster,
    private readonly clock: Clock,
    options: { timeoutMs?: number; unreadMs?: number; results?: Pick<KeptResults, 'keep'> } = {},
  ) {
    super();
    this.#near = new MemoryResultCache(clock);
    this.#results = options.results;
    this.#unreadMs = options.unreadMs ?? UNREAD_MS;
    this.#health = new StoreHealth(clock, options.timeoutMs ?? TIMEOUT_MS);
    this.#read = defineScript(redis, 'readCached', 3, READ_CACHED);
    this.#keep = defineScript(redis, 'keepCached', undefined, KEEP_CACHED);
    this.#drop = defineScript(redis, 'dropCached', 2, DROP_CACHED);
  }

  override get(key: string, scope: CacheScope): CacheLookup | Promise<CacheLookup> {
    const { cached, version: local } = this.#near.get(key, scope);
    if (scope.reach === 'process' || (scope.reach === 'near' && cached))
      return { cached, version: joinVersions(local, undefined) };
    return this.#getShared(key, scope, local).then((shared) => {
      if (!shared) return { version: scope.reach === 'fleet' ? undefined : joinVersions(local, undefined) };
      const { entry, version } = shared;
      return { cached: entry?.isFresh ? entry : undefined, version: joinVersions(local, version) };
    });
  }

  override version(scope: CacheScope): string | Promise<string | undefined> {
    const local = this.#near.version(scope);
    if (scope.reach === 'process') return local;
    const key = versionKey(scope);
    const known = this.#versions.get(key);
    if (known && this.clock.monotonic() - known.readAt < VERSION_MEMO_MS) return joinVersions(local, known.version);
    return this.#readVersion(key, scope, local);
  }

  /** Concurrent calls of a scope share one question. */
  #readVersion(key: string, scope: CacheScope, local: string): Promise<string | undefined> {
    const readAt = this.clock.monotonic();
    let reading = this.#readingVersions.get(key);
    if (!reading) {
      reading = this.#getShared('', scope, local).then((shared) => shared?.version);
      this.#readingVersions.set(key, reading);
      void reading.then((version) => {
        this.#readingVersions.delete(key);
        if (version !== undefined) this.#versions.set(key, { version, readAt });
      });
    }
    return reading.then((version) => version && joinVersions(local, version));
  }

  override async getStale(key: string, scope: CacheScope): Promise<CachedResult | undefined> {
    const near = this.#near.getStale(key, scope);
    if (near && scope.reach !== 'fleet') return near;
    await this.#writeGroup(scopePrefix(scope));
    const shared = await this.#getShared(key, scope, this.#near.get(key, scope).version);
    return shared ? shared.entry : near;
  }

  override set(key: string, result: Succeeded, ages: CacheAges): void {
    const { scope, freshMs, staleMs } = ages;
    const [local, shared] = splitVersions(ages.version);
    const isKept = this.#near.set(key, result, { freshMs, staleMs, version: local });
    if (!isKept || scope.reach === 'process' || shared === undefined || !this.#isRedisUp) return;
    const kept_ms = Math.max(freshMs, staleMs);
    const entry: StoredEntry = { fresh_ms: freshMs, kept_ms, version: shared, result };
    const text = toExactJson(entry);
    if (text.length > MAX_CACHED_CHARS) return;
    const write = { ref: entryKey(scope, key), text, ttlMs: kept_ms };
    if (freshMs > 0) void this.#write(scope.tenantId, [write]);
    else this.#writeInGroup(scope, write);
  }

  /** Writes a result that no other call gets unless one fails: together with others, for a part of the CPU of a command each. */
  #writeInGroup(scope: CacheScope, write: EntryWrite): void {
    const prefix = scopePrefix(scope);
    let group = this.#groups.get(prefix);
    if (!group) {
      group = { tenantId: scope.tenantId, writes: [], chars: 0 };
      this.#groups.set(prefix, group);
      this.clock.after(GROUP_MS, () => void this.#writeGroup(prefix));
    }
    group.writes.push(write);
    group.chars += write.text.length;
    if (group.chars >= MAX_GROUP_CHARS) void this.#writeGroup(prefix);
  }

  async #writeGroup(prefix: string): Promise<void> {
    const group = this.#groups.get(prefix);
    this.#groups.delete(prefix);
    if (group) await this.#write(group.tenantId, group.writes);
  }

  override drop(scope: CacheScope): Promise<void> | void {
    this.#near.drop(scope);
    const key = versionKey(scope);
    const isUnread = (this.#unreadUntil.get(key) ?? -Infinity) > this.clock.monotonic();
    if (!isUnread) return this.#dropShared(key);
  }

  async #dropShared(key: string): Promise<void> {
    this.#unconfirmedDrops.add(key);
    let cancelTimer = () => {};
    const timeout = new Promise<void>((resolve) => (cancelTimer = this.clock.after(DROP_TIMEOUT_MS, resolve)));
    await Promise.race([this.#replaceVersion(key), timeout]);
    cancelTimer();
  }

  /** Sent even while Redis counts as down: a drop that is not sent would leave old results to other gateways. */
  async #replaceVersion(key: string): Promise<void> {
    try {
      const sentAt = this.clock.monotonic();
      const isUnread = await this.#drop(key, markKey(key), randomUUID(), VERSION_TTL_MS, this.#unreadMs);
      this.#unconfirmedDrops.delete(key);
      // Counted from before the mark was set, so that it ends before the mark.
      if (isUnread === 1) this.#unreadUntil.set(key, sentAt + this.#unreadMs);
    } catch {
      // Sent again by the next lookup in this scope.
    }
  }

  /** Writes entries of one scope, except those for which the quota of their tenant has no room; they stay in the near cache only. */
  async #write(tenantId: string, writes: readonly EntryWrite[]): Promise<void> {
    await this.#health.run(async () => {
      const fit = await Promise.all(writes.map((write) => this.#fits(tenantId, write)));
      const kept = writes.filter((_, index) => fit[index]);
      const refs = kept.map(({ ref }) => ref);
      if (refs.length > 0) await this.#keep(refs.length, ...refs, ...kept.flatMap(({ text, ttlMs }) => [text, ttlMs]));
    });
  }

  #fits(tenantId: string, { ref, text, ttlMs }: EntryWrite): Promise<boolean> | boolean {
    return this.#results?.keep({ tenantId, ref, bytes: Buffer.byteLength(text), keyed: false, ttlMs }) ?? true;
  }

  get #isRedisUp(): boolean {
    return this.redis.status === 'ready' && this.#health.isUp;
  }

  /**
   * Reads a result and the version of its scope in one round trip.
   * @returns undefined when Redis did not answer, or nothing may be cached yet
   */
  async #getShared(key: string, scope: CacheScope, local: string): Promise<SharedLookup | undefined> {
    if (!this.#isRedisUp) return undefined;
    const ofScope = versionKey(scope);
    if (this.#unconfirmedDrops.has(ofScope)) {
      await this.#health.run(() => this.#replaceVersion(ofScope));
      if (this.#unconfirmedDrops.has(ofScope)) return undefined;
    }
    const keys = [entryKey(scope, key), ofScope, markKey(ofScope)] as const;
    const reply = await this.#health.run(() => this.#read(...keys, VERSION_TTL_MS, VERSION_LEFT_MS));
    if (!reply) return undefined;
    const [text, leftMs, version] = reply;
    if (version === null) return undefined;
    if (text === null) return { version };
    const entry = parseExact<StoredEntry>(text).value;
    if (entry.version !== version) return { version };
    const ageMs = Math.max(0, entry.kept_ms - leftMs);
    const storedAt = this.clock.now() - ageMs;
    const freshMs = entry.fresh_ms - ageMs;
    this.#near.set(key, entry.result, { freshMs, staleMs: leftMs, storedAt, version: local });
    return { entry: { result: entry.result, storedAt, isFresh: freshMs > 0 }, version };
  }
}

/** All keys of a scope are in one slot of a Redis cluster. */
function scopePrefix({ tenantId, source }: CacheScope): string {
  return `rc:{${encodeURIComponent(tenantId)}:${encodeURIComponent(source)}}`;
}

/** Hashed, because a key may contain the caller's arguments. */
function entryKey(scope: CacheScope, key: string): string {
  return `${scopePrefix(scope)}:${sha256Hex(key)}`;
}

function versionKey(scope: CacheScope): string {
  return `${scopePrefix(scope)}:version`;
}

/** In the slot of its scope, as its version is. */
function markKey(ofScope: string): string {
  return `${ofScope}:unread`;
}

/** The version of a lookup: the near cache's, and Redis's where it was read. */
function joinVersions(local: string, shared: string | undefined): string {
  return shared === undefined ? local : `${local}/${shared}`;
}

function splitVersions(version: string): [local: string, shared: string | undefined] {
  const at = version.indexOf('/');
  return at < 0 ? [version, undefined] : [version.slice(0, at), version.slice(at + 1)];
}
