import { Controller } from '@nestjs/common';
import { isToolError, ToolError, type Milliseconds } from '@toolfleet/contracts';
import {
  SESSION_GET,
  SESSION_LIST,
  SESSION_REVOKE,
  type SessionGet,
  type SessionGetReply,
  type SessionList,
  type SessionListReply,
  type SessionRevoke,
  type SessionRevokeReply,
} from '@toolfleet/contracts/identity';
import { PURGE, type PurgeMessage, type PurgeReply } from '@toolfleet/contracts/purge';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Clock, withTimeout } from '@toolfleet/resilience';
import { Endpoint } from '@toolfleet/transport';
import { SessionStore } from './session-store.js';

/** Injection token of the longest wait for the store. */
export class StoreTimeout {
  constructor(readonly ms: Milliseconds) {}
}

/** `identity.*`: sign-in sessions. */
@Controller()
export class IdentityEndpoint {
  constructor(
    private readonly sessions: SessionStore,
    private readonly clock: Clock,
    private readonly timeout: StoreTimeout,
  ) {}

  @Endpoint(SUBJECTS.sessionGet, { schema: SESSION_GET })
  async getSession({ digest }: SessionGet): Promise<SessionGetReply> {
    return { session: await this.#inTime(() => this.sessions.get(digest, this.clock.now())) };
  }

  @Endpoint(SUBJECTS.sessionList, { schema: SESSION_LIST })
  async listSessions(query: SessionList): Promise<SessionListReply> {
    return { sessions: await this.#inTime(() => this.sessions.list(query, this.clock.now())) };
  }

  @Endpoint(SUBJECTS.sessionRevoke, { schema: SESSION_REVOKE })
  revokeSessions(scope: SessionRevoke): Promise<SessionRevokeReply> {
    return this.#inTime(() => this.sessions.revoke(scope, this.clock.now()));
  }

  @Endpoint(SUBJECTS.identityPurge, { schema: PURGE })
  async purge({ tenant_id, user_id, dry_run }: PurgeMessage): Promise<PurgeReply> {
    const sessions = await this.#inTime(() => this.sessions.purge(tenant_id, user_id, dry_run));
    return { counts: { sessions }, more: false };
  }

  #inTime<T>(work: () => Promise<T>): Promise<T> {
    return withTimeout(this.clock, this.timeout.ms, undefined, work).catch((cause: unknown) => {
      if (isToolError(cause)) throw cause;
      const message = 'The store of sessions and grants is unavailable; retry later';
      throw new ToolError('SERVICE_UNAVAILABLE', { message, cause });
    });
  }
}
