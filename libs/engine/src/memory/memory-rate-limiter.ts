import { LRUCache } from 'lru-cache';
import { peekTokens, takeToken, type Clock, type Rate, type RateDecision } from '@toolfleet/resilience';
import { RateLimiter } from '../ports.js';

/** Buckets kept; a forgotten one starts full, which is what an idle bucket is anyway. */
const MAX_BUCKETS = 50_000;

/** Rate limiter of one process. */
export class MemoryRateLimiter extends RateLimiter {
  readonly #buckets = new LRUCache<string, number>({ max: MAX_BUCKETS });

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
