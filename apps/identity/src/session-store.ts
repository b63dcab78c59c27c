import { randomUUID } from 'node:crypto';
import { invalidRequest, type EpochMs, type Milliseconds } from '@toolfleet/contracts';
import { DEFAULT_QUOTAS } from '@toolfleet/contracts/account';
import type { SessionRevokeReply, SignInSession } from '@toolfleet/contracts/identity';
import { erase, ofOwner } from '@toolfleet/database';
import { sql } from 'kysely';
import type { IdentityDb, IdentityRow } from './identity-tables.js';

/** A user signed in. */
export interface NewSession extends Omit<SignInSession, 'session_id' | 'created_at' | 'asked_at'> {
  /** Default: a new one. */
  session_id?: string;
  /** When the provider is asked about the user; absent: it cannot be asked. */
  ask_at?: EpochMs;
  /** SHA-256 of the secret in the cookie, base64url. */
  digest: string;
}

/** The valid sessions that match all members: of a browser, of people, or of a logout of the provider. */
type SessionScope = Partial<
  Record<'digest' | 'tenant_id' | 'session_id' | 'user_id' | 'issuer' | 'sid' | 'subject', string | undefined>
>;

/** Longest list. */
const MAX_LISTED = 1_000;

/** The claims of the provider about a user. */
type UserRights = Pick<SignInSession, 'tenant_id' | 'user_id' | 'roles' | 'groups'>;

/** Sign-in sessions. Rows are inserted, get the roles that the provider's answers give, are revoked once, and deleted when they have ended. */
export class SessionStore {
  /** Whether a session that was found still counts (`ProviderAsks`). @throws ToolError SERVICE_UNAVAILABLE */
  confirm = async (session: SignInSession): Promise<SignInSession | undefined> => session;

  constructor(
    private readonly db: IdentityDb,
    private readonly most: number = DEFAULT_QUOTAS.sessions,
  ) {}

  /** Stores a session; the oldest of its user beyond the quota end. @returns its public id @throws ToolError REQUEST_INVALID when the digest is in use */
  async create(session: NewSession, now: EpochMs): Promise<string> {
    const { session_id = randomUUID(), digest, tenant_id, user_id, roles, groups, expires_at, ask_at } = session;
    const { provider, client } = session;
    const { numInsertedOrUpdatedRows: inserted } = await this.db
      .insertInto('sign_in_session')
      .values({
        ...{ session_id, digest, tenant_id, user_id, roles, groups, created_at: now, expires_at, ask_at },
        ...{ issuer: provider?.issuer, subject: provider?.subject, sid: provider?.sid },
        ...{ client_id: client?.id, client_name: client?.name },
      })
      .onConflict((conflict) => conflict.column('digest').doNothing())
      .executeTakeFirstOrThrow();
    if (!inserted) throw invalidRequest('A session with this digest exists');
    await this.db
      .updateTable('sign_in_session')
      .set({ revoked_at: now })
      .where('session_id', 'in', (all) =>
        all
          .selectFrom('sign_in_session')
          .select('session_id')
          .where(ofOwner({ tenantId: tenant_id, userId: user_id }))
          .where('revoked_at', 'is', null)
          .where('session_id', '!=', session_id)
          .orderBy('created_at', 'desc')
          .offset(this.most - 1)
          .limit(MAX_LISTED),
      )
      .execute();
    return session_id;
  }

  /** The valid session of a digest. */
  async get(digest: string, now: EpochMs): Promise<SignInSession | undefined> {
    const row = await this.#valid(now).where('digest', '=', digest).selectAll().executeTakeFirst();
    return row && this.confirm(toSession(row));
  }

  /** A valid session by its id. */
  async byId(sessionId: string, now: EpochMs): Promise<SignInSession | undefined> {
    const session = await this.read(sessionId, now);
    return session && this.confirm(session);
  }

  /** The same without a question to the provider. */
  async read(sessionId: string, now: EpochMs): Promise<SignInSession | undefined> {
    const row = await this.#valid(now).where('session_id', '=', sessionId).selectAll().executeTakeFirst();
    return row && toSession(row);
  }

  /** Valid sessions about which the provider is to be asked, the longest due first. */
  async due(now: EpochMs, limit: number): Promise<SignInSession[]> {
    const rows = await this.#valid(now).where('ask_at', '<=', now).orderBy('ask_at').limit(limit).selectAll().execute();
    return rows.map(toSession);
  }

  /** Takes the question about a session that is due. @returns false if another replica has it */
  async take(sessionId: string, now: EpochMs, nextAt: EpochMs): Promise<boolean> {
    const { numUpdatedRows } = await this.db
      .updateTable('sign_in_session')
      .set({ ask_at: nextAt })
      .where('session_id', '=', sessionId)
      .where('ask_at', '<=', now)
      .executeTakeFirst();
    return Number(numUpdatedRows) > 0;
  }

