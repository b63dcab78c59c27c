import { createHash } from 'node:crypto';
import type { EpochMs } from '@toolfleet/contracts';
import { DAY_MS } from '@toolfleet/database';
import type { Clock } from '@toolfleet/resilience';
import type { KeyRing } from '@toolfleet/service';
import { sql, type Kysely } from 'kysely';
import { errors, type Adapter, type AdapterPayload } from 'oidc-provider';

/** Columns of `oauth_record`. */
interface OAuthRecordTable {
  /** SHA-256 of the kind and the id: an id is often the token itself. */
  digest: string;
  kind: string;
  grant_id: string | null;
  uid: string | null;
  sealed: string;
  consumed_at: number | null;
  expires_at: number;
}

/** Tables of the authorization server. */
export interface OAuthTables {
  oauth_record: OAuthRecordTable;
}

/** Registered clients that are not used for this long are forgotten. */
const CLIENT_DAYS = 90;
/** Anyone can register a client. */
const MAX_CLIENTS = 5_000;

/**
 * Codes, tokens, grants, interactions and registered clients of the authorization server, sealed, and found by the hash of their ids: who
 * reads the database can use none of them.
 */
export class OAuthRecords {
  constructor(
    private readonly db: Kysely<OAuthTables>,
    private readonly keys: KeyRing,
    private readonly clock: Clock,
  ) {}

  /** The store of one kind, as `oidc-provider` wants it. */
  of(kind: string): Adapter {
    return {
      upsert: (id, payload, expiresIn) => this.#upsert(kind, id, payload, expiresIn),
      find: (id) => this.find(kind, id),
      findByUid: async (uid) =>
        this.#payload(await this.#valid().where('kind', '=', kind).where('uid', '=', uid).executeTakeFirst()),
      findByUserCode: async () => undefined,
      consume: (id) => this.#consume(kind, id),
      destroy: async (id) =>
        void (await this.db.deleteFrom('oauth_record').where('digest', '=', digestOf(kind, id)).execute()),
      revokeByGrantId: async (grantId) =>
        void (await this.db.deleteFrom('oauth_record').where('grant_id', '=', grantId).execute()),
    };
  }

  /** A valid record. */
  async find(kind: string, id: string): Promise<AdapterPayload | undefined> {
    const row = await this.#valid().where('digest', '=', digestOf(kind, id)).executeTakeFirst();
    const now = this.clock.now();
    // A registration lives as long as it is used; once a day is enough to know that.
    if (row && kind === 'Client' && Number(row.expires_at) - now < (CLIENT_DAYS - 1) * DAY_MS)
      await this.db
        .updateTable('oauth_record')
        .set({ expires_at: now + CLIENT_DAYS * DAY_MS })
        .where('digest', '=', row.digest)
        .execute();
    return this.#payload(row);
  }

  /** Deletes what has expired. */
  async forgetEnded(before: EpochMs): Promise<void> {
    await this.db.deleteFrom('oauth_record').where('expires_at', '<', before).execute();
  }

  async #upsert(kind: string, id: string, payload: AdapterPayload, expiresIn?: number): Promise<void> {
    if (kind === 'Client') await this.#refuseTooManyClients();
    const digest = digestOf(kind, id);
    const seconds = expiresIn ?? CLIENT_DAYS * 86_400;
    const row = {
      kind,
      grant_id: kind === 'Grant' ? null : (payload.grantId ?? null),
      uid: payload.uid ?? null,
      sealed: this.keys.seal(JSON.stringify(payload), placeOf(digest)),
      expires_at: this.clock.now() + seconds * 1_000,
    };
    await this.db
      .insertInto('oauth_record')
      .values({ ...row, digest, consumed_at: null })
      .onConflict((conflict) => conflict.column('digest').doUpdateSet(row))
      .execute();
  }

  /** Of several that use a code or refresh token at once, one does. */
  async #consume(kind: string, id: string): Promise<void> {
    const { numUpdatedRows } = await this.db
      .updateTable('oauth_record')
      .set({ consumed_at: this.clock.now() })
      .where('digest', '=', digestOf(kind, id))
      .where('consumed_at', 'is', null)
      .executeTakeFirstOrThrow();
    if (numUpdatedRows === 0n) throw new errors.InvalidGrant('it was used before');
  }

  async #refuseTooManyClients(): Promise<void> {
    const { count } = await this.db
      .selectFrom('oauth_record')
      .where('kind', '=', 'Client')
      .where('expires_at', '>', this.clock.now())
      .select(sql<number>`count(*)`.as('count'))
      .executeTakeFirstOrThrow();
    if (Number(count) >= MAX_CLIENTS)
      throw new errors.TemporarilyUnavailable(
        `${MAX_CLIENTS} clients are registered; use a client id metadata document`,
      );
  }

  #valid() {
    return this.db.selectFrom('oauth_record').where('expires_at', '>', this.clock.now()).selectAll();
  }

  #payload(row: OAuthRecordTable | undefined): AdapterPayload | undefined {
    if (!row) return undefined;
    const payload = JSON.parse(this.keys.open(row.sealed, placeOf(row.digest))) as AdapterPayload;
    return row.consumed_at === null ? payload : { ...payload, consumed: Math.floor(Number(row.consumed_at) / 1_000) };
  }
}

const digestOf = (kind: string, id: string): string => createHash('sha256').update(`${kind}/${id}`).digest('base64url');
const placeOf = (digest: string): string => `oauth/${digest}`;
