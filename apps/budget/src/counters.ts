import type { MicroUsd } from '@toolfleet/contracts';

/** An amount in both currencies: integer micro-USD and integer tokens. */
export interface Amount {
  microUsd: MicroUsd;
  tokens: number;
}

/** Limit of one scope; null = none in that currency. */
export interface ScopeLimit {
  microUsd: MicroUsd | null;
  tokens: number | null;
}

/** What a scope has spent, and what is held for running calls. */
export interface Counters {
  spentMicroUsd: MicroUsd;
  heldMicroUsd: MicroUsd;
  spentTokens: number;
  heldTokens: number;
}

/** Why a scope refuses a reservation. */
export interface Refusal {
  code: 'BUDGET_EXCEEDED' | 'TOKEN_LIMIT_EXCEEDED';
  limit: number;
  /** Spent + held when it was refused. */
  used: number;
}

/** Counters of an unused scope. */
export function noCounters(): Counters {
  return { spentMicroUsd: 0, heldMicroUsd: 0, spentTokens: 0, heldTokens: 0 };
}

/**
 * The limit rule for one currency: refuse if the amount would exceed the limit, or if the limit is already exhausted, so that
 * zero-cost calls are refused too. A limit of 100 admits exactly 100 calls of 1.
 * @param used spent + held
 */
export function isOver(limit: number | null, used: number, amount: number): boolean {
  return limit !== null && (used >= limit || used + amount > limit);
}

/** Checks an amount against one scope, money before tokens. Returns null if it is admitted. */
export function checkLimit(limit: ScopeLimit, counters: Counters, amount: Amount): Refusal | null {
  const microUsd = counters.spentMicroUsd + counters.heldMicroUsd;
  if (isOver(limit.microUsd, microUsd, amount.microUsd)) {
    return { code: 'BUDGET_EXCEEDED', limit: limit.microUsd ?? 0, used: microUsd };
  }
  const tokens = counters.spentTokens + counters.heldTokens;
  if (isOver(limit.tokens, tokens, amount.tokens)) {
    return { code: 'TOKEN_LIMIT_EXCEEDED', limit: limit.tokens ?? 0, used: tokens };
  }
  return null;
}

/** Holds an admitted amount. */
export function hold(counters: Counters, amount: Amount): void {
  counters.heldMicroUsd += amount.microUsd;
  counters.heldTokens += amount.tokens;
}

/** Releases a lease in full. */
export function unhold(counters: Counters, lease: Amount): void {
  counters.heldMicroUsd -= lease.microUsd;
  counters.heldTokens -= lease.tokens;
}

/** Adds an amount that was spent. */
export function charge(counters: Counters, amount: Amount): void {
  counters.spentMicroUsd += amount.microUsd;
  counters.spentTokens += amount.tokens;
}

/**
 * What a settlement charges: at most the money of the lease, unless overruns are allowed. Tokens are capped only if the lease has some, because a tool without a
 * declared cap reports its tokens afterwards; the limit then applies to the next call. A share of a shared lease caps no tokens, and
 * money only if it has some: the tool of a share without money has no price and costs what it reports.
 */
export function settledAmount(lease: Amount, actual: Amount, costOverrun = false, isShare = false): Amount {
  const isUncapped = costOverrun || (isShare && lease.microUsd === 0);
  return {
    microUsd: isUncapped ? actual.microUsd : Math.min(actual.microUsd, lease.microUsd),
    tokens: lease.tokens > 0 && !isShare ? Math.min(actual.tokens, lease.tokens) : actual.tokens,
  };
}

/** One shared lease takes at most this part of what is left of a limit, so that several gateways find enough and the rest is asked for. */
const SHARES_OF_REST = 100;

/**
 * The most that a shared lease may take of one limit; null where there is none.
 * @param used spent + held
 */
export function leasable(limit: number | null, used: number): number | null {
  return limit === null ? null : Math.max(0, Math.floor((limit - used) / SHARES_OF_REST));
}

/** Share of a limit at which an event is published. */
const THRESHOLD_RATIO = 0.8;

/** True if spending reached the threshold of a limit. Spending only grows, so this is true at most once. */
export function crossesThreshold(limit: number | null, before: number, after: number): boolean {
  if (limit === null || limit <= 0) return false;
  const threshold = limit * THRESHOLD_RATIO;
  return before < threshold && after >= threshold;
}
