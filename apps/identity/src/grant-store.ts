import { createHash, randomUUID } from 'node:crypto';
import type { EpochMs } from '@toolfleet/contracts';
import type { GrantsChanged, UserGrant } from '@toolfleet/contracts/identity';
import type { UserAuth, UserAuthMode } from '@toolfleet/contracts/user-auth';
import type { KeyRing } from '@toolfleet/service';
import type { Kysely, Selectable } from 'kysely';
import type { GrantTable, IdentityTables } from './identity-tables.js';

/** The secret part of a grant. */
interface GrantSecrets {
  api_key?: string | undefined;
  access_token?: string | undefined;
  refresh_token?: string | undefined;
}

/** A credential to store. */
interface Credential {
  secrets: GrantSecrets;
  scopes?: readonly string[] | undefined;
  /** End of the access token. */
  expiresAt?: EpochMs;
}

/** Whose grant, and for which source. */
interface GrantOwner {
  tenant_id: string;
  user_id: string;
  source: string;
}

/** A grant with its credential. */
export interface OpenGrant extends GrantOwner {
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

/**
 * What a credential belongs to: issuer, endpoints, client and scopes of the source. A source that changes one of them gets no credential
 * that was granted for another.
 */
function bindingOf({ help: _help, header: _header, client_secret: _secret, ...bound }: UserAuth): string {
  const members = Object.entries(bound).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(members)).digest('base64url');
}

/** Credentials of users for sources, at most one for each user and source. */
export class GrantStore {
  constructor(
    private readonly db: Kysely<IdentityTables>,
    private readonly keys: KeyRing,
  ) {}

  /** The grant of a user for a source as it is configured now. */
  async find({ tenant_id, user_id, source }: GrantOwner, auth: UserAuth): Promise<{ id?: string; reason?: string }> {
    const row = await this.db
      .selectFrom('user_grant')
      .select(['grant_id', 'binding', 'reason', 'auth'])
      .where('tenant_id', '=', tenant_id)
      .where('user_id', '=', user_id)
      .where('source', '=', source)
      .executeTakeFirst();
    if (!row) return {};
    if (row.binding !== bindingOf(auth)) return { reason: 'the source asks for another authorization since' };
    if (row.reason !== null) return { reason: row.reason };
    // A changed client secret; issuer, client and scopes are part of the binding.
    const known = JSON.stringify(auth);
    if (row.auth !== null && row.auth !== known)
      await this.db.updateTable('user_grant').set({ auth: known }).where('grant_id', '=', row.grant_id).execute();
    return { id: row.grant_id };
  }

