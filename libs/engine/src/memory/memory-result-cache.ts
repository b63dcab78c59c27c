import { LRUCache } from 'lru-cache';
import type { CallResult, EpochMs, Milliseconds } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import { ResultCache, type CachedResult } from '../ports.js';
import { MAX_CACHED_CHARS, roughSize } from '../result-size.js';

/** Fresh results of one process. */
const MAX_FRESH = 1_000;
/** Results that may stand in for a failure. */
const MAX_STALE = 5_000;
/** Characters kept in each of the two, whatever the number of results. */
const MAX_CHARS = 64 * 1024 * 1024;

interface Entry extends CachedResult {
  readonly endsAt: Milliseconds;
}

/** Result cache of one process, in memory; also the near layer in front of a shared one. */
export class MemoryResultCache extends ResultCache {
  readonly #fresh: LRUCache<string, Entry>;
  readonly #stale: LRUCache<string, Entry>;

  constructor(
    private readonly clock: Clock,
    limits: { maxFresh?: number; maxStale?: number } = {},
  ) {
    super();
    this.#fresh = new LRUCache({ max: limits.maxFresh ?? MAX_FRESH, maxSize: MAX_CHARS });
    this.#stale = new LRUCache({ max: limits.maxStale ?? MAX_STALE, maxSize: MAX_CHARS });
  }

  override get(key: string): CachedResult | undefined {
    return this.#living(this.#fresh, key);
  }

  override getStale(key: string): CachedResult | undefined {
    return this.#living(this.#stale, key);
  }

  override set(
    key: string,
    result: CallResult,
    ages: { freshMs: Milliseconds; staleMs: Milliseconds; storedAt?: EpochMs },
  ): void {
    const size = roughSize(result, MAX_CACHED_CHARS);
    if (size > MAX_CACHED_CHARS) return;
    const storedAt = ages.storedAt ?? this.clock.now();
    const now = this.clock.monotonic();
    if (ages.freshMs > 0) this.#fresh.set(key, { result, storedAt, endsAt: now + ages.freshMs }, { size: size + 100 });
    if (ages.staleMs > 0) this.#stale.set(key, { result, storedAt, endsAt: now + ages.staleMs }, { size: size + 100 });
  }

  #living(store: LRUCache<string, Entry>, key: string): CachedResult | undefined {
    const entry = store.get(key);
    if (!entry) return undefined;
    if (entry.endsAt > this.clock.monotonic()) return entry;
    store.delete(key);
    return undefined;
  }
}
