import { randomUUID } from 'node:crypto';
import type { EpochMs, Milliseconds } from '@toolfleet/contracts';
import type { GrantFindReply, GrantsChanged, UserGrant } from '@toolfleet/contracts/identity';
import type { UserAuth, UserAuthMode } from '@toolfleet/contracts/user-auth';
import type { KeyRing } from '@toolfleet/service';
import { ofOwner } from '@toolfleet/database';
import { sql } from 'kysely';
import { bindingOf, grantedAs, toUserGrant, valuesOf } from './grant-columns.js';
import type { IdentityDb, IdentityRow } from './identity-tables.js';

/** The secret part of a grant. */
interface GrantSecrets {
  api_key?: string | undefined;
  access_token?: string | undefined;
  refresh_token?: string | undefined;
  id_token?: string | undefined;
  /** The token that the user presented, to be exchanged, and its end. */
  subject_token?: string | undefined;
  subject_until?: EpochMs | undefined;
}

/** A credential to store. */
interface GrantCredential {
  secrets: GrantSecrets;
  scopes?: readonly string[] | undefined;
  /** End of the access token. */
  expiresAt?: EpochMs;
}

/** Sources of the grants with the tokens of sign-ins begin with it (`SignInTokens`). No source of tools does. */
export const SIGN_IN = 'sign_in';
/** Pattern of SQL for them. */
const SIGN_INS = `${SIGN_IN}%`;

/** The user of a grant, and its source. */
export interface UserGrantOwner {
  tenant_id: string;
  user_id: string;
  source: string;
}

/** A grant with its credential. */
export interface OpenGrant extends UserGrantOwner {
  grant_id: string;
  mode: UserAuthMode;
  generation: number;
  auth: UserAuth;
  secrets: GrantSecrets;
  /** When the credential was stored, and the end of the access token. */
  updated_at: EpochMs;
  expires_at: EpochMs | undefined;
  /** Until when a replica has the right to refresh it. */
  refresh_until: EpochMs | undefined;
  reason: string | undefined;
}

const MAX_LISTED = 1_000;
type Changed = GrantsChanged['grants'];

/** Credentials of users for sources, at most one for each user and source. */
export class UserGrantStore {
  constructor(
    private readonly db: IdentityDb,
    private readonly keys: KeyRing,
  ) {}

  /** The grant of a user for a source as it is configured now. */
  async find(owner: UserGrantOwner, auth: UserAuth): Promise<GrantFindReply> {
    const row = await this.#ofOwner(owner).select(['grant_id', 'binding', 'reason', 'auth']).executeTakeFirst();
    if (!row) return {};
    if (row.binding !== bindingOf(auth)) return { reason: 'the source asks for another authorization since' };
    if (row.reason !== undefined) return { reason: row.reason };
    // A changed client secret; issuer, client and scopes are part of the binding.
    const known = row.auth && grantedAs(auth, row.auth);
    if (JSON.stringify(row.auth) !== JSON.stringify(known))
      await this.db.updateTable('user_grant').set({ auth: known }).where('grant_id', '=', row.grant_id).execute();
    return { grant_id: row.grant_id };
  }