  /** Stores an answer of the provider: the roles for all sessions of the user, the instant for this one. */
  async answered(sessionId: string, user: UserRights, now: EpochMs, nextAt: EpochMs): Promise<void> {
    const { roles, groups, tenant_id: tenantId, user_id: userId } = user;
    const isUser = ofOwner({ tenantId, userId });
    const sessions = () => this.db.updateTable('sign_in_session').where(isUser).where('revoked_at', 'is', null);
    await sessions().set({ roles, groups }).where('issuer', 'is not', null).execute();
    await sessions().set({ asked_at: now, ask_at: nextAt }).where('session_id', '=', sessionId).execute();
  }

  /** Asks about the other sessions of a user at once. */
  async hasten({ tenant_id, user_id }: Pick<UserRights, 'tenant_id' | 'user_id'>, now: EpochMs): Promise<void> {
    await this.db
      .updateTable('sign_in_session')
      .set({ ask_at: now })
      .where(ofOwner({ tenantId: tenant_id, userId: user_id }))
      .where('ask_at', '>', now)
      .execute();
  }

  /**
   * Ends a session that the provider can no longer be asked about so long after its sign-in.
   */
  async bound(longestMs: Milliseconds, sessionId: string): Promise<void> {
    const session = this.db.updateTable('sign_in_session').where('session_id', '=', sessionId);
    await session
      .set((row) => ({ expires_at: row('created_at', '+', longestMs) }))
      .where((row) => row('expires_at', '>', row('created_at', '+', longestMs)))
      .execute();
    await session.set({ ask_at: null }).execute();
  }

  /** Valid sessions, newest first. */
  async list(
    { tenant_id, user_id }: { tenant_id: string; user_id?: string | undefined },
    now: EpochMs,
  ): Promise<SignInSession[]> {
    const query = this.#valid(now).where(ofOwner({ tenantId: tenant_id, userId: user_id }));
    const rows = await query.selectAll().orderBy('created_at', 'desc').limit(MAX_LISTED).execute();
    return rows.map(toSession);
  }

  /** Revokes the valid sessions that match. @throws ToolError REQUEST_INVALID for a request that would match every session */
  async revoke(scope: SessionScope, now: EpochMs): Promise<SessionRevokeReply> {
    const given = Object.entries(scope).filter(([, value]) => value !== undefined);
    const isOne = scope.digest !== undefined;
    const isOfPeople = scope.tenant_id !== undefined && (scope.session_id ?? scope.user_id) !== undefined;
    const isOfProvider = scope.issuer !== undefined && (scope.sid ?? scope.subject) !== undefined;
    if (!isOne && !isOfPeople && !isOfProvider)
      throw invalidRequest(
        'Name the sessions by digest, by tenant_id with session_id or user_id, or by issuer with sid or subject',
      );
    let query = this.db
      .updateTable('sign_in_session')
      .set({ revoked_at: now })
      .where('revoked_at', 'is', null)
      .where('expires_at', '>', now);
    for (const [column, value] of given) query = query.where(column as 'digest', '=', value as string);
    const revoked = await query.returningAll().execute();
    return { revoked: revoked.length, ended: revoked.slice(0, MAX_LISTED).map(toSession) };
  }

  /** Deletes, or only counts, the sessions of a tenant or of one of its users. */
  purge(tenantId: string, userId: string | undefined, isDryRun: boolean): Promise<number> {
    return erase(this.db, 'sign_in_session', ofOwner({ tenantId, userId }), isDryRun);
  }

  /** Deletes the sessions that expired or were revoked before an instant. */
  async forgetEnded(before: EpochMs): Promise<void> {
    await erase(this.db, 'sign_in_session', sql`expires_at < ${before} or revoked_at < ${before}`);
  }

  #valid(now: EpochMs) {
    return this.db.selectFrom('sign_in_session').where('revoked_at', 'is', null).where('expires_at', '>', now);
  }
}

function toSession(row: IdentityRow<'sign_in_session'>): SignInSession {
  const { session_id, tenant_id, user_id, roles, groups, created_at, expires_at, issuer, subject, sid } = row;
  return {
    ...{ session_id, tenant_id, user_id, roles, groups, created_at, expires_at },
    // A session that was never asked about was confirmed by its sign-in.
    asked_at: row.ask_at === undefined ? undefined : (row.asked_at ?? created_at),
    client: row.client_id === undefined ? undefined : { id: row.client_id, name: row.client_name },
    provider: issuer === undefined || subject === undefined ? undefined : { issuer, subject, sid },
  };
}
