import { Controller } from '@nestjs/common';
import { ApiKeys, requireRight } from '@toolfleet/access';
import type { Principal } from '@toolfleet/contracts';
import type { RouteInput } from '@toolfleet/contracts/resources';
import { orUnavailable } from '@toolfleet/queue/redis';
import { NatsClient } from '@toolfleet/transport';
import { Caller } from '../server/guards.js';
import { Input, Serves } from '../server/routes.js';
import { SignIn } from './sign-in.controller.js';

/** People who leave. */
@Controller()
export class UsersController {
  constructor(
    private readonly nats: NatsClient,
    private readonly keys: ApiKeys,
    private readonly signIn: SignIn,
  ) {}

  /** Ends sessions first, because they make keys. Gateways know of it within 5 s: they cache credentials for less. */
  @Serves('POST /api/v1/users/revoke')
  async revoke(@Caller() caller: Principal, @Input() { body }: RouteInput<'POST /api/v1/users/revoke'>) {
    const { user_id, tenant_id = caller.tenantId } = body;
    requireRight(caller, 'manage_keys', 'Revoking users of another tenant', tenant_id);
    const ending = this.signIn.offer.available
      ? this.nats.ask('identity.session.revoke', { tenant_id, user_id })
      : Promise.resolve({ ended: [] });
    // While `identity` is unavailable, keys end all the same, and the caller repeats the request.
    const [sessions] = await Promise.allSettled([ending]);
    const keys = await orUnavailable('The store of keys', this.keys.revokeOf(tenant_id, user_id));
    if (sessions.status === 'rejected') throw sessions.reason;
    return {
      sessions: sessions.value.ended.map(({ session_id: id, client }) => ({
        id,
        client: client ? { id: client.id, name: client.name ?? null } : null,
      })),
      keys: keys.map(({ id, client }) => ({ id, client })),
    };
  }
}
