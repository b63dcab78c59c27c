import type { Clock } from '@toolfleet/resilience';
import type { Metrics } from '@toolfleet/telemetry';

/** A scrape of Prometheus, so that none misses an outage between two of them. */
const SHOWN_FOR_MS = 15_000;

/**
 * Keeps `toolfleet_limiter_fallback`: 1 while limits are counted locally and for a scrape after, 0 otherwise.
 * @returns what to call for each decision that was made locally
 */
export function limiterFallback(metrics: Metrics, clock: Clock): () => void {
  let lastAt = Number.NEGATIVE_INFINITY;
  metrics.onScrape(() => metrics.limiterFallback.set(clock.monotonic() - lastAt <= SHOWN_FOR_MS ? 1 : 0));
  return () => void (lastAt = clock.monotonic());
}
