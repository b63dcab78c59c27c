import { hasRight, refuseDelegated, requireRight } from '@toolfleet/access/roles';
import { type Principal, ToolError } from '@toolfleet/contracts';
import type { SignInSession } from '@toolfleet/contracts/identity';
import { CONNECTION_ROUTES, CREDENTIAL_ROUTES, type Asked, type UserSession } from '@toolfleet/contracts/resources';
import { Clock } from '@toolfleet/resilience';
import { Answers } from '@toolfleet/transport';
import { KeyChange } from './reseal.js';
import { SessionStore } from './session-store.js';
import { StoreLimit } from './store-limit.js';

/** Sign-ins of people: everyone sees and ends their own, callers that manage keys the tenant's; and the change of keys. */
@Answers({ ...CREDENTIAL_ROUTES, ...CONNECTION_ROUTES })
export class IdentityRoutes {
  constructor(
    private readonly sessions: SessionStore,
    private readonly limit: StoreLimit,
    private readonly keys: KeyChange,
    private readonly clock: Clock,
  ) {}

  async listSessions({ principal, query }: Asked<'listSessions'>) {
    const scope = scopeOf(principal, query.tenant_id);
    const sessions = await this.limit.run(() => this.sessions.list(scope, this.clock.now()));
    return sessions.map((session) => toUserSession(session, principal));
  }

  async endSession({ principal, path, query }: Asked<'endSession'>) {
    const scope = { ...scopeOf(principal, query.tenant_id), session_id: path.id };
    const { revoked } = await this.limit.run(() => this.sessions.revoke(scope, this.clock.now()));
    if (revoked === 0) throw new ToolError('NOT_FOUND', { message: `There is no valid session ${path.id}` });
  }

  resealConnections() {
    return this.keys.reseal();
  }
}

/** @throws ToolError PERMISSION_DENIED for another tenant, or a call */
function scopeOf(caller: Principal, tenant_id = caller.tenantId): { tenant_id: string; user_id?: string | undefined } {
  refuseDelegated(caller);
  if (tenant_id !== caller.tenantId)
    requireRight(caller, 'manage_keys', 'Managing sessions of another tenant', tenant_id);
  return { tenant_id, user_id: hasRight(caller, 'manage_keys', tenant_id) ? undefined : caller.userId };
}

function toUserSession(
  { session_id: id, client, created_at, expires_at, ...session }: SignInSession,
  { sessionId }: Principal,
): UserSession {
  return {
    id,
    tenant_id: session.tenant_id,
    user_id: session.user_id,
    roles: session.roles,
    groups: session.groups,
    client: client ? { id: client.id, name: client.name ?? null } : null,
    created_at: new Date(created_at).toISOString(),
    expires_at: new Date(expires_at).toISOString(),
    current: id === sessionId,
  };
}
