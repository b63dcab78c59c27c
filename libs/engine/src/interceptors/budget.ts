import { ToolError, type CallResult, type Usage } from '@toolfleet/contracts';
import type { ReserveAnswer } from '@toolfleet/contracts/budget';
import { callsTools } from '../authorize.js';
import type { Interceptor } from '../call.js';
import type { EnginePorts } from '../ports.js';
import { chargeOf, scopesOf, settlementOf } from '../usage.js';

/**
 * Holds the most this call may cost, runs it, settles what it did cost or gives the hold back. Whatever is thrown inside
 * releases; a process that dies in between leaves a lease that is charged in full when it expires. What a tool held and
 * settled in slices while it ran (`tool.spend`) is in its result and is not charged again.
 * @throws ToolError BUDGET_EXCEEDED, TOKEN_LIMIT_EXCEEDED, BUDGET_UNAVAILABLE
 */
export function budget(ports: Pick<EnginePorts, 'budget' | 'clock' | 'settings'>): Interceptor {
  return async (call, next) => {
    const scopes = scopesOf(call);
    const asked = ports.budget.reserve(
      {
        call_id: call.callId,
        scopes,
        micro_usd: call.plan.reserveMicroUsd,
        tokens: 0,
        lease_ms: Math.ceil(call.deadline.remainingMs() + ports.settings.leaseGraceMs),
        shares_request: callsTools(call.tool),
      },
      call.signal,
    );
    const answer = asked instanceof Promise ? await asked : asked;
    if (!answer.admitted) throw refusal(answer);
    let result: CallResult | undefined;
    let reported: Usage | undefined;
    try {
      const outcome = await next(call);
      reported = outcome.usage;
      result = { ...outcome, usage: chargeOf(call, outcome) };
      return result;
    } finally {
      if (result && reported && (result.usage.microUsd > 0 || result.usage.tokens > 0 || isBillable(result))) {
        ports.budget.settle(settlementOf(call, scopes, result, reported, ports.clock.now()));
      } else {
        ports.budget.release(call.callId, scopes);
      }
    }
  };
}

/** A live success is recorded even when it is free, so that `token_usage` has a row for every execution. */
function isBillable(result: CallResult): boolean {
  return result.ok && result.provenance === 'live' && result.attempts > 0;
}

function refusal(answer: Extract<ReserveAnswer, { admitted: false }>): ToolError {
  const { code, scope, limit, used } = answer;
  // No limit: this very call was charged. It ran, or may have, in a process that could not keep its outcome.
  if (scope.startsWith('call:')) {
    return new ToolError('OUTCOME_UNKNOWN', { message: 'This call was charged before; its outcome was not kept' });
  }
  const messages = {
    BUDGET_EXCEEDED: `Budget exceeded for ${scope}`,
    TOKEN_LIMIT_EXCEEDED: `Token limit exceeded for ${scope}`,
    BUDGET_UNAVAILABLE: 'The budget cannot be checked at the moment',
  };
  return new ToolError(code, { message: messages[code], details: { scope, limit, used } });
}
