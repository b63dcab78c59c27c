import type { Cluster, Redis } from 'ioredis';
import type { CallResult, Milliseconds } from '@toolfleet/contracts';
import { MAX_CACHED_CHARS, MemoryResultCache, ResultCache, type CacheAges, type CachedResult } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import type { KeptResults } from '@toolfleet/journal';
import { READ_CACHED } from './scripts.js';
import { StoreHealth } from './store-health.js';

/** Longest wait for Redis: a cache slower than this does not help. */
const TIMEOUT_MS = 50;
const PREFIX = 'rc:';

type Script = (key: string) => Promise<[text: string, leftMs: number] | null>;

/** The stored entry. Its age is `kept_ms` minus the TTL that is left, so it needs no clock but that of Redis. */
interface StoredEntry {
  fresh_ms: Milliseconds;
  kept_ms: Milliseconds;
  result: CallResult;
}

/**
 * Results shared by all gateways in Redis, behind a near cache in this process. Keys contain tenant, revision and arguments, so
 * entries become old but never wrong. A Redis that is down or slow is a miss; writes are not awaited.
 */
export class RedisResultCache extends ResultCache {
  readonly #near: MemoryResultCache;
  readonly #health: StoreHealth;
  readonly #read: Script;
  readonly #results: Pick<KeptResults, 'keep'> | undefined;

  /** @param options.results counts entries against the quota of their tenant */
  constructor(
    private readonly redis: Redis | Cluster,
    private readonly clock: Clock,
    options: { timeoutMs?: number; results?: Pick<KeptResults, 'keep'> } = {},
  ) {
    super();
    this.#near = new MemoryResultCache(clock);
    this.#results = options.results;
    this.#health = new StoreHealth(clock, options.timeoutMs ?? TIMEOUT_MS);
    redis.defineCommand('readCached', { numberOfKeys: 1, lua: READ_CACHED });
    const commands = redis as unknown as { readCached: Script };
    this.#read = (key) => commands.readCached(key);
  }

  override get(key: string, shared: boolean): CachedResult | undefined | Promise<CachedResult | undefined> {
    const near = this.#near.get(key);
    return near || !shared ? near : this.#getShared(key, (entry, ageMs) => ageMs < entry.fresh_ms);
  }

  override getStale(key: string): CachedResult | undefined | Promise<CachedResult | undefined> {
    return this.#near.getStale(key) ?? this.#getShared(key, () => true);
  }

  override set(key: string, result: CallResult, ages: CacheAges): void {
    this.#near.set(key, result, ages);
    const kept_ms = Math.max(ages.freshMs, ages.staleMs);
    if (!ages.shared || kept_ms <= 0 || !this.#isRedisUp) return;
    const text = JSON.stringify({ fresh_ms: ages.freshMs, kept_ms, result } satisfies StoredEntry);
    if (text.length > MAX_CACHED_CHARS) return;
    void this.#health.run(() => this.#write(PREFIX + key, text, kept_ms, ages.tenantId));
  }

  /** Writes an entry, unless the quota of its tenant has no room; then it stays in the near cache only. */
  async #write(ref: string, text: string, ttlMs: Milliseconds, tenantId: string): Promise<void> {
    const result = { tenantId, ref, bytes: Buffer.byteLength(text), keyed: false, ttlMs };
    if (this.#results && !(await this.#results.keep(result))) return;
    await this.redis.set(ref, text, 'PX', ttlMs);
  }

  get #isRedisUp(): boolean {
    return this.redis.status === 'ready' && this.#health.isUp;
  }

  async #getShared(
    key: string,
    accepts: (entry: StoredEntry, ageMs: number) => boolean,
  ): Promise<CachedResult | undefined> {
    if (!this.#isRedisUp) return undefined;
    const reply = await this.#health.run(() => this.#read(PREFIX + key));
    if (!reply) return undefined;
    const [text, leftMs] = reply;
    const entry = JSON.parse(text) as StoredEntry;
    const ageMs = Math.max(0, entry.kept_ms - leftMs);
    if (!accepts(entry, ageMs)) return undefined;
    const storedAt = this.clock.now() - ageMs;
    this.#near.set(key, entry.result, { freshMs: entry.fresh_ms - ageMs, staleMs: leftMs, storedAt });
    return { result: entry.result, storedAt };
  }
}
