import type { Milliseconds } from '@toolfleet/contracts';

/**
 * Token bucket as GCRA (generic cell rate algorithm): the whole state is one number, the theoretical arrival time
 * (TAT) of the next call. Capacity = `perPeriod`, starts full, refills evenly. The Lua script of the gateway has the
 * same arithmetic, in the same integer milliseconds scaled by 1,000 (microseconds), so both admit the same calls.
 */
export interface Rate {
  /** Calls per period, and burst. At least 1. */
  perPeriod: number;
  /** 60,000 for "per minute". */
  periodMs: Milliseconds;
}

/** Outcome of a request for one token. */
export interface RateDecision {
  allowed: boolean;
  /** Whole tokens left after this request. */
  remaining: number;
  /** 0 when allowed, else milliseconds until one token is available. */
  retryAfterMs: Milliseconds;
  /** Milliseconds until the bucket is full again. */
  resetMs: Milliseconds;
}

/** State of a bucket in microseconds of the deciding clock; `undefined` is a full bucket. */
type BucketState = number | undefined;

/** Outcome of a request for several tokens. */
export interface GrantedTokens extends Omit<RateDecision, 'allowed'> {
  /** How many of the requested tokens were available. */
  granted: number;
}

/** Microseconds per token, and how far the next arrival may lie ahead: a full bucket holds `perPeriod` tokens. */
function toCell(rate: Rate): { interval: number; tolerance: number } {
  const interval = Math.max(1, Math.ceil((rate.periodMs * 1_000) / rate.perPeriod)); // up: never above the rate
  return { interval, tolerance: interval * rate.perPeriod };
}

/**
 * Takes up to `requested` tokens at `nowMs`. Pure: returns the answer and the next state. Requests of one event-loop tick are sent to Redis
 * together, so this is also the form of the Lua script.
 */
export function takeTokens(
  state: BucketState,
  rate: Rate,
  nowMs: Milliseconds,
  requested: number,
): { answer: GrantedTokens; state: number } {
  const now = Math.round(nowMs * 1_000);
  const { interval, tolerance } = toCell(rate);
  const tat = Math.max(state ?? now, now);
  const available = Math.max(0, Math.floor((tolerance - (tat - now)) / interval));
  const granted = Math.min(requested, available);
  const settled = tat + granted * interval;
  return {
    state: settled,
    answer: {
      granted,
      remaining: available - granted,
      retryAfterMs: granted === requested ? 0 : Math.max(1, Math.ceil((settled + interval - tolerance - now) / 1_000)),
      resetMs: Math.ceil((settled - now) / 1_000),
    },
  };
}

/** Takes one token. */
export function takeToken(
  state: BucketState,
  rate: Rate,
  nowMs: Milliseconds,
): { decision: RateDecision; state: number } {
  const taken = takeTokens(state, rate, nowMs, 1);
  const { granted, remaining, retryAfterMs, resetMs } = taken.answer;
  return { state: taken.state, decision: { allowed: granted === 1, remaining, retryAfterMs, resetMs } };
}

/** The tokens that are available, without taking one. */
export function peekTokens(state: BucketState, rate: Rate, nowMs: Milliseconds): number {
  return takeTokens(state, rate, nowMs, 0).answer.remaining;
}
