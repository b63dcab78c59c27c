import type { EpochMs, MicroUsd } from '@toolfleet/contracts';
import type { BudgetPeriod } from '@toolfleet/contracts/budget';

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

/** Spending of a scope, and amounts held for running calls. */
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

/** Shares of a limit, in percent, at which an event is reported. */
const SHARES = ['80', '100'] as const;

/** The shares of a limit that spending reached in this step. Spending only grows, so each is reached at most once. */
export function reachedShares(limit: number | null, before: number, after: number): (typeof SHARES)[number][] {
  if (limit === null || limit <= 0) return [];
  return SHARES.filter((share) => {
    const threshold = (limit * Number(share)) / 100;
    return before < threshold && after >= threshold;
  });
}

/** The UTC day `2026-11-21` or month `2026-11` of an instant, or `total`. */
export function periodName(period: BudgetPeriod, at: EpochMs): string {
  if (period === 'total') return 'total';
  return new Date(at).toISOString().slice(0, period === 'month' ? '2026-11'.length : '2026-11-21'.length);
}

/** Start of the current period; 0 for `total`. */
export function periodStart(period: BudgetPeriod, at: EpochMs): EpochMs {
  return period === 'total' ? 0 : Date.parse(periodName(period, at));
}
