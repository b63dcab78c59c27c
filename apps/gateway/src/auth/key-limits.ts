import { ToolError } from '@toolfleet/contracts';
import type { Tier } from './tiers.js';

/** What is left of a key's windows after a request. */
export interface KeyAllowance {
  allowed: boolean;
  remainingMinute: number;
  remainingHour: number;
  /** Unix seconds at which the minute (or, refused, the exhausted window) starts again. */
  resetAtSeconds: number;
  /** The exhausted window when refused. */
  window?: 'minute' | 'hour' | 'day';
  retryAfterMs?: number;
}

/** Counts requests of API keys. A refused request uses nothing up, so that a client that keeps trying recovers. */
export abstract class KeyLimits {
  /**
   * Counts `calls` requests of `id` (key id, else user) in its tier: all of them, or none when there are not enough left.
   * Null when the store is away: requests pass then.
   */
  abstract take(id: string, tier: Tier, calls?: number): Promise<KeyAllowance | null>;
}

/** `X-RateLimit-*` headers of an answer. */
export function rateLimitHeaders(tier: Tier, allowance: KeyAllowance): Record<string, string> {
  return {
    'X-RateLimit-Limit-Minute': String(tier.minute),
    'X-RateLimit-Remaining-Minute': String(allowance.remainingMinute),
    'X-RateLimit-Limit-Hour': String(tier.hour),
    'X-RateLimit-Remaining-Hour': String(allowance.remainingHour),
    'X-RateLimit-Reset': String(allowance.resetAtSeconds),
  };
}

/** The 429 of an exhausted key. @param batch number of calls in the batch that did not fit */
export function keyLimitError(tier: Tier, allowance: KeyAllowance, batch?: number): ToolError {
  const window = allowance.window ?? 'minute';
  const exceeded = `Rate limit exceeded: ${tier[window]} requests per ${window}`;
  return new ToolError('RATE_LIMITED', {
    message: batch === undefined ? exceeded : `${exceeded}; this batch has ${batch} calls, so send smaller ones`,
    details: { window, limit: tier[window], ...(batch === undefined ? {} : { calls: batch }) },
    retryAfterMs: allowance.retryAfterMs ?? 1_000,
  });
}
