import type { MicroUsd } from '@toolfleet/contracts';

/** An amount in both currencies of the ledger: integer micro-USD and integer tokens. */
export interface Amount {
  microUsd: MicroUsd;
  tokens: number;
}

/** Ceiling of one scope; null = no limit in that currency. */
export interface ScopeLimit {
  microUsd: MicroUsd | null;
  tokens: number | null;
}

/** What a scope has consumed and what is leased to running calls. */
export interface Counters {
  spentMicroUsd: MicroUsd;
  heldMicroUsd: MicroUsd;
  spentTokens: number;
  heldTokens: number;
}

/** Why one scope refuses an ask. */
export interface Refusal {
  code: 'BUDGET_EXCEEDED' | 'TOKEN_LIMIT_EXCEEDED';
  limit: number;
  /** Spent + held at the moment of the refusal. */
  used: number;
}

/** Counters of a scope nobody has used yet. */
export function noCounters(): Counters {
  return { spentMicroUsd: 0, heldMicroUsd: 0, spentTokens: 0, heldTokens: 0 };
}

/**
 * The limit rule, for one currency: refuse when `spent + held + ask > limit`, and also when `spent + held >= limit`, so
 * that free calls stop at the limit too. 100 asks of 1 against 100 admit exactly 100.
 */
export function isOver(limit: number | null, used: number, ask: number): boolean {
  return limit !== null && (used >= limit || used + ask > limit);
}

/** Admits an ask against one scope, or says why not. Money is looked at before tokens. */
export function admit(limit: ScopeLimit, counters: Counters, ask: Amount): Refusal | null {
  const microUsd = counters.spentMicroUsd + counters.heldMicroUsd;
  if (isOver(limit.microUsd, microUsd, ask.microUsd)) {
    return { code: 'BUDGET_EXCEEDED', limit: limit.microUsd ?? 0, used: microUsd };
  }
  const tokens = counters.spentTokens + counters.heldTokens;
  if (isOver(limit.tokens, tokens, ask.tokens)) {
    return { code: 'TOKEN_LIMIT_EXCEEDED', limit: limit.tokens ?? 0, used: tokens };
  }
  return null;
}

/** Leases an admitted ask. */
export function hold(counters: Counters, ask: Amount): void {
  counters.heldMicroUsd += ask.microUsd;
  counters.heldTokens += ask.tokens;
}

/** Gives a lease back whole. */
export function unhold(counters: Counters, lease: Amount): void {
  counters.heldMicroUsd -= lease.microUsd;
  counters.heldTokens -= lease.tokens;
}

/** Books an amount that was really consumed. */
export function charge(counters: Counters, amount: Amount): void {
  counters.spentMicroUsd += amount.microUsd;
  counters.spentTokens += amount.tokens;
}

/**
 * What a settlement costs: never more money than was leased. Tokens are capped only when some were leased, because a tool
 * without a declared cap reports its tokens after the fact; the next call then meets the limit.
 */
export function settledAmount(lease: Amount, actual: Amount): Amount {
  return {
    microUsd: Math.min(actual.microUsd, lease.microUsd),
    tokens: lease.tokens > 0 ? Math.min(actual.tokens, lease.tokens) : actual.tokens,
  };
}

/** Share of a limit at which an event is published (issue of trust, part 6). */
export const THRESHOLD_RATIO = 0.8;

/** True when spending went from below the threshold of a limit to or above it. Spending only grows, so this is true once. */
export function crossesThreshold(limit: number | null, before: number, after: number): boolean {
  if (limit === null || limit <= 0) return false;
  const threshold = limit * THRESHOLD_RATIO;
  return before < threshold && after >= threshold;
}
