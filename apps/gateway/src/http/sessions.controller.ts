import { Controller } from '@nestjs/common';
import { hasRight, refuseDelegated, requireRight } from '@toolfleet/access';
import { type Principal, ToolError } from '@toolfleet/contracts';
import type { SignInSession } from '@toolfleet/contracts/identity';
import type { RouteInput } from '@toolfleet/contracts/resources';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { NatsClient } from '@toolfleet/transport';
import { Caller } from '../server/guards.js';
import { Input, Serves } from '../server/routes.js';
import { SignIn } from './sign-in.controller.js';

/** Sign-ins of people: everyone sees and ends their own, callers that manage keys the tenant's. */
@Controller()
export class SessionsController {
  constructor(
    private readonly nats: NatsClient,
    private readonly signIn: SignIn,
  ) {}

  @Serves('GET /api/v1/sessions')
  async list(@Caller() caller: Principal, @Input() { query }: RouteInput<'GET /api/v1/sessions'>) {
    // A fleet without sign-in may run without the service.
    if (!this.signIn.offer.available) return [];
    const { sessions } = await this.nats.ask(SUBJECTS.sessionList, scopeOf(caller, query.tenant_id));
    return sessions.map((session) => toBody(session, caller));
  }

  @Serves('DELETE /api/v1/sessions/{id}')
  async end(
    @Caller() caller: Principal,
    @Input() { path, query }: RouteInput<'DELETE /api/v1/sessions/{id}'>,
  ): Promise<undefined> {
    const scope = { ...scopeOf(caller, query.tenant_id), session_id: path.id };
    const { revoked } = this.signIn.offer.available
      ? await this.nats.ask(SUBJECTS.sessionRevoke, scope)
      : { revoked: 0 };
    if (revoked === 0) throw new ToolError('NOT_FOUND', { message: `There is no valid session ${path.id}` });
    return undefined;
  }
}

/** @throws ToolError PERMISSION_DENIED for another tenant, or a call */
function scopeOf(caller: Principal, tenantId = caller.tenantId): { tenant_id: string; user_id?: string } {
  refuseDelegated(caller);
  if (tenantId !== caller.tenantId)
    requireRight(caller, 'manage_keys', 'Managing sessions of another tenant', tenantId);
  return hasRight(caller, 'manage_keys', tenantId)
    ? { tenant_id: tenantId }
    : { tenant_id: tenantId, user_id: caller.userId };
}

export const clientBody = (client: SignInSession['client']) =>
  client ? { id: client.id, name: client.name ?? null } : null;

function toBody(
  { client, provider: _provider, asked_at: _askedAt, ...session }: SignInSession,
  { sessionId }: Principal,
) {
  const { session_id: id, created_at: createdAt, expires_at: expiresAt, ...rest } = session;
  return {
    ...rest,
    id,
    client: clientBody(client),
    created_at: new Date(createdAt).toISOString(),
    expires_at: new Date(expiresAt).toISOString(),
    current: id === sessionId,
  };
}
