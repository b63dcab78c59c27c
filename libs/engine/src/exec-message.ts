import type { ExecMessage } from '@toolfleet/contracts';
import type { Call } from './call.js';
import { isCurtailed } from './curtailed.js';

/** One attempt as it travels to an executor. `delegationToken` only for tools that call tools. */
export function execMessageOf(call: Call, delegationToken?: string): ExecMessage {
  return {
    call_id: call.callId,
    attempt: call.attempt,
    fence: call.fence,
    journalled: call.journalled,
    tool: call.tool.name,
    revision: call.tool.revision,
    binding: call.tool.binding,
    arguments: call.arguments,
    ...(isCurtailed(call) ? { curtailed: true } : {}),
    context: {
      ...call.context,
      tenant_id: call.request.principal.tenantId,
      ...(delegationToken === undefined ? {} : { delegation_token: delegationToken }),
      ...(call.allowance ? { allowance: call.allowance } : {}),
      ...(call.tool.forwards_idempotency_key ? { forward_idempotency_key: true } : {}),
    },
  };
}
