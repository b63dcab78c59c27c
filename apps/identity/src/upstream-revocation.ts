import { isToolError, type Milliseconds } from '@toolfleet/contracts';
import { withTimeout, type Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { UserGrantStore, OpenGrant } from './user-grant-store.js';
import type { OAuthClient } from './oauth-client.js';

/** Longest time for one token, metadata of its server included. */
const REVOKED_WITHIN_MS: Milliseconds = 10_000;
/** Requests under way; of more at once, tokens stay valid until they end. */
const MAX_RUNNING = 50;

interface RevocationDeps {
  store: Pick<UserGrantStore, 'hasOther'>;
  client: Pick<OAuthClient, 'revoke'>;
  clock: Clock;
  logger: Pick<Logger, 'info'>;
}

/**
 * Ends the refresh tokens of deleted grants at their authorization servers (RFC 7009). Best effort: the grants are gone here, whatever the
 * servers answer, and no request waits for them.
 */
export class UpstreamRevocation {
  #running = 0;

  constructor(private readonly deps: RevocationDeps) {}

  /** Sends one request for each refresh token, and returns at once. */
  begin(grants: readonly OpenGrant[]): void {
    for (const grant of grants) {
      const { mode, auth, secrets } = grant;
      // Without a client of its own, a source uses the one of the sign-in; its tokens must stay.
      if (mode !== 'connect' || secrets.refresh_token === undefined || auth.client_id === undefined) continue;
      if (this.#running >= MAX_RUNNING) this.#note(grant, 'too many are under way');
      else {
        this.#running += 1;
        void this.#revoke(grant, secrets.refresh_token).finally(() => (this.#running -= 1));
      }
    }
  }

  async #revoke(grant: OpenGrant, token: string): Promise<void> {
    const { store, client, clock } = this.deps;
    try {
      // Some servers end everything that a user granted to a client.
      if (await store.hasOther(grant)) return this.#note(grant, 'another source of the user has the same client');
      const isRevoked = await withTimeout(clock, REVOKED_WITHIN_MS, client.revoke(grant.source, grant.auth, token));
      this.#note(grant, isRevoked ? undefined : 'the authorization server has no revocation_endpoint');
    } catch (error) {
      this.#note(grant, isToolError(error) ? error.message : (error as Error).name);
    }
  }

  #note({ tenant_id, user_id, source }: OpenGrant, reason: string | undefined): void {
    const what = reason === undefined ? 'a refresh token is revoked' : 'a refresh token is not revoked upstream';
    this.deps.logger.info({ tenant_id, user_id, source, reason }, what);
  }
}
