import { isReservedTenant, LOCAL_TENANT, type Principal } from '@toolfleet/contracts';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { Authenticate } from './authenticate.js';
import { readCredential } from './credential.js';
import { unauthenticated } from './unauthenticated.js';

/** What a NATS message shows of its sender. */
export interface NatsCaller {
  subject: string;
  /** All values of the `Authorization` header. */
  authorization: readonly string[];
}

export interface NatsTrust {
  authenticate: Authenticate;
  /** Local mode: bare subjects without a key are accepted, without any role. */
  local: boolean;
  /** False when the server does not run `deploy/nats.conf`: then anyone could publish on a tenant's subject. */
  trustTenantSubjects: boolean;
}

const DOORS = [SUBJECTS.toolCall, SUBJECTS.toolBatch, SUBJECTS.toolList, SUBJECTS.toolCancel] as const;
const TENANT_PATTERN = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * Who calls over NATS: a responder never learns who sent a message, so it is the key in the header, else the subject
 * `tool.call.<tenant>`, which the server lets only that tenant's user publish.
 * @throws ToolError UNAUTHENTICATED; also when a key of one tenant comes on the subject of another.
 */
export async function natsPrincipal(caller: NatsCaller, trust: NatsTrust): Promise<Principal> {
  const tenantId = tenantOf(caller.subject);
  const credential = readCredential(caller.authorization, []);
  if (credential) {
    const principal = await trust.authenticate(credential);
    if (tenantId !== undefined && tenantId !== principal.tenantId) throw unauthenticated();
    return principal;
  }
  if (tenantId !== undefined) {
    if (!trust.trustTenantSubjects || isReservedTenant(tenantId)) throw unauthenticated();
    return { tenantId, userId: `nats:${tenantId}`, roles: [], tools: ['*'], via: 'nats_subject' };
  }
  if (!trust.local) throw unauthenticated();
  return { tenantId: LOCAL_TENANT, userId: 'nats', roles: [], tools: ['*'], via: 'local' };
}

/** The tenant in `tool.<verb>.<tenant>`; undefined for the bare subject. Any other subject is not a door. */
function tenantOf(subject: string): string | undefined {
  // For tools of the fleet with a delegation token; no tenant has a subject of its own for it.
  if (subject === SUBJECTS.toolSpend) return undefined;
  for (const door of DOORS) {
    if (subject === door) return undefined;
    if (subject.startsWith(`${door}.`)) {
      const tenant = subject.slice(door.length + 1);
      if (TENANT_PATTERN.test(tenant)) return tenant;
    }
  }
  throw unauthenticated();
}
