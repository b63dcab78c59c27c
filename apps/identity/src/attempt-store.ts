import { createHash } from 'node:crypto';
import { invalidRequest, ToolError, type EpochMs } from '@toolfleet/contracts';
import { DEFAULT_QUOTAS } from '@toolfleet/contracts/account';
import type { UserAuth } from '@toolfleet/contracts/user-auth';
import type { KeyRing } from '@toolfleet/service';
import { erase, ofOwner } from '@toolfleet/database';
import { sql } from 'kysely';
import type { IdentityDb } from './identity-tables.js';

/** A user at the authorization server of a source. */
interface KeptAttempt {
  tenant_id: string;
  user_id: string;
  source: string;
  auth: UserAuth;
  /** `auth` with the values that the source named. */
  granted: UserAuth;
  redirectUri: string;
  state: string;
  verifier: string;
}

/** Time for a user to sign in and consent. */
const ATTEMPT_MS = 600_000;
/** Rows that one statement deletes; SQLite takes no offset without a limit. */
const MAX_DELETED = 1_000;

/** Sign-ins of users at authorization servers: each can be finished once, by the user that began it. */
export class AttemptStore {
  constructor(
    private readonly db: IdentityDb,
    private readonly keys: KeyRing,
    private readonly most: number = DEFAULT_QUOTAS.connect_attempts,
  ) {}

  /** The oldest attempts of a user beyond the quota end. */
  async begin({ state, verifier, granted, redirectUri, auth, ...owner }: KeptAttempt, now: EpochMs): Promise<void> {
    const digest = digestOf(state);
    await this.db
      .insertInto('connect_attempt')
      .values({
        digest,
        ...owner,
        auth,
        redirect_uri: redirectUri,
        sealed: this.keys.seal(JSON.stringify({ state, verifier, granted }), place(digest)),
        expires_at: now + ATTEMPT_MS,
      })
      .execute();
    const { tenant_id: tenantId, user_id: userId } = owner;
    await this.db
      .deleteFrom('connect_attempt')
      .where('digest', 'in', (all) =>
        all
          .selectFrom('connect_attempt')
          .select('digest')
          .where(ofOwner({ tenantId, userId }))
          .where('digest', '!=', digest)
          .orderBy('expires_at', 'desc')
          .offset(this.most - 1)
          .limit(MAX_DELETED),
      )
      .execute();
  }

  /**
   * Ends the attempt of a state, so that the state is of no use any more.
   * @throws ToolError REQUEST_INVALID when it is unknown, expired or used; PERMISSION_DENIED for another user, who changes nothing
   */
  async take(state: string, user: { tenant_id: string; user_id: string }, now: EpochMs): Promise<KeptAttempt> {
    const digest = digestOf(state);
    const row = await this.db
      .selectFrom('connect_attempt')
      .selectAll()
      .where('digest', '=', digest)
      .where('expires_at', '>', now)
      .executeTakeFirst();
    if (!row) throw unknownState();
    if (row.tenant_id !== user.tenant_id || row.user_id !== user.user_id)
      throw new ToolError('PERMISSION_DENIED', {
        message: 'Another user began this connection; begin one of your own',
      });
    if ((await erase(this.db, 'connect_attempt', sql`digest = ${digest}`)) === 0) throw unknownState();
    const { tenant_id, user_id, source, auth, redirect_uri: redirectUri, sealed } = row;
    const secrets = JSON.parse(this.keys.open(sealed, place(digest))) as Pick<KeptAttempt, 'state' | 'verifier'>;
    return { tenant_id, user_id, source, auth, granted: auth, redirectUri, ...secrets };
  }

  /** Deletes the attempts of a tenant or of one of its users, so that none is finished after a purge. */
  async purge(tenantId: string, userId: string | undefined): Promise<void> {
    await erase(this.db, 'connect_attempt', ofOwner({ tenantId, userId }));
  }

  /** Deletes the attempts that ended before an instant. */
  async forgetEnded(before: EpochMs): Promise<void> {
    await erase(this.db, 'connect_attempt', sql`expires_at < ${before}`);
  }
}

const digestOf = (state: string): string => createHash('sha256').update(state).digest('base64url');
const place = (digest: string): string => `attempt/${digest}`;
const unknownState = (): ToolError =>
  invalidRequest('The connection was not begun here, has expired or is finished; begin again');
