import { ToolError, toUsd, type CallResult, type EpochMs, type MicroUsd, type Usage } from '@toolfleet/contracts';
import { LEASE_GRACE_MS, type BudgetScopes, type ReserveAnswer, type SettleRequest } from '@toolfleet/contracts/budget';
import type { Call } from '../call.js';
import { step, type Step } from '../step.js';
import { actingUserId } from '../call-identity.js';
import { isExecution, shownTokens, withCharge } from '../charge.js';
import type { EnginePorts } from '../ports.js';
import { onAbort } from '@toolfleet/resilience';

/** Limits of a day end with it, in UTC. */
const DAY_MS = 86_400_000;

/**
 * Reserves the most that a call may cost, runs it, and settles its cost or releases the reservation. An exception inside
 * releases it; a process that dies in between leaves a lease that is charged in full when it expires. Where a limit is named on what the
 * tool reports, the answer waits until it is charged. Usage that a tool settled
 * in slices while it ran (`tool.spend`) is reported in its result and not charged again.
 * @throws ToolError BUDGET_EXCEEDED, TOKEN_LIMIT_EXCEEDED, BUDGET_UNAVAILABLE; OUTCOME_UNKNOWN for a call id charged before
 */
export function budget(ports: Pick<EnginePorts, 'budget' | 'clock'>): Step {
  return step('budget', (next) => async (call) => {
    const scopes = budgetScopes(call);
    const reserved = ports.budget.reserve(
      {
        call_id: call.callId,
        scopes,
        micro_usd: call.plan.reserveMicroUsd,
        tokens: 0,
        lease_ms: Math.ceil(call.deadline.remainingMs() + LEASE_GRACE_MS),
        shares_request: call.plan.callsTools,
        may_report: call.plan.mayReport,
        may_repeat: call.request.entryPoint === 'queue',
        ...charged(call),
        user_id: actingUserId(call.request) || undefined,
      },
      call.signal,
    );
    const answer = reserved instanceof Promise ? await reserved : reserved;
    if (!answer.admitted) throw refusal(answer, call.plan.reserveMicroUsd, ports.clock.now());
    const reservedCall = answer.may_overrun ? { ...call, maxMicroUsd: Number.POSITIVE_INFINITY } : call;
    let result: CallResult | undefined;
    let reported: Usage | undefined;
    try {
      const outcome = await next(reservedCall);
      reported = outcome.usage;
      result = outcome.replayOf === undefined ? withCharge(reservedCall, outcome) : outcome;
      return result;
    } finally {
      if (result && reported && isExecution(result)) {
        const charging = ports.budget.settle(toSettlement(call, scopes, result, reported, ports.clock.now()));
        if (charging) await untilAborted(charging, call.signal);
      } else {
        ports.budget.release(call.callId, scopes);
      }
    }
  });
}

/** Resolves with the work or when the signal is aborted: no answer is late because its charge is. */
async function untilAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  const aborted = Promise.withResolvers<void>();
  const forget = onAbort(signal, aborted.resolve);
  if (!signal.aborted) await Promise.race([work, aborted.promise]);
  forget();
}

/** Who pays for a call. */
export function payer({ request }: Pick<Call, 'request'>): { user_id: string; key_id: string | undefined } {
  return { user_id: actingUserId(request), key_id: request.principal.keyId };
}

/** Who pays for a call, and for which tool, as reports sum it. */
function charged(call: Call) {
  const { tool } = call;
  return {
    ...payer(call),
    tool_name: tool.name,
    source: `${tool.source.kind}/${tool.source.name}`,
  };
}

/** The budgets that a call spends from. A call without a request id is its own request. */
export function budgetScopes(call: Call): BudgetScopes {
  const { principal, requestId, agentId, taskId } = call.request;
  return {
    tenant_id: principal.tenantId,
    request_id: requestId ?? call.callId,
    agent_id: agentId,
    task_id: taskId,
  };
}

/**
 * Builds the settlement of a call with its row for `token_usage`. `result.usage` is the charge; the part of it that the tool
 * settled in slices has its own rows and is subtracted. Synthetic tokens are recorded, but count against no limit.
 */
function toSettlement(
  call: Call,
  scopes: BudgetScopes,
  result: CallResult,
  reported: Usage,
  at: number,
): SettleRequest {
  const { settled = false } = reported;
  const tokens = settled ? 0 : result.usage.tokens;
  const microUsd = Math.max(0, result.usage.microUsd - (settled ? reported.microUsd : 0));
  const { requestId, agentId, taskId } = call.request;
  return {
    call_id: call.callId,
    scopes,
    micro_usd: microUsd,
    tokens,
    row: {
      call_id: call.callId,
      tenant_id: scopes.tenant_id,
      ...charged(call),
      agent_id: agentId,
      task_id: taskId,
      request_id: requestId,
      tokens: tokens > 0 || settled ? tokens : shownTokens(result),
      real_tokens: tokens,
      micro_usd: microUsd,
      success: result.ok,
      provenance: result.provenance,
      at,
    },
  };
}

/** A set budget as refusals name it: `user/2026-11:ada` is user ada's in 2026-11, and ends with the month. */
const SET_BUDGET = /^(tenant|user|key)\/(total|\d{4}-\d{2}(?:-\d{2})?)(?::(.*))?$/s;

/** A scope for people, and when it starts anew, if it does. */
function describeScope(scope: string, now: EpochMs): { name: string; resetsAt: string | null } {
  const [, subject, period = '', id] = SET_BUDGET.exec(scope) ?? [];
  if (subject === undefined && scope !== 'day') return { name: scope, resetsAt: null };
  const name =
    subject === undefined ? scope : [subject, id, period === 'total' ? '' : `in ${period}`].filter(Boolean).join(' ');
  if (period === 'total') return { name, resetsAt: null };
  const date = new Date(now);
  const isMonth = period.length === '2026-11'.length;
  const next = isMonth
    ? Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)
    : Math.floor(now / DAY_MS + 1) * DAY_MS;
  return { name, resetsAt: new Date(next).toISOString() };
}

/** The refusal with the unit of its amounts, micro-USD or tokens, and when its day or month ends. */
function refusal(
  { code, scope, limit, used }: Extract<ReserveAnswer, { admitted: false }>,
  wanted: MicroUsd,
  now: EpochMs,
): ToolError {
  // A refusal of scope `call:` means that this call id was charged before: it ran, or may have, and its outcome was lost.
  if (scope.startsWith('call:')) {
    return new ToolError('OUTCOME_UNKNOWN', { message: 'This call was charged before; its outcome was not kept' });
  }
  if (code === 'BUDGET_UNAVAILABLE') {
    const message = 'The budget cannot be checked at the moment; retry later';
    return new ToolError(code, { message, details: { scope, limit, used } });
  }
  const [what, unit, amounts] =
    code === 'BUDGET_EXCEEDED'
      ? [
          'Budget',
          'micro_usd',
          `${toUsd(used)} of ${toUsd(limit)} USD are spent or reserved, and this call may cost ${toUsd(wanted)}`,
        ]
      : ['Token limit', 'tokens', `${used} of ${limit} tokens are spent or reserved`];
  const { name, resetsAt } = describeScope(scope, now);
  return new ToolError(code, {
    message: `${what} exceeded for ${name}: ${amounts}${resetsAt ? `; it starts anew at ${resetsAt}` : ''}`,
    details: { scope, limit, used, unit, resets_at: resetsAt },
  });
}
