import { ToolError, type Milliseconds, type Principal } from '@toolfleet/contracts';
import {
  LEASE_GRACE_MS,
  type BudgetScopes,
  type ReserveAnswer,
  type ReserveRequest,
  type SpendMessage,
  type SpendReply,
} from '@toolfleet/contracts/budget';
import { toSnakeCase } from '@toolfleet/contracts/wire';
import type { BudgetPort } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';

type Slice = Pick<ReserveRequest, 'call_id' | 'parent_call_id' | 'scopes'>;

/**
 * Budget of tools that spend in steps. A tool reserves a slice before each step and settles it afterwards, so that concurrent
 * calls share one limit exactly. Tenant, scopes and call id come from the delegation token: a tool can only spend for the call
 * it works on.
 */
export class SpendSlices {
  constructor(
    private readonly budget: BudgetPort,
    private readonly clock: Clock,
  ) {}

  /**
   * Holds, settles or releases one slice.
   * @param timeLeftMs until the deadline of the call; a slice not settled by then, plus the grace, is charged in full
   * @throws ToolError PERMISSION_DENIED without a delegation token; BUDGET_UNAVAILABLE
   */
  async spend(
    caller: Principal,
    message: SpendMessage,
    timeLeftMs: Milliseconds,
    signal: AbortSignal,
  ): Promise<SpendReply> {
    const { parentCallId, parentSpends } = caller;
    if (caller.via !== 'delegation' || parentCallId === undefined || parentSpends === undefined) {
      throw new ToolError('PERMISSION_DENIED', { message: 'Holding budget slices requires a delegation token' });
    }
    const scopes: BudgetScopes = toSnakeCase({ tenantId: caller.tenantId, ...parentSpends });
    const slice: Slice = { call_id: `${parentCallId}/${message.slice}`, parent_call_id: parentCallId, scopes };
    if (message.op === 'hold') return this.#hold(slice, caller, message, timeLeftMs, signal);
    if (message.op === 'release') this.budget.release(slice.call_id, scopes);
    else this.#settle(slice, caller, message);
    return { held: true };
  }

  async #hold(
    slice: Slice,
    caller: Principal,
    { tool, tokens, micro_usd }: SpendMessage,
    timeLeftMs: Milliseconds,
    signal: AbortSignal,
  ): Promise<SpendReply> {
    const lease_ms = Math.ceil(timeLeftMs + LEASE_GRACE_MS);
    const answer = await this.budget.reserve(
      { ...slice, tokens, micro_usd, user_id: caller.userId, key_id: caller.keyId, tool_name: tool, lease_ms },
      signal,
    );
    if (answer.admitted) return { held: true };
    const { code, scope, limit, used } = answer;
    return {
      held: false,
      code,
      scope,
      limit,
      used,
      spent: await this.#settledSpend(slice.scopes, caller, answer, signal),
    };
  }

  /** The settled part of the refusing limit, in its unit: tokens or micro-USD. */
  async #settledSpend(
    scopes: BudgetScopes,
    { userId, keyId }: Principal,
    { code, scope, used }: Extract<ReserveAnswer, { admitted: false }>,
    signal: AbortSignal,
  ): Promise<number> {
    if (code === 'BUDGET_UNAVAILABLE') return used;
    const { limits } = await this.budget.limits({ scopes, budgets: { user_id: userId, key_id: keyId } }, signal);
    const state = limits.find((limit) => limit.scope === scope || (scope === 'day' && limit.scope.startsWith('day:')));
    if (!state) return used;
    return code === 'TOKEN_LIMIT_EXCEEDED' ? state.spent_tokens : state.spent_micro_usd;
  }

  #settle({ call_id, parent_call_id, scopes }: Slice, caller: Principal, message: SpendMessage): void {
    const { tokens, micro_usd, tool } = message;
    void this.budget.settle({
      call_id,
      scopes,
      tokens,
      micro_usd,
      row: {
        call_id,
        parent_call_id,
        ...scopes,
        user_id: caller.userId,
        key_id: caller.keyId,
        tool_name: tool,
        tokens,
        real_tokens: tokens,
        micro_usd,
        success: true,
        provenance: 'live',
        at: this.clock.now(),
      },
    });
  }
}
