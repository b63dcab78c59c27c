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

/** Outcome of one ask for several tokens. */
export interface GrantedTokens extends Omit<RateDecision, 'allowed'> {
  /** How many of the tokens asked for were there. */
  granted: number;
}

/** Microseconds per token, and how far the next arrival may lie ahead: a full bucket holds `perPeriod` tokens. */
export function cellOf(rate: Rate): { interval: number; tolerance: number } {
  const interval = Math.max(1, Math.ceil((rate.periodMs * 1_000) / rate.perPeriod)); // up: never above the rate
  return { interval, tolerance: interval * rate.perPeriod };
}

/**
 * Asks for `asked` tokens at `nowMs` and gets as many as are there. Pure: returns the answer and the next state. Asks of
 * one event-loop turn travel together, so this is the form the Lua script has.
 */
export function takeTokens(
  state: BucketState,
  rate: Rate,
  nowMs: Milliseconds,
  asked: number,
): { answer: GrantedTokens; state: number } {
  const now = Math.round(nowMs * 1_000);
  const { interval, tolerance } = cellOf(rate);
  const tat = Math.max(state ?? now, now);
  const available = Math.max(0, Math.floor((tolerance - (tat - now)) / interval));
  const granted = Math.min(asked, available);
  const settled = tat + granted * interval;
  return {
    state: settled,
    answer: {
      granted,
      remaining: available - granted,
      retryAfterMs: granted === asked ? 0 : Math.max(1, Math.ceil((settled + interval - tolerance - now) / 1_000)),
      resetMs: Math.ceil((settled - now) / 1_000),
    },
  };
}

/** Asks for one token. */
export function takeToken(
  state: BucketState,
  rate: Rate,
  nowMs: Milliseconds,
): { decision: RateDecision; state: number } {
  const taken = takeTokens(state, rate, nowMs, 1);
  const { granted, remaining, retryAfterMs, resetMs } = taken.answer;
  return { state: taken.state, decision: { allowed: granted === 1, remaining, retryAfterMs, resetMs } };
}

/** What an ask would find, without taking a token. */
export function peekTokens(state: BucketState, rate: Rate, nowMs: Milliseconds): number {
  return takeTokens(state, rate, nowMs, 0).answer.remaining;
}
