import { Controller } from '@nestjs/common';
import { SESSION_GET, SESSION_REVOKE, type SessionGet, type SessionRevoke } from '@toolfleet/contracts/identity';
import { PURGE, type PurgeMessage } from '@toolfleet/contracts/purge';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
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

  @Endpoint(SUBJECTS.sessionGet, { schema: SESSION_GET })
  async getSession({ digest }: SessionGet) {
    return { session: await this.limit.run(() => this.sessions.get(digest, this.clock.now())) };
  }

  @Endpoint(SUBJECTS.sessionRevoke, { schema: SESSION_REVOKE })
  revokeSessions(user: SessionRevoke) {
    return this.limit.run(async () => {
      // First, so that a consent that is under way opens no session afterwards.
      await this.signIns.forgetUser(user);
      return this.sessions.revoke(user, this.clock.now());
    });
  }

  @Endpoint(SUBJECTS.identityPurge, { schema: PURGE })
  async purge({ tenant_id, user_id, dry_run }: PurgeMessage) {
    const sessions = await this.limit.run(() => this.sessions.purge(tenant_id, user_id, dry_run));
    const grants = await this.limit.run(() => this.grants.purge(tenant_id, user_id, dry_run));
    return { counts: { sessions, grants }, more: false };
  }
}
