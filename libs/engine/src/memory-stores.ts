import { LRUCache } from 'lru-cache';
import type { Succeeded, EpochMs, Json, Milliseconds } from '@toolfleet/contracts';
import { peekTokens, RecentMap, takeToken, type Clock, type Rate, type RateDecision } from '@toolfleet/resilience';
import {
  RateLimiter,
  ResultCache,
  SessionResults,
  type CacheAges,
  type CachedResult,
  type CacheScope,
} from './ports.js';

/** Larger results are not cached: a gateway has to hold a thousand of them. In characters, roughly as JSON. */
export const MAX_CACHED_CHARS = 256 * 1024;

const MAX_RESULTS = 5_000;
/** Characters held by a cache, whatever the number of results. */
const MAX_CHARS = 64 * 1024 * 1024;
/** Results over all sessions. */
const MAX_SESSION_RESULTS = 5_000;
/** A bucket that is evicted starts full again, as an idle bucket would be. */
const MAX_BUCKETS = 50_000;

/** Versions of scopes that are remembered. A forgotten scope gets a new version: its results are not found any more. */
const MAX_SCOPES = 20_000;

interface CacheEntry extends CachedResult {
  /** Monotonic ms until which it answers calls. */
  readonly freshUntil: Milliseconds;
  /** Monotonic ms until which it may replace a failure. */
  readonly staleUntil: Milliseconds;
  readonly version: string;
}

/** Result cache of one process; also the near cache in front of a shared one. */
export class MemoryResultCache extends ResultCache {
  readonly #entries = new LRUCache<string, CacheEntry>({ max: MAX_RESULTS, maxSize: MAX_CHARS });
  readonly #versions = new RecentMap<string, string>({ max: MAX_SCOPES });
  #lastVersion = 0;

  constructor(private readonly clock: Clock) {
    super();
  }

  override get(key: string, scope: CacheScope): { cached?: CachedResult; version: string } {
    const version = this.version(scope);
    const entry = this.#getValid(key, version);
    return { cached: entry && entry.freshUntil > this.clock.monotonic() ? entry : undefined, version };
  }

  override getStale(key: string, scope: CacheScope): CachedResult | undefined {
    const entry = this.#getValid(key, this.version(scope));
    return entry && entry.staleUntil > this.clock.monotonic() ? entry : undefined;
  }

  /** Returns false for a result that is too old or too large to be kept. */
  override set(
    key: string,
    result: Succeeded,
    ages: Pick<CacheAges, 'freshMs' | 'staleMs' | 'version'> & { storedAt?: EpochMs },
  ): boolean {
    const { version } = ages;
    if (ages.freshMs <= 0 && ages.staleMs <= 0) return false;
    const size = roughSize(result, MAX_CACHED_CHARS);
    if (size > MAX_CACHED_CHARS) return false;
    const storedAt = ages.storedAt ?? this.clock.now();
    const now = this.clock.monotonic();
    const freshUntil = now + ages.freshMs;
    const staleUntil = now + ages.staleMs;
    this.#entries.set(key, { result, storedAt, version, freshUntil, staleUntil }, { size: size + key.length + 100 });
    return true;
  }

  override drop(scope: CacheScope): void {
    this.#versions.set(scopeName(scope), this.#newVersion());
  }

  override version(scope: CacheScope): string {
    const name = scopeName(scope);
    let version = this.#versions.get(name);
    if (version === undefined) this.#versions.set(name, (version = this.#newVersion()));
    return version;
  }

  #newVersion(): string {
    return String((this.#lastVersion += 1));
  }

  /** The entry of a key, unless a drop has made it invalid. */
  #getValid(key: string, version: string): CacheEntry | undefined {
    const entry = this.#entries.get(key);
    if (!entry || entry.version === version) return entry;
    this.#entries.delete(key);
    return undefined;
  }
}

function scopeName({ tenantId, source }: CacheScope): string {
  return `${tenantId} ${source}`;
}

/** Estimates the characters of a result as JSON; stops counting just above `limit`. */
function roughSize(result: Succeeded, limit: number): number {
  let size = result.text.length;
  const open: (Json | undefined)[] = [result.output, result.metadata, result.content ?? null];
  while (open.length > 0 && size <= limit) {
    const value = open.pop();
    if (typeof value === 'string') size += value.length + 2;
    else if (typeof value !== 'object' || value === null) size += 5;
    else if (Array.isArray(value)) {
      size += value.length + 2;
      for (const item of value) open.push(item);
    } else {
      for (const key in value) {
        size += key.length + 4;
        open.push(value[key]);
      }
    }
  }
  return size;
}

/** Session results of one process. */
export class MemorySessionResults extends SessionResults {
  readonly #results = new RecentMap<string, { result: Succeeded; endsAt: Milliseconds }>({ max: MAX_SESSION_RESULTS });

  constructor(private readonly clock: Clock) {
    super();
  }

  override get(sessionKey: string, resultKey: string): Succeeded | undefined {
    const entry = this.#results.get(`${sessionKey} ${resultKey}`);
    return entry && entry.endsAt > this.clock.monotonic() ? entry.result : undefined;
  }

  override put(sessionKey: string, resultKey: string, result: Succeeded, ttlMs: Milliseconds): void {
    this.#results.set(`${sessionKey} ${resultKey}`, { result, endsAt: this.clock.monotonic() + ttlMs });
  }
}

/** Rate limiter of one process; also the fallback while the shared limiter is unavailable. */
export class MemoryRateLimiter extends RateLimiter {
  readonly #buckets = new RecentMap<string, number>({ max: MAX_BUCKETS });

  constructor(private readonly clock: Clock) {
    super();
  }

  override take(key: string, rate: Rate): RateDecision {
    const { state, decision } = takeToken(this.#buckets.get(key), rate, this.clock.monotonic());
    this.#buckets.set(key, state);
    return decision;
  }

  override peek(key: string, rate: Rate): number {
    return peekTokens(this.#buckets.get(key), rate, this.clock.monotonic());
  }
}
