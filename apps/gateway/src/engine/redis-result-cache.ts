import type { Cluster, Redis } from 'ioredis';
import type { CallResult, Milliseconds } from '@toolfleet/contracts';
import { MAX_CACHED_CHARS, MemoryResultCache, ResultCache, type CacheAges, type CachedResult } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import type { KeptResults } from '@toolfleet/journal';
import { READ_CACHED } from './scripts.js';
import { StoreHealth } from './store-health.js';

/** Longest wait for Redis: a cache that is slower than this is no help. */
const PATIENCE_MS = 50;
const PREFIX = 'rc:';

type Script = (key: string) => Promise<[text: string, leftMs: number] | null>;

/** What is stored: the result and the ages it may reach. Its age follows from Redis' own clock (kept - left). */
interface Stored {
  fresh_ms: Milliseconds;
  kept_ms: Milliseconds;
  result: CallResult;
}

/**
 * Results shared by all gateways, in Redis, behind a small cache of this process. Keys hold tenant, revision and arguments,
 * so what is here never becomes wrong, only old. A Redis that is away or slow is a miss; writes are not waited for.
 */
export class RedisResultCache extends ResultCache {
  readonly #near: MemoryResultCache;
  readonly #trust: StoreHealth;
  readonly #read: Script;
  readonly #results: Pick<KeptResults, 'keep'> | undefined;

  constructor(
    private readonly redis: Redis | Cluster,
    private readonly clock: Clock,
    options: { patienceMs?: number; results?: Pick<KeptResults, 'keep'> } = {},
  ) {
    super();
    this.#near = new MemoryResultCache(clock);
    this.#results = options.results;
    this.#trust = new StoreHealth(clock, options.patienceMs ?? PATIENCE_MS);
    redis.defineCommand('readCached', { numberOfKeys: 1, lua: READ_CACHED });
    const commands = redis as unknown as { readCached: Script };
    this.#read = (key) => commands.readCached(key);
  }

  override get(key: string, shared: boolean): CachedResult | undefined | Promise<CachedResult | undefined> {
    const near = this.#near.get(key);
    return near || !shared ? near : this.#shared(key, (stored, ageMs) => ageMs < stored.fresh_ms);
  }

  override getStale(key: string): CachedResult | undefined | Promise<CachedResult | undefined> {
    return this.#near.getStale(key) ?? this.#shared(key, () => true);
  }

  override set(key: string, result: CallResult, ages: CacheAges): void {
    this.#near.set(key, result, ages);
    const kept_ms = Math.max(ages.freshMs, ages.staleMs);
    if (!ages.shared || kept_ms <= 0 || !this.#reachable) return;
    const text = JSON.stringify({ fresh_ms: ages.freshMs, kept_ms, result } satisfies Stored);
    if (text.length > MAX_CACHED_CHARS) return;
    void this.#trust.ask(() => this.#write(PREFIX + key, text, kept_ms, ages.tenantId));
  }

  /** An entry for which the quota of its tenant has no room stays in this process. */
  async #write(ref: string, text: string, ttlMs: Milliseconds, tenantId: string): Promise<void> {
    const result = { tenantId, ref, bytes: Buffer.byteLength(text), keyed: false, ttlMs };
    if (this.#results && !(await this.#results.keep(result))) return;
    await this.redis.set(ref, text, 'PX', ttlMs);
  }

  get #reachable(): boolean {
    return this.redis.status === 'ready' && this.#trust.given;
  }

  async #shared(key: string, wanted: (stored: Stored, ageMs: number) => boolean): Promise<CachedResult | undefined> {
    if (!this.#reachable) return undefined;
    const reply = await this.#trust.ask(() => this.#read(PREFIX + key));
    if (!reply) return undefined;
    const [text, leftMs] = reply;
    const stored = JSON.parse(text) as Stored;
    const ageMs = Math.max(0, stored.kept_ms - leftMs);
    if (!wanted(stored, ageMs)) return undefined;
    const storedAt = this.clock.now() - ageMs;
    this.#near.set(key, stored.result, { freshMs: stored.fresh_ms - ageMs, staleMs: leftMs, storedAt });
    return { result: stored.result, storedAt };
  }
}
