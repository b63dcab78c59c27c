import { isJsonObject, type CallRequest, type CallResult } from '@toolfleet/contracts';
import type { UserAuth } from '@toolfleet/contracts/user-auth';
import { requireInPerson } from '../access.js';
import { withGrant, type Call } from '../call.js';
import type { EnginePorts, GrantOwner } from '../ports.js';
import { step, type Next, type Step } from '../step.js';

/**
 * Finds the credential of the caller for a tool that acts upstream as its user. The id of the grant becomes part of what the tool
 * observes: caches, single flight and the idempotency key then share nothing between users, and nothing between two accounts of one user.
 * The user comes from the credential, never one that the call names.
 * @throws ToolError PERMISSION_DENIED for a key that anyone else made in the name of the user; as `UserGrants.find`; also after an attempt, when the upstream no longer takes the credential
 */
export function userGrant({ grants }: Pick<EnginePorts, 'grants'>): Step {
  return step('user grant', (next) => (call) => {
    const auth = call.plan.userAuth;
    return auth ? asUser(call, auth, next) : next(call);
  });

  async function asUser(call: Call, auth: UserAuth, next: Next): Promise<CallResult> {
    const { principal } = call.request;
    requireInPerson(principal);
    const { tenantId, userId } = principal;
    const owner: GrantOwner = { tenantId, userId, source: call.tool.source };
    const grant = await grants.find(owner, auth, principal);
    return stillGranted(call, owner, auth, await next(withGrant(call, grant)));
  }

  function stillGranted({ tool }: Call, owner: GrantOwner, auth: UserAuth, result: CallResult): CallResult {
    if (result.failure?.code !== 'AUTHORIZATION_REQUIRED') return result;
    throw grants.required(owner, auth, `Tool '${tool.name}': ${result.failure.message}`);
  }
}

/** Whether the entry point of a call sends its user to the page where an account is connected, and makes the call again. */
export function opensPages({ personInput: input, mode }: CallRequest): boolean {
  const { elicitation } = input?.capabilities ?? {};
  return (
    mode.kind === 'run' && input?.tasks !== 'follow' && isJsonObject(elicitation) && isJsonObject(elicitation['url'])
  );
}
