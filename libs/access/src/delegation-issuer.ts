import { sourceId } from '@toolfleet/contracts/user-auth';
import type { Call } from '@toolfleet/engine';
import { type SignedTokens, issueDelegation, issueGrantToken } from './signed-tokens.js';
import type { Clock } from '@toolfleet/resilience';

/** Issues a token of a call; undefined for tools that need none. */
export type TokenIssuer = (call: Call) => string | undefined;

/**
 * Issues delegation tokens to tools that call tools (toolset `agent`, programs). A token carries the caller's rights and budget scopes,
 * never more, and expires at the deadline of the call.
 */
export function delegationIssuer(tokens: SignedTokens, clock: Clock): TokenIssuer {
  return (call) => {
    if (!call.plan.callsTools) return undefined;
    const { principal, origin, requestId, agentId, taskId, context } = call.request;
    const { project_id: project, create_project: create } = context;
    return issueDelegation(tokens, {
      principal,
      origin,
      callId: call.callId,
      project: typeof project === 'string' ? { id: project, create: create === true } : undefined,
      spends: { requestId: requestId ?? call.callId, agentId, taskId },
      scopes: programScopes(call) ?? ['*'],
      expiresAt: clock.now() + call.deadline.remainingMs(),
    });
  };
}

/** The tools that a program names; undefined for other calls, and for a program that may use all. */
function programScopes({ tool, arguments: args }: Call): string[] | undefined {
  if (tool.binding.kind !== 'program' || !Array.isArray(args.tools)) return undefined;
  return args.tools.filter((name) => typeof name === 'string');
}

/** Issues the token with which the executor of a call gets the credential of its user; undefined for tools that need none. */
export function grantIssuer(tokens: SignedTokens, clock: Clock): TokenIssuer {
  return ({ input, request, tool, deadline }) => {
    const grantId = input.context.grant;
    if (grantId === undefined) return undefined;
    const { tenantId, userId } = request.principal;
    const grant = { tenantId, userId, source: sourceId(tool.source), grantId };
    return issueGrantToken(tokens, grant, clock.now() + deadline.remainingMs());
  };
}
