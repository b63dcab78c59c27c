import type { Milliseconds } from '@toolfleet/contracts';

/**
 * Token bucket as GCRA (generic cell rate algorithm): the whole state is one number, the theoretical arrival time
 * (TAT) of the next call. Capacity = `perPeriod`, starts full, refills evenly (H01). The Lua script of the gateway has the
 * same arithmetic, in the same integer milliseconds scaled by 1,000 (microseconds), so both admit the same calls.
 */
export interface Rate {
  /** Calls per period, and burst. At least 1. */
  perPeriod: number;
  /** 60,000 for "per minute". */
  periodMs: Milliseconds;
}

/** Outcome of one ask. */
export interface RateDecision {
  allowed: boolean;
  /** Whole tokens left after this ask. */
  remaining: number;
  /** 0 when allowed, else milliseconds until one token is there. */
  retryAfterMs: Milliseconds;
  /** Milliseconds until the bucket is full again. */
  resetMs: Milliseconds;
}

/** State of a bucket in microseconds of the deciding clock; `undefined` is a full bucket. */
export type BucketState = number | undefined;

/** Asks for one token at `nowMs`. Pure: returns the decision and the next state (unchanged when refused). */
export function takeToken(
  state: BucketState,
  rate: Rate,
  nowMs: Milliseconds,
): { decision: RateDecision; state: number } {
  const now = Math.round(nowMs * 1_000);
  const interval = Math.max(1, Math.floor((rate.periodMs * 1_000) / rate.perPeriod)); // µs per token
  const tolerance = interval * rate.perPeriod; // burst: a full bucket holds `perPeriod` tokens
  const tat = Math.max(state ?? now, now);
  const next = tat + interval;
  const allowed = next - now <= tolerance;
  const settled = allowed ? next : tat;
  const left = Math.floor((tolerance - (settled - now)) / interval);
  return {
    state: settled,
    decision: {
      allowed,
      remaining: Math.max(0, left),
      retryAfterMs: allowed ? 0 : Math.ceil((next - now - tolerance) / 1_000),
      resetMs: Math.ceil((settled - now) / 1_000),
    },
  };
}

/** What an ask would find, without taking a token. */
export function peekTokens(state: BucketState, rate: Rate, nowMs: Milliseconds): number {
  const now = Math.round(nowMs * 1_000);
  const interval = Math.max(1, Math.floor((rate.periodMs * 1_000) / rate.perPeriod));
  const tat = Math.max(state ?? now, now);
  return Math.max(0, Math.floor((interval * rate.perPeriod - (tat - now)) / interval));
}
