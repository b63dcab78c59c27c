import { toUsd, type EpochMs } from '@toolfleet/contracts';
import type { EventData, FleetEvent } from '@toolfleet/contracts/events';
import { reachedShares, type ScopeLimit } from '@toolfleet/resilience';
import { scopeKind, shownScope } from './limits.js';
import type { ScopeSpent } from './reservation-store.js';

type Reached = EventData<'budget.reached'>;

/**
 * The limits of which spending reached 80 or 100 %: one event per scope, currency and share. A request has none: its limit bounds single
 * calls. The same spending of the same limit gives the same events.
 */
export function reachedLimits(
  tenantId: string,
  spending: readonly ScopeSpent[],
  limitOf: (scope: string) => ScopeLimit,
  now: EpochMs,
): FleetEvent<'budget.reached'>[] {
  const events: FleetEvent<'budget.reached'>[] = [];
  for (const one of spending) {
    if (scopeKind(one.scope) === 'request') continue;
    const limit = limitOf(one.scope);
    const scope = shownScope(one.scope);
    const add = (percent: Reached['percent'], money: Omit<Reached, 'scope' | 'percent'>) =>
      events.push({
        kind: 'budget.reached',
        tenant_id: tenantId,
        at: now,
        user_id: scope.startsWith('user/') ? scope.slice(scope.indexOf(':') + 1) : undefined,
        data: { scope, percent, ...money },
      });
    for (const percent of reachedShares(limit.microUsd, one.microUsdBefore, one.microUsdAfter))
      add(percent, { currency: 'usd', limit: toUsd(limit.microUsd!), spent: toUsd(one.microUsdAfter) });
    for (const percent of reachedShares(limit.tokens, one.tokensBefore, one.tokensAfter))
      add(percent, { currency: 'tokens', limit: limit.tokens!, spent: one.tokensAfter });
  }
  return events;
}
