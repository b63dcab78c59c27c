import type { CallResult } from '@toolfleet/contracts';
import { withGrant, type Call } from '../call.js';
import type { EnginePorts, GrantOwner } from '../ports.js';
import { step, type Step } from '../step.js';

/**
 * Finds the credential of the caller for a tool that acts upstream as its user. The id of the grant becomes part of what the tool
 * observes: caches, single flight and the idempotency key then share nothing between users, and nothing between two accounts of one user.
 * The user is that of the credential, never one that the call names.
 * @throws ToolError as `UserGrants.find`; also after an attempt, when the upstream no longer takes the credential
 */
export function userGrant({ grants }: Pick<EnginePorts, 'grants'>): Step {
  return step('user grant', (call, next) => {
    const auth = call.plan.userAuth;
    if (!auth) return next(call);
    const { tenantId, userId } = call.request.principal;
    const owner: GrantOwner = { tenantId, userId, source: call.tool.source };
    const found = grants.find(owner, auth);
    const run = (grant: string) => next(withGrant(call, grant)).then((result) => stillGranted(call, owner, result));
    return found instanceof Promise ? found.then(run) : run(found);
  });

  function stillGranted({ tool }: Call, owner: GrantOwner, result: CallResult): CallResult {
    if (result.failure?.code !== 'AUTHORIZATION_REQUIRED') return result;
    throw grants.required(owner, `Tool '${tool.name}': ${result.failure.message}`);
  }
}
