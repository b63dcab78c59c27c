import type { Milliseconds } from '@toolfleet/contracts';

/** No wait between two attempts is longer, whatever a policy says. */
export const MAX_BACKOFF_MS = 30_000;

/** Figures of an exponential backoff. */
export interface Backoff {
  baseMs: Milliseconds;
  multiplier: number;
  /** Cap of one wait; at most `MAX_BACKOFF_MS`. */
  capMs: Milliseconds;
}

/** Longest wait before retry `k` (k = 1 is the second attempt): min(cap, base * mult^(k-1)). */
export function backoffCeilingMs(backoff: Backoff, k: number): Milliseconds {
  const cap = Math.min(backoff.capMs, MAX_BACKOFF_MS);
  return Math.max(0, Math.min(cap, backoff.baseMs * backoff.multiplier ** (k - 1)));
}

/**
 * Wait before retry `k` with full jitter: uniform in [0, ceiling]. What the upstream asked for (`Retry-After`) is a lower
 * bound. `random` is in [0, 1).
 */
export function backoffMs(backoff: Backoff, k: number, random: () => number, retryAfterMs = 0): Milliseconds {
  return Math.max(retryAfterMs, Math.round(random() * backoffCeilingMs(backoff, k)));
}
