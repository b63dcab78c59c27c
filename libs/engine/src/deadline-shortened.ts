import type { Call } from './call.js';

/** Share of its own time a tool must have had before its silence counts against it. */
const FAIR_SHARE = 0.8;
/** Whoever says nothing for so long is down, whatever time it claims for itself. */
const LONGEST_PATIENCE_MS = 60_000;

/**
 * True when an attempt gets less time than its tool may take. Running out of such time must not count for a breaker: breakers
 * are shared by all tenants, and a caller with a tiny `timeout_ms` could switch off a tool, or a whole server, for the others.
 * A sandbox run always is: its limit and its code are the caller's.
 */
export function isCurtailed({ plan, timeoutMs, deadline }: Pick<Call, 'plan' | 'timeoutMs' | 'deadline'>): boolean {
  if (plan.timeoutMs === undefined) return true;
  return Math.min(timeoutMs, deadline.remainingMs()) < FAIR_SHARE * Math.min(plan.timeoutMs, LONGEST_PATIENCE_MS);
}
