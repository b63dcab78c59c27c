import type { BudgetThreshold } from '@toolfleet/contracts/budget';
import { crossesThreshold } from './ledger.js';
import { shownScope, type ScopeKind, type TenantLimits } from './limits.js';
import type { Spending } from './reservation-store.js';

/** Limits that this spending brought to 80 %, one entry per scope and currency. */
export function crossings(
  spending: readonly Spending[],
  limits: TenantLimits,
): Omit<BudgetThreshold, 'tenant_id' | 'at'>[] {
  const found: Omit<BudgetThreshold, 'tenant_id' | 'at'>[] = [];
  for (const one of spending) {
    const limit = limits[kindOf(one.scope)];
    const scope = shownScope(one.scope);
    if (crossesThreshold(limit.microUsd, one.microUsdBefore, one.microUsdAfter)) {
      found.push({ scope, currency: 'micro_usd', limit: limit.microUsd ?? 0, spent: one.microUsdAfter });
    }
    if (crossesThreshold(limit.tokens, one.tokensBefore, one.tokensAfter)) {
      found.push({ scope, currency: 'tokens', limit: limit.tokens ?? 0, spent: one.tokensAfter });
    }
  }
  return found;
}

/** Kind of a counter by its name: `agent:planner` is an agent. */
export function kindOf(scope: string): ScopeKind {
  const colon = scope.indexOf(':');
  return (colon < 0 ? scope : scope.slice(0, colon)) as ScopeKind;
}
