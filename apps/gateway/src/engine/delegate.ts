import { callsTools, type Call } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import { issueDelegation, type SignedTokens } from '../auth/signed-tokens.js';

/** Makes the token a tool that calls tools acts with; undefined for every other tool. */
export type Delegate = (call: Call) => string | undefined;

/** Tools of toolset `agent` call tools: they act for the caller, never with more rights, until the call's deadline. */
export function delegateFor(tokens: SignedTokens, clock: Clock): Delegate {
  return (call) => {
    if (!callsTools(call.tool)) return undefined;
    const { agentId, taskId } = call.request;
    return issueDelegation(tokens, {
      principal: call.request.principal,
      origin: call.request.origin,
      callId: call.callId,
      spends: {
        requestId: call.request.requestId ?? call.callId,
        ...(agentId === undefined ? {} : { agentId }),
        ...(taskId === undefined ? {} : { taskId }),
      },
      scopes: ['*'],
      expiresAt: clock.now() + call.deadline.remainingMs(),
    });
  };
}
