import { Controller } from '@nestjs/common';
import {
  IDENTITY_RESEAL,
  SESSION_GET,
  SESSION_LIST,
  SESSION_REVOKE,
  type SessionGet,
  type SessionList,
  type SessionRevoke,
} from '@toolfleet/contracts/identity';
import { PURGE, type PurgeMessage } from '@toolfleet/contracts/purge';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Clock } from '@toolfleet/resilience';
import { Endpoint } from '@toolfleet/transport';
import { Grants } from './grants.js';
import { SignInTokens } from './sign-in-tokens.js';
import { SessionStore } from './session-store.js';
import { KeyChange } from './reseal.js';
import { StoreLimit } from './store-limit.js';

/** `identity.session.*`, and `identity.purge` of all that the service keeps. */
@Controller()
export class IdentityEndpoint {
  constructor(
    private readonly sessions: SessionStore,
    private readonly clock: Clock,
    private readonly grants: Grants,
    private readonly limit: StoreLimit,
    private readonly keys: KeyChange,
    private readonly signIns: SignInTokens,
  ) {}

  @Endpoint(SUBJECTS.sessionGet, { schema: SESSION_GET })
  async getSession({ digest }: SessionGet) {
    return { session: await this.limit.run(() => this.sessions.get(digest, this.clock.now())) };
  }

  @Endpoint(SUBJECTS.sessionList, { schema: SESSION_LIST })
  async listSessions(query: SessionList) {
    return { sessions: await this.limit.run(() => this.sessions.list(query, this.clock.now())) };
  }

  @Endpoint(SUBJECTS.sessionRevoke, { schema: SESSION_REVOKE })
  revokeSessions(scope: SessionRevoke) {
    const { tenant_id, user_id, session_id } = scope;
    return this.limit.run(async () => {
      // First, so that a consent that is under way opens no session afterwards.
      if (tenant_id !== undefined && user_id !== undefined && session_id === undefined)
        await this.signIns.forgetUser({ tenant_id, user_id });
      return this.sessions.revoke(scope, this.clock.now());
    });
  }

  @Endpoint(SUBJECTS.identityReseal, { schema: IDENTITY_RESEAL })
  reseal() {
    return this.keys.reseal();
  }

  @Endpoint(SUBJECTS.identityPurge, { schema: PURGE })
  async purge({ tenant_id, user_id, dry_run }: PurgeMessage) {
    const sessions = await this.limit.run(() => this.sessions.purge(tenant_id, user_id, dry_run));
    const grants = await this.limit.run(() => this.grants.purge(tenant_id, user_id, dry_run));
    return { counts: { sessions, grants }, more: false };
  }
}
