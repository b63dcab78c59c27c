import { ToolError, type Milliseconds, type Principal } from '@toolfleet/contracts';
import type {
  BudgetScopes,
  ReserveAnswer,
  ReserveRequest,
  SpendMessage,
  SpendReply,
} from '@toolfleet/contracts/budget';
import { toSnakeCase } from '@toolfleet/contracts/wire';
import type { BudgetPort } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';

/**
 * Budgets of tools that spend as they go. Each step holds a slice in the budget service before it spends and settles it after,
 * so that calls that run at the same time share one limit exactly. Tenant, scopes and call come from the delegation token: a
 * tool can spend for the call it works on and for no other.
 */
export class SpendSlices {
  constructor(
    private readonly budget: BudgetPort,
    private readonly clock: Clock,
    /** Added to the time left, so that a slice outlives the step it is for. */
    private readonly leaseGraceMs: Milliseconds,
  ) {}

  /**
   * @param timeLeftMs until the deadline of the call; a slice that is not settled by then, plus grace, is charged in full
   * @throws ToolError PERMISSION_DENIED without a delegation token, BUDGET_UNAVAILABLE
   */
  async spend(
    caller: Principal,
    message: SpendMessage,
    timeLeftMs: Milliseconds,
    signal: AbortSignal,
  ): Promise<SpendReply> {
    const { parentCallId, parentSpends } = caller;
    if (caller.via !== 'delegation' || parentCallId === undefined || parentSpends === undefined) {
      throw new ToolError('PERMISSION_DENIED', { message: 'Slices of a budget are held with a delegation token' });
    }
    const scopes: BudgetScopes = toSnakeCase({ tenantId: caller.tenantId, ...parentSpends });
    const slice = { call_id: `${parentCallId}/${message.slice}`, parent_call_id: parentCallId, scopes };
    if (message.op === 'hold')
      return this.#hold({ ...slice, ...amountsOf(message) }, caller, message, timeLeftMs, signal);
    if (message.op === 'release') this.budget.release(slice.call_id, scopes);
    else this.#settle(slice, caller, message);
    return { held: true };
  }

  async #hold(
    slice: Omit<ReserveRequest, 'lease_ms'>,
    caller: Principal,
    message: SpendMessage,
    timeLeftMs: Milliseconds,
    signal: AbortSignal,
  ): Promise<SpendReply> {
    const lease_ms = Math.ceil(timeLeftMs + this.leaseGraceMs);
    const ask: ReserveRequest = { ...slice, user_id: caller.userId, tool_name: message.tool, lease_ms };
    const answer = await this.budget.reserve(ask, signal);
    if (answer.admitted) return { held: true };
    const { code, scope, limit, used } = answer;
    return { held: false, code, scope, limit, used, spent: await this.#spentOf(slice.scopes, answer, signal) };
  }

  /** What of a refusing limit is spent for good. */
  async #spentOf(scopes: BudgetScopes, { code, scope, used }: Refusal, signal: AbortSignal): Promise<number> {
    if (code === 'BUDGET_UNAVAILABLE') return used;
    const { limits } = await this.budget.limits(scopes, signal);
    const state = limits.find((one) => one.scope === scope || (scope === 'day' && one.scope.startsWith('day:')));
    if (!state) return used;
    return code === 'TOKEN_LIMIT_EXCEEDED' ? state.spent_tokens : state.spent_micro_usd;
  }

  #settle(
    slice: { call_id: string; parent_call_id: string; scopes: BudgetScopes },
    caller: Principal,
    message: SpendMessage,
  ): void {
    const { scopes, ...ids } = slice;
    const amounts = amountsOf(message);
    this.budget.settle({
      call_id: slice.call_id,
      scopes,
      ...amounts,
      row: {
        ...ids,
        ...amounts,
        real_tokens: message.tokens,
        tenant_id: scopes.tenant_id,
        user_id: caller.userId,
        tool_name: message.tool,
        request_id: scopes.request_id,
        ...(scopes.agent_id === undefined ? {} : { agent_id: scopes.agent_id }),
        ...(scopes.task_id === undefined ? {} : { task_id: scopes.task_id }),
        success: true,
        provenance: 'live',
        at: this.clock.now(),
      },
    });
  }
}

type Refusal = Extract<ReserveAnswer, { admitted: false }>;

function amountsOf({ tokens, micro_usd }: SpendMessage): Pick<SpendMessage, 'tokens' | 'micro_usd'> {
  return { tokens, micro_usd };
}
