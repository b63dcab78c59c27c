import { randomUUID } from 'node:crypto';
import { ToolError, type EpochMs } from '@toolfleet/contracts';
import type { SessionList, SessionRevoke, SessionRevokeReply, SignInSession } from '@toolfleet/contracts/identity';
import type { KeyRing } from '@toolfleet/service';
import type { Kysely, Selectable } from 'kysely';
import type { IdentityTables, SessionTable } from './identity-tables.js';

/** A user signed in. */
export interface NewSession extends Omit<SignInSession, 'session_id' | 'created_at'> {
  /** SHA-256 of the secret in the cookie, base64url. */
  digest: string;
  /** Tokens of the provider; they are sealed. */
  tokens?: { id_token?: string; access_token?: string; refresh_token?: string };
}

/** Longest list. */
const MAX_LISTED = 1_000;

/** Sign-in sessions. Rows are inserted, revoked once, and deleted when they have ended. */
export class SessionStore {
  constructor(
    private readonly db: Kysely<IdentityTables>,
    private readonly keys: KeyRing,
  ) {}

  /** Stores a session. @returns its public id @throws ToolError REQUEST_INVALID when the digest is in use */
  async create(session: NewSession, now: EpochMs): Promise<string> {
    const session_id = randomUUID();
    const { provider, tokens } = session;
    const { numInsertedOrUpdatedRows: inserted } = await this.db
      .insertInto('sign_in_session')
      .values({
        session_id,
        digest: session.digest,
        tenant_id: session.tenant_id,
        user_id: session.user_id,
        roles: JSON.stringify(session.roles),
        groups: JSON.stringify(session.groups),
        created_at: now,
        expires_at: session.expires_at,
        revoked_at: null,
        issuer: provider?.issuer ?? null,
        subject: provider?.subject ?? null,
        sid: provider?.sid ?? null,
        client_id: session.client?.id ?? null,
        client_name: session.client?.name ?? null,
        sealed: tokens ? this.keys.seal(JSON.stringify(tokens), place(session_id)) : null,
      })
      .onConflict((conflict) => conflict.column('digest').doNothing())
      .executeTakeFirstOrThrow();
    if (!inserted) throw new ToolError('REQUEST_INVALID', { message: 'A session with this digest exists' });
    return session_id;
  }

  /** The valid session of a digest. */
  async get(digest: string, now: EpochMs): Promise<SignInSession | undefined> {
    const row = await this.#valid(now).where('digest', '=', digest).selectAll().executeTakeFirst();
    return row && toSession(row);
  }

  /** A valid session by its id. */
  async byId(sessionId: string, now: EpochMs): Promise<SignInSession | undefined> {
    const row = await this.#valid(now).where('session_id', '=', sessionId).selectAll().executeTakeFirst();
    return row && toSession(row);
  }

  /** Valid sessions, newest first. */
  async list({ tenant_id, user_id }: SessionList, now: EpochMs): Promise<SignInSession[]> {
    let query = this.#valid(now).where('tenant_id', '=', tenant_id);
    if (user_id !== undefined) query = query.where('user_id', '=', user_id);
    const rows = await query.selectAll().orderBy('created_at', 'desc').limit(MAX_LISTED).execute();
    return rows.map(toSession);
  }

  /** Revokes the valid sessions that match. @throws ToolError REQUEST_INVALID for a request that would match every session */
  async revoke(scope: SessionRevoke, now: EpochMs): Promise<SessionRevokeReply> {
    const { with_id_token: withIdToken, ...members } = scope;
    const given = Object.entries(members).filter(([, value]) => value !== undefined);
    const isOne = scope.digest !== undefined;
    const isOfPeople = scope.tenant_id !== undefined && (scope.session_id ?? scope.user_id) !== undefined;
    const isOfProvider = scope.issuer !== undefined && (scope.sid ?? scope.subject) !== undefined;
    if (!isOne && !isOfPeople && !isOfProvider)
      throw new ToolError('REQUEST_INVALID', {
        message:
          'Name the sessions by digest, by tenant_id with session_id or user_id, or by issuer with sid or subject',
      });
    let query = this.db
      .updateTable('sign_in_session')
      .set({ revoked_at: now })
      .where('revoked_at', 'is', null)
      .where('expires_at', '>', now);
    for (const [column, value] of given) query = query.where(column as 'digest', '=', value as string);
    const revoked = await query.returning(['session_id', 'sealed']).execute();
    const sealed = isOne && withIdToken ? revoked[0]?.sealed : undefined;
    if (!sealed) return { revoked: revoked.length };
    const { id_token } = JSON.parse(this.keys.open(sealed, place(revoked[0]!.session_id))) as { id_token?: string };
    return { revoked: revoked.length, ...(id_token !== undefined && { id_token }) };
  }

  /** Deletes, or only counts, the sessions of a tenant or of one of its users. */
  async purge(tenantId: string, userId: string | undefined, isDryRun: boolean): Promise<number> {
    const rows = await this.db
      .selectFrom('sign_in_session')
      .where('tenant_id', '=', tenantId)
      .$if(userId !== undefined, (query) => query.where('user_id', '=', userId!))
      .select((row) => row.fn.countAll().as('count'))
      .executeTakeFirstOrThrow();
    if (!isDryRun)
      await this.db
        .deleteFrom('sign_in_session')
        .where('tenant_id', '=', tenantId)
        .$if(userId !== undefined, (query) => query.where('user_id', '=', userId!))
        .execute();
    return Number(rows.count);
  }

  /** Deletes the sessions that expired or were revoked before an instant. */
  async forgetEnded(before: EpochMs): Promise<void> {
    await this.db
      .deleteFrom('sign_in_session')
      .where((row) => row.or([row('expires_at', '<', before), row('revoked_at', '<', before)]))
      .execute();
  }

  #valid(now: EpochMs) {
    return this.db.selectFrom('sign_in_session').where('revoked_at', 'is', null).where('expires_at', '>', now);
  }
}

/** What a session's tokens are sealed for. */
const place = (sessionId: string): string => `session/${sessionId}`;

function toSession(row: Selectable<SessionTable>): SignInSession {
  const { issuer, subject, sid } = row;
  return {
    session_id: row.session_id,
    tenant_id: row.tenant_id,
    user_id: row.user_id,
    roles: JSON.parse(row.roles) as string[],
    groups: JSON.parse(row.groups) as string[],
    created_at: Number(row.created_at),
    expires_at: Number(row.expires_at),
    ...(row.client_id !== null && {
      client: { id: row.client_id, ...(row.client_name !== null && { name: row.client_name }) },
    }),
    ...(issuer !== null && subject !== null && { provider: { issuer, subject, ...(sid !== null && { sid }) } }),
  };
}
