import type { ExecMessage } from '@toolfleet/contracts/execution';
import type { Call } from './call.js';
import { isCurtailed } from './deadline-shortened.js';

/**
 * One attempt as it travels to an executor: the observable part of the call, on which its identity is based, and the fields
 * of this attempt. `delegationToken` only for tools that call tools.
 */
export function execMessageOf(call: Call, delegationToken?: string): ExecMessage {
  return {
    ...call.input,
    call_id: call.callId,
    attempt: call.attempt,
    fence: call.fence,
    journalled: call.journalled,
    binding: call.tool.binding,
    ...(isCurtailed(call) ? { deadlineShortened: true } : {}),
    context: {
      ...call.input.context,
      ...(delegationToken === undefined ? {} : { delegation_token: delegationToken }),
      ...(call.tool.forwards_idempotency_key ? { forward_idempotency_key: true } : {}),
    },
  };
}