  /**
   * Stores a credential in place of the one that the user had. Authorization servers may give no refresh token when a user consents again:
   * the one of the same issuer, client and scopes stays.
   * @returns the id of the grant
   */
  async put(
    owner: GrantOwner,
    auth: UserAuth,
    { secrets, scopes, expiresAt }: Credential,
    now: EpochMs,
  ): Promise<{ id: string; replaced: Changed }> {
    const { tenant_id, user_id, source } = owner;
    const grant_id = randomUUID();
    const values = {
      grant_id,
      mode: auth.mode,
      binding: bindingOf(auth),
      scopes: scopes?.join(' ') ?? null,
      expires_at: expiresAt ?? null,
      auth: auth.mode === 'api_key' ? null : JSON.stringify(auth),
      rotates: null,
      refresher: null,
      refresh_until: null,
      reason: null,
      updated_at: now,
    };
    return this.db.transaction().execute(async (tx) => {
      const before = await tx
        .selectFrom('user_grant')
        .select(['grant_id', 'generation', 'binding', 'sealed', 'reason', 'refresher'])
        .where('tenant_id', '=', tenant_id)
        .where('user_id', '=', user_id)
        .where('source', '=', source)
        .executeTakeFirst();
      const generation = Number(before?.generation ?? 0) + 1;
      const isSame = before?.binding === values.binding && before.reason === null && before.refresher === null;
      const kept = isSame && secrets.refresh_token === undefined ? this.#secretsOf(before).refresh_token : undefined;
      const all = kept === undefined ? secrets : { ...secrets, refresh_token: kept };
      const row = { generation, ...values, sealed: this.keys.seal(JSON.stringify(all), place(grant_id)) };
      await tx
        .insertInto('user_grant')
        .values({ tenant_id, user_id, source, created_at: now, ...row })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'user_id', 'source']).doUpdateSet(row))
        .execute();
      return { id: grant_id, replaced: before ? [{ ...owner, grant_id: before.grant_id }] : [] };
    });
  }

  /** A grant with its credential. @throws Error when it cannot be opened with the configured keys */
  async open(grantId: string): Promise<OpenGrant | undefined> {
    const row = await this.db.selectFrom('user_grant').selectAll().where('grant_id', '=', grantId).executeTakeFirst();
    if (!row) return undefined;
    return {
      grant_id: row.grant_id,
      tenant_id: row.tenant_id,
      user_id: row.user_id,
      source: row.source,
      mode: row.mode as UserAuthMode,
      generation: Number(row.generation),
      auth: row.auth === null ? { mode: row.mode as UserAuthMode } : (JSON.parse(row.auth) as UserAuth),
      secrets: this.#secretsOf(row),
      updated_at: Number(row.updated_at),
      expires_at: row.expires_at === null ? undefined : Number(row.expires_at),
      refresh_until: row.refresh_until === null ? undefined : Number(row.refresh_until),
      reason: row.reason ?? undefined,
    };
  }

  /**
   * Takes the right to refresh a generation. One whose holder has gone can be taken only where the authorization server keeps refresh tokens.
   * @returns false when another one has it, or has had it
   */
  async takeRefresh(
    { grant_id, generation }: OpenGrant,
    holder: string,
    now: EpochMs,
    until: EpochMs,
  ): Promise<boolean> {
    const { numUpdatedRows } = await this.db
      .updateTable('user_grant')
      .set({ refresher: holder, refresh_until: until })
      .where('grant_id', '=', grant_id)
      .where('generation', '=', generation)
      .where('reason', 'is', null)
      .where((row) =>
        row.or([row('refresher', 'is', null), row.and([row('refresh_until', '<', now), row('rotates', '=', 0)])]),
      )
      .executeTakeFirst();
    return Number(numUpdatedRows) > 0;
  }

  /** Stores the outcome of a refresh. @returns false when the holder has lost its right, or the user has another credential by now */
  async commitRefresh(
    { grant_id, generation }: OpenGrant,
    holder: string,
    { secrets, scopes, expiresAt, rotates, now }: Credential & { rotates: boolean; now: EpochMs },
  ): Promise<boolean> {
    const { numUpdatedRows } = await this.db
      .updateTable('user_grant')
      .set({
        generation: generation + 1,
        sealed: this.keys.seal(JSON.stringify(secrets), place(grant_id)),
        ...(scopes && { scopes: scopes.join(' ') }),
        expires_at: expiresAt ?? null,
        rotates: rotates ? 1 : 0,
        refresher: null,
        refresh_until: null,
        reason: null,
        updated_at: now,
      })
      .where('grant_id', '=', grant_id)
      .where('generation', '=', generation)
      .where('refresher', '=', holder)
      .executeTakeFirst();
    return Number(numUpdatedRows) > 0;
  }

  /** Gives the right to refresh back: the refresh token has not been used. */
  async giveBack({ grant_id, generation }: OpenGrant, holder: string): Promise<void> {
    await this.db
      .updateTable('user_grant')
      .set({ refresher: null, refresh_until: null })
      .where('grant_id', '=', grant_id)
      .where('generation', '=', generation)
      .where('refresher', '=', holder)
      .execute();
  }

  /** Marks a generation as unusable, and no newer one. @param holder of the right to refresh it; undefined: any */
  async refuse(
    { grant_id, generation }: OpenGrant,
    holder: string | undefined,
    reason: string,
    now: EpochMs,
  ): Promise<void> {
    await this.db
      .updateTable('user_grant')
      .set({ reason, updated_at: now })
      .where('grant_id', '=', grant_id)
      .where('generation', '=', generation)
      .$if(holder !== undefined, (query) => query.where('refresher', '=', holder!))
      .execute();
  }

  /** Grants of a tenant or of one of its users, by user and source. */
  async list(tenantId: string, userId: string | undefined): Promise<UserGrant[]> {
    const rows = await this.db
      .selectFrom('user_grant')
      .selectAll()
      .where('tenant_id', '=', tenantId)
      .$if(userId !== undefined, (query) => query.where('user_id', '=', userId!))
      .orderBy('user_id')
      .orderBy('source')
      .limit(MAX_LISTED)
      .execute();
    return rows.map(toUserGrant);
  }

  /** Deletes the grants of a user, of one source or of all. @returns what was deleted */
  revoke(tenantId: string, userId: string, source: string | undefined): Promise<Changed> {
    return this.db
      .deleteFrom('user_grant')
      .where('tenant_id', '=', tenantId)
      .where('user_id', '=', userId)
      .$if(source !== undefined, (query) => query.where('source', '=', source!))
      .returning(['tenant_id', 'user_id', 'source', 'grant_id'])
      .execute();
  }

  /** Deletes, or only finds, the grants of a tenant or of one of its users. */
  purge(tenantId: string, userId: string | undefined, isDryRun: boolean): Promise<Changed> {
    const columns = ['tenant_id', 'user_id', 'source', 'grant_id'] as const;
    if (isDryRun)
      return this.db
        .selectFrom('user_grant')
        .select(columns)
        .where('tenant_id', '=', tenantId)
        .$if(userId !== undefined, (query) => query.where('user_id', '=', userId!))
        .execute();
    return this.db
      .deleteFrom('user_grant')
      .where('tenant_id', '=', tenantId)
      .$if(userId !== undefined, (query) => query.where('user_id', '=', userId!))
      .returning(columns)
      .execute();
  }

  #secretsOf({ grant_id, sealed }: Pick<Selectable<GrantTable>, 'grant_id' | 'sealed'>): GrantSecrets {
    return JSON.parse(this.keys.open(sealed, place(grant_id))) as GrantSecrets;
  }
}

/** What a credential is sealed for. */
const place = (grantId: string): string => `grant/${grantId}`;

function toUserGrant(row: Selectable<GrantTable>): UserGrant {
  const { grant_id, tenant_id, user_id, source, scopes, reason } = row;
  return {
    grant_id,
    tenant_id,
    user_id,
    source,
    mode: row.mode as UserAuthMode,
    ...(scopes !== null && { scopes: scopes.split(' ').filter(Boolean) }),
    created_at: Number(row.created_at),
    updated_at: Number(row.updated_at),
    ...(reason !== null && { reason }),
  };
}
