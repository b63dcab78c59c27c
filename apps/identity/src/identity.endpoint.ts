import { Controller } from '@nestjs/common';
import type { SessionGet, SessionRevoke } from '@toolfleet/contracts/identity';
import type { PurgeMessage } from '@toolfleet/contracts/purge';
import { Clock } from '@toolfleet/resilience';
import { Endpoint } from '@toolfleet/transport';
import { Grants } from './grants.js';
import { SignInTokens } from './sign-in-tokens.js';
import { SessionStore } from './session-store.js';
import { StoreLimit } from './store-limit.js';

/** `identity.session.*`, and `identity.purge` of all that the service keeps. */
@Controller()
export class IdentityEndpoint {
  constructor(
    private readonly sessions: SessionStore,
    private readonly clock: Clock,
    private readonly grants: Grants,
    private readonly limit: StoreLimit,
    private readonly signIns: SignInTokens,
  ) {}

  @Endpoint('identity.session.get')
  async getSession({ digest }: SessionGet) {
    return { session: await this.limit.run(() => this.sessions.get(digest, this.clock.now())) };
  }

  @Endpoint('identity.session.revoke')
  revokeSessions(user: SessionRevoke) {
    return this.limit.run(async () => {
      // First, so that a consent that is under way opens no session afterwards.
      await this.signIns.forgetUser(user);
      return this.sessions.revoke(user, this.clock.now());
    });
  }

  @Endpoint('identity.purge')
  async purge({ tenant_id, user_id, dry_run }: PurgeMessage) {
    const sessions = await this.limit.run(() => this.sessions.purge(tenant_id, user_id, dry_run));
    const grants = await this.limit.run(() => this.grants.purge(tenant_id, user_id, dry_run));
    return { counts: { sessions, grants }, more: false };
  }
}
