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
  /** One request of `id` (key id, else user) in its tier; null when the store is away: requests pass then. */
  abstract take(id: string, tier: Tier): Promise<KeyAllowance | null>;
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

/** The 429 of an exhausted key. */
export function keyLimitError(tier: Tier, allowance: KeyAllowance): ToolError {
  const window = allowance.window ?? 'minute';
  return new ToolError('RATE_LIMITED', {
    message: `Rate limit exceeded: ${tier[window]} requests per ${window}`,
    details: { window, limit: tier[window] },
    retryAfterMs: allowance.retryAfterMs ?? 1_000,
  });
}
