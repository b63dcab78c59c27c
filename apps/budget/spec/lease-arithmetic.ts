/** The arithmetic of the Lua scripts, as the model of the specs does it. */
import type { Amount, Counters } from '@toolfleet/resilience';

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

/** One shared lease takes at most this part of the rest of a limit, so that several gateways find enough and the rest is asked for. */
const SHARES_OF_REST = 100;

/**
 * The most that a shared lease may take of one limit; null where there is none.
 * @param used spent + held
 */
export function leasable(limit: number | null, used: number): number | null {
  return limit === null ? null : Math.max(0, Math.floor((limit - used) / SHARES_OF_REST));
}