  /**
   * Stores a credential in place of the one that the user had. Authorization servers may give no refresh token when a user consents again:
   * the one of the same issuer, client and scopes stays.
   * @param granted `auth` with the values that the source named
   * @returns the id of the grant
   */
  async put(
    owner: UserGrantOwner,
    auth: UserAuth,
    { secrets, scopes, expiresAt }: GrantCredential,
    now: EpochMs,
    granted = auth,
  ): Promise<{ id: string; replaced: Changed }> {
    const { tenant_id, user_id, source } = owner;
    const grant_id = randomUUID();
    const values = {
      ...valuesOf(grant_id, auth, { scopes, expiresAt }, now),
      auth: auth.mode === 'api_key' ? null : grantedAs(auth, granted),
    };
    return this.db.transaction().execute(async (tx) => {
      const before = await this.#ofOwner(owner, tx).selectAll().executeTakeFirst();
      const generation = (before?.generation ?? 0) + 1;
      const isSame = before?.binding === values.binding && (before.reason ?? before.refresher) === undefined;
      const kept = isSame && secrets.refresh_token === undefined ? this.#secretsOf(before).refresh_token : undefined;
      const all = kept === undefined ? secrets : { ...secrets, refresh_token: kept };
      const row = { generation, ...values, sealed: this.#sealed(grant_id, all) };
      await tx
        .insertInto('user_grant')
        .values({ tenant_id, user_id, source, created_at: now, ...row })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'user_id', 'source']).doUpdateSet(row))
        .execute();
      return { id: grant_id, replaced: before ? [{ ...owner, grant_id: before.grant_id }] : [] };
    });
  }

  /**
   * Begins a grant with tokens that are exchanged on demand, in place of one that is refused or bound to other settings.
   * @returns its id, or the id of the grant which another replica has begun meanwhile
   */
  async begin(owner: UserGrantOwner, auth: UserAuth, credential: GrantCredential, now: EpochMs): Promise<string> {
    const before = await this.#ofOwner(owner).select(['grant_id', 'generation']).executeTakeFirst();
    const grant_id = randomUUID();
    const row = {
      ...valuesOf(grant_id, auth, credential, now),
      auth,
      rotates: false,
      generation: (before?.generation ?? 0) + 1,
      sealed: this.#sealed(grant_id, credential.secrets),
    };
    await this.db
      .insertInto('user_grant')
      .values({ ...owner, created_at: now, ...row })
      .onConflict((conflict) =>
        conflict
          .columns(['tenant_id', 'user_id', 'source'])
          .doUpdateSet(row)
          .where('user_grant.grant_id', '=', before?.grant_id ?? ''),
      )
      .execute();
    return (await this.#ofOwner(owner).select('grant_id').executeTakeFirstOrThrow()).grant_id;
  }

  /** The grant of a user for a source, if it was granted for these settings. */
  async ofOwner(owner: UserGrantOwner, auth: UserAuth): Promise<OpenGrant | undefined> {
    const row = await this.#ofOwner(owner).selectAll().executeTakeFirst();
    return row?.binding === bindingOf(auth) ? this.#toOpen(row) : undefined;
  }

  /** The tokens of the newest sign-in of a user, rather of one that the provider has not refused. */
  async newestSignIn(owner: Omit<UserGrantOwner, 'source'>, auth: UserAuth): Promise<OpenGrant | undefined> {
    const row = await this.db
      .selectFrom('user_grant')
      .where(isUser(owner))
      .where('source', 'like', SIGN_INS)
      .where('binding', '=', bindingOf(auth))
      .selectAll()
      .orderBy((order) => order.case().when('reason', 'is', null).then(0).else(1).end())
      .orderBy('created_at', 'desc')
      .limit(1)
      .executeTakeFirst();
    return row && this.#toOpen(row);
  }

  /** Deletes the tokens of all sign-ins of a user. */
  async forgetSignIns(owner: Omit<UserGrantOwner, 'source'>): Promise<void> {
    await this.db.deleteFrom('user_grant').where(isUser(owner)).where('source', 'like', SIGN_INS).execute();
  }

  #ofOwner(owner: UserGrantOwner, db = this.db) {
    return db.selectFrom('user_grant').where(isUser(owner)).where('source', '=', owner.source);
  }

  /** Replaces the sealed values of a generation. */
  async replaceSecrets(grant: OpenGrant, secrets: GrantSecrets): Promise<void> {
    const sealed = this.#sealed(grant.grant_id, secrets);
    await this.db.updateTable('user_grant').set({ sealed }).where(isGeneration(grant)).execute();
  }

  /** A grant with its credential. @throws Error when it cannot be opened with the configured keys */
  async open(grantId: string): Promise<OpenGrant | undefined> {
    const row = await this.db.selectFrom('user_grant').selectAll().where('grant_id', '=', grantId).executeTakeFirst();
    return row && this.#toOpen(row);
  }

  #toOpen(row: IdentityRow<'user_grant'>, secrets = this.#secretsOf(row)): OpenGrant {
    const { grant_id, tenant_id, user_id, source, mode, generation, updated_at, auth = { mode } } = row;
    return {
      ...{ grant_id, tenant_id, user_id, source, mode, generation, secrets, updated_at },
      ...{ auth, expires_at: row.expires_at, refresh_until: row.refresh_until, reason: row.reason },
    };
  }

  /**
   * Takes the right to refresh a generation. A lost holder's can be taken only where the authorization server keeps refresh
   * tokens, or within `graceMs` after the first holder took it.
   * @returns false when another one has it, or has had it
   */
  async takeRefresh(
    grant: OpenGrant,
    holder: string,
    { now, until, graceMs }: { now: EpochMs; until: EpochMs; graceMs: Milliseconds },
  ): Promise<boolean> {
    const { numUpdatedRows } = await this.db
      .updateTable('user_grant')
      .set((row) => ({
        refresher: holder,
        refresh_until: until,
        refresh_since: row.case().when('refresher', 'is', null).then(now).else(row.ref('refresh_since')).end(),
      }))
      .where(isGeneration(grant))
      .where('reason', 'is', null)
      .where((row) =>
        row.or([
          row('refresher', 'is', null),
          row.and([
            row('refresh_until', '<', now),
            row.or([row('rotates', '=', false), row('refresh_since', '>', now - graceMs)]),
          ]),
        ]),
      )
      .executeTakeFirst();
    return Number(numUpdatedRows) > 0;
  }

  /** Stores the outcome of a refresh. @returns false when the holder has lost its right, or the user has another credential by now */
  async commitRefresh(
    grant: OpenGrant,
    holder: string,
    { secrets, scopes, expiresAt, rotates, now }: GrantCredential & { rotates: boolean; now: EpochMs },
  ): Promise<boolean> {
    const { numUpdatedRows } = await this.db
      .updateTable('user_grant')
      .set({
        generation: grant.generation + 1,
        sealed: this.#sealed(grant.grant_id, secrets),
        scopes: scopes?.join(' '),
        expires_at: expiresAt ?? null,
        rotates,
        refresher: null,
        refresh_until: null,
        reason: null,
        updated_at: now,
      })
      .where(isGeneration(grant))
      .where('refresher', '=', holder)
      .executeTakeFirst();
    return Number(numUpdatedRows) > 0;
  }

  /** Ends the rights to refresh of processes that are gone. Only for a store with one replica, when it starts. */
  async endLeases(now: EpochMs): Promise<void> {
    await this.db.updateTable('user_grant').set({ refresh_until: now }).where('refresher', 'is not', null).execute();
  }

  /** Gives the right to refresh back: the refresh token has not been used. */
  async giveBack(grant: OpenGrant, holder: string): Promise<void> {
    const update = this.db.updateTable('user_grant').set({ refresher: null, refresh_until: null });
    await update.where(isGeneration(grant)).where('refresher', '=', holder).execute();
  }

  /** Marks a generation as unusable, and no newer one. @param holder of the right to refresh it; undefined: any */
  async refuse(grant: OpenGrant, holder: string | undefined, reason: string, now: EpochMs): Promise<void> {
    await this.db
      .updateTable('user_grant')
      .set({ reason, updated_at: now })
      .where(isGeneration(grant))
      .$if(holder !== undefined, (query) => query.where('refresher', '=', holder!))
      .execute();
  }

  /** Grants of a tenant or of one of its users, by user and source. */
  async list(tenantId: string, userId: string | undefined): Promise<UserGrant[]> {
    const rows = await this.db
      .selectFrom('user_grant')
      .selectAll()
      .where(ofOwner({ tenantId, userId }))
      .where('source', 'not like', SIGN_INS)
      .orderBy('user_id')
      .orderBy('source')
      .limit(MAX_LISTED)
      .execute();
    return rows.map(toUserGrant);
  }

  /** Deletes the grants of a user, of one source or of all. @returns the deleted grants; without secrets where no configured key opens them */
  async revoke(tenantId: string, userId: string, source: string | undefined): Promise<OpenGrant[]> {
    const rows = await this.db
      .deleteFrom('user_grant')
      .where(ofOwner({ tenantId, userId }))
      .$if(source === undefined, (query) => query.where('source', 'not like', SIGN_INS))
      .$if(source !== undefined, (query) => query.where('source', '=', source!))
      .returningAll()
      .execute();
    return rows.map((row) => {
      try {
        return this.#toOpen(row);
      } catch {
        // Sealed with a key that is gone: a user can still disconnect.
        return this.#toOpen(row, {});
      }
    });
  }

  /** Whether the user has another grant of the same client at the same authorization server that may share its tokens' family. */
  async hasOther({ grant_id, auth, ...owner }: OpenGrant): Promise<boolean> {
    const rows = await this.db
      .selectFrom('user_grant')
      .select('auth')
      .where(isUser(owner))
      .where('grant_id', '!=', grant_id)
      .where('auth', 'is not', null)
      .execute();
    return rows.some((row) => isSameClient(auth, row.auth!));
  }

  /** Deletes, or only finds, the grants of a tenant or of one of its users. */
  purge(tenantId: string, userId: string | undefined, isDryRun: boolean): Promise<Changed> {
    const columns = ['tenant_id', 'user_id', 'source', 'grant_id'] as const;
    const isOwned = ofOwner({ tenantId, userId });
    if (isDryRun) return this.db.selectFrom('user_grant').select(columns).where(isOwned).execute();
    return this.db.deleteFrom('user_grant').where(isOwned).returning(columns).execute();
  }

  /** Deletes the tokens of sign-ins with a session that ended before an instant, or was never opened. */
  async forgetSignedOut(before: EpochMs): Promise<void> {
    await this.db
      .deleteFrom('user_grant')
      .where('source', 'like', SIGN_INS)
      .where('updated_at', '<', before)
      .where((row) =>
        row.not(
          row.exists(
            row
              .selectFrom('sign_in_session')
              .select('session_id')
              .whereRef('sign_in_session.tenant_id', '=', 'user_grant.tenant_id')
              .whereRef('sign_in_session.user_id', '=', 'user_grant.user_id')
              .where('user_grant.source', 'in', [
                SIGN_IN,
                sql<string>`${sql.lit(`${SIGN_IN}/`)} || sign_in_session.session_id`,
              ])
              .where('revoked_at', 'is', null)
              .where('sign_in_session.expires_at', '>', before),
          ),
        ),
      )
      .execute();
  }

  #sealed(grantId: string, secrets: GrantSecrets): string {
    return this.keys.seal(JSON.stringify(secrets), place(grantId));
  }

  #secretsOf({ grant_id, sealed }: Pick<IdentityRow<'user_grant'>, 'grant_id' | 'sealed'>): GrantSecrets {
    return JSON.parse(this.keys.open(sealed, place(grant_id))) as GrantSecrets;
  }
}

/** Matches a grant while it has this credential. */
const isGeneration = ({ grant_id, generation }: OpenGrant) =>
  sql<boolean>`grant_id = ${grant_id} and generation = ${generation}`;

/** Matches the rows of a user. */
const isUser = ({ tenant_id, user_id }: Omit<UserGrantOwner, 'source'>) =>
  ofOwner({ tenantId: tenant_id, userId: user_id });

const isSameClient = (one: UserAuth, other: UserAuth): boolean =>
  one.client_id === other.client_id && (one.issuer ?? one.token_url) === (other.issuer ?? other.token_url);

/** The seal's context of a credential. */
const place = (grantId: string): string => `grant/${grantId}`;
