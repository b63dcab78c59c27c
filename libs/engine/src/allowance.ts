import { ToolError, type Allowance, type BudgetScopes, type LimitState } from '@toolfleet/contracts';
import type { Call } from './call.js';
import type { EnginePorts } from './ports.js';

/**
 * What an admitted call may still use. Nobody knows beforehand what a tool that thinks and calls tools will need, so it is told
 * its limits and stops by itself; a tool with a price or a cap of its own needs none of this.
 * @throws ToolError BUDGET_UNAVAILABLE: without an answer nothing runs
 */
export async function allowanceOf(
  ports: Pick<EnginePorts, 'budget'>,
  call: Call,
  scopes: BudgetScopes,
): Promise<Allowance> {
  try {
    const { limits } = await ports.budget.limits(scopes, call.signal);
    const tokens = least(limits, ({ limit_tokens: limit, spent_tokens: spent, held_tokens: held }) => [
      limit,
      spent + held,
    ]);
    const money = least(limits, ({ limit_micro_usd: limit, spent_micro_usd: spent, held_micro_usd: held }) => [
      limit,
      spent + held - call.plan.reserveMicroUsd, // what is held for this very call is its own
    ]);
    return { ...(tokens === undefined ? {} : { tokens }), ...(money === undefined ? {} : { micro_usd: money }) };
  } catch (cause) {
    throw new ToolError('BUDGET_UNAVAILABLE', { message: 'The budget cannot be checked at the moment', cause });
  }
}

/** The smallest rest of all scopes that have a limit. */
function least(
  limits: readonly LimitState[],
  of: (state: LimitState) => [limit: number | null, used: number],
): number | undefined {
  const rests = limits.map(of).flatMap(([limit, used]) => (limit === null ? [] : [Math.max(0, limit - used)]));
  return rests.length === 0 ? undefined : Math.min(...rests);
}
