import {
  CATALOGUE,
  toMicroUsd,
  syntheticTokens,
  type CallResult,
  type MicroUsd,
  type Usage,
} from '@toolfleet/contracts';
import { toSnakeCase } from '@toolfleet/contracts/wire';
import type { BudgetScopes, SettleRequest } from '@toolfleet/contracts/budget';
import type { Call } from './call.js';

/**
 * What a finished call costs: what the tool reports (`metadata.cost_usd` above 0, or its usage), else the price of the
 * definition. Answers that no executor gave cost nothing; failures cost only where the catalogue says so, and an unknown
 * outcome costs all that was reserved.
 */
export function chargeOf(call: Call, result: CallResult): Usage {
  if (result.provenance !== 'live' || call.seen.answeredBy !== undefined) return FREE;
  const tokens = result.usage.tokens;
  if (result.failure?.code === 'OUTCOME_UNKNOWN') return { tokens, microUsd: call.plan.reserveMicroUsd };
  const reported = reportedMicroUsd(result);
  if (result.failure && !CATALOGUE[result.failure.code].chargeable && reported === 0 && tokens === 0) return FREE;
  return { tokens, microUsd: reported > 0 ? reported : call.plan.microUsd };
}

const FREE: Usage = { tokens: 0, microUsd: 0 };

function reportedMicroUsd(result: CallResult): MicroUsd {
  const usd = result.metadata.cost_usd;
  return typeof usd === 'number' && usd > 0 && Number.isFinite(usd) ? toMicroUsd(usd) : result.usage.microUsd;
}

/** For whom a call spends; a request is `request_id`, else the call itself. */
export function scopesOf(call: Call): BudgetScopes {
  const { principal, requestId, agentId, taskId } = call.request;
  return toSnakeCase({ tenantId: principal.tenantId, requestId: requestId ?? call.callId, agentId, taskId });
}

/**
 * The settlement of a call and its row for `token_usage`; synthetic tokens are recorded, never counted. `result.usage` is the
 * charge, `reported` what the tool said: if that was settled in slices, it has rows of its own and only the rest is charged.
 */
export function settlementOf(
  call: Call,
  scopes: BudgetScopes,
  result: CallResult,
  reported: Usage,
  at: number,
): SettleRequest {
  const { settled = false } = reported;
  const tokens = settled ? 0 : result.usage.tokens;
  const microUsd = Math.max(0, result.usage.microUsd - (settled ? reported.microUsd : 0));
  return {
    call_id: call.callId,
    scopes,
    micro_usd: microUsd,
    tokens,
    row: {
      call_id: call.callId,
      tenant_id: scopes.tenant_id,
      user_id: call.request.principal.userId,
      tool_name: call.tool.name,
      ...(call.request.agentId === undefined ? {} : { agent_id: call.request.agentId }),
      ...(call.request.taskId === undefined ? {} : { task_id: call.request.taskId }),
      ...(call.request.requestId === undefined ? {} : { request_id: call.request.requestId }),
      tokens: tokens > 0 || settled ? tokens : syntheticTokens(microUsd),
      real_tokens: tokens,
      micro_usd: microUsd,
      success: result.ok,
      provenance: result.provenance,
      at,
    },
  };
}
