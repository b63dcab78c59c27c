import { createHash } from 'node:crypto';
import { DAY_MS } from '@toolfleet/database';
import type { Clock } from '@toolfleet/resilience';
import type { KeyRing } from '@toolfleet/service';
import { errors, type Adapter, type AdapterPayload } from 'oidc-provider';
import type { IdentityDb, IdentityRow } from '../identity-tables.js';

/** Registered clients that are not used for this long are forgotten. */
const CLIENT_DAYS = 90;
/** The same while no user has connected one. */
const UNCONFIRMED_MS = DAY_MS;
/**
 * Anyone can send authorization requests and register clients. Of those that no user has confirmed, the oldest are forgotten: a refusal of
 * new ones would let one sender lock out all others.
 */
const MAX_UNCONFIRMED = 5_000;
/** Rows are counted once for so many new ones. */
const PRUNE_EVERY = 100;

/**
 * Codes, tokens, grants, interactions and registered clients of the authorization server, sealed, and found by the hash of their ids: who
 * reads the database can use none of them.
 */
export class OAuthRecords {
  #added = 0;

  constructor(
    private readonly db: IdentityDb,
    private readonly keys: KeyRing,
    private readonly clock: Clock,
    private readonly maxUnconfirmed = MAX_UNCONFIRMED,
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
    const leftMs = row && kind === 'Client' ? row.expires_at - now : 0;
    // A registration that a user confirmed lives as long as it is used; once a day is enough to know that.
    if (leftMs > UNCONFIRMED_MS && leftMs < (CLIENT_DAYS - 1) * DAY_MS) await this.confirmClient(id);
    return this.#payload(row);
  }

  /** Keeps the registration of a client that a user has connected. Nothing for clients with a document. */
  async confirmClient(id: string): Promise<void> {
    await this.db
      .updateTable('oauth_record')
      .set({ expires_at: this.clock.now() + CLIENT_DAYS * DAY_MS })
      .where('digest', '=', digestOf('Client', id))
      .execute();
  }

  /** Deletes expired records at once: anyone can cause records. */
  async forgetEnded(): Promise<void> {
    await this.db.deleteFrom('oauth_record').where('expires_at', '<', this.clock.now()).execute();
  }

  async #upsert(kind: string, id: string, payload: AdapterPayload, expiresIn?: number): Promise<void> {
    const digest = digestOf(kind, id);
    const seconds = expiresIn ?? UNCONFIRMED_MS / 1_000;
    const row = {
      kind,
      grant_id: kind === 'Grant' ? null : (payload.grantId ?? null),
      uid: payload.uid ?? null,
      sealed: this.keys.seal(JSON.stringify(payload), placeOf(digest)),
      expires_at: this.clock.now() + seconds * 1_000,
    };
    await this.db
      .insertInto('oauth_record')
      .values({ ...row, digest })
      .onConflict((conflict) => conflict.column('digest').doUpdateSet(row))
      .execute();
    if (kind !== 'Client' && kind !== 'Interaction') return;
    this.#added += 1;
    if (this.#added % PRUNE_EVERY === 0) for (const counted of ['Client', 'Interaction']) await this.#prune(counted);
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

  /** Forgets the oldest records of a kind that no user has confirmed. */
  async #prune(kind: string): Promise<void> {
    const unconfirmed = this.db
      .selectFrom('oauth_record')
      .where('kind', '=', kind)
      .where('expires_at', '<=', this.clock.now() + UNCONFIRMED_MS);
    const newest = await unconfirmed
      .select('expires_at')
      .orderBy('expires_at', 'desc')
      .offset(this.maxUnconfirmed)
      .limit(1)
      .executeTakeFirst();
    if (!newest) return;
    await this.db
      .deleteFrom('oauth_record')
      .where('kind', '=', kind)
      .where('expires_at', '<=', newest.expires_at)
      .execute();
  }

  #valid() {
    return this.db.selectFrom('oauth_record').where('expires_at', '>', this.clock.now()).selectAll();
  }

  #payload(row: IdentityRow<'oauth_record'> | undefined): AdapterPayload | undefined {
    if (!row) return undefined;
    const payload = JSON.parse(this.keys.open(row.sealed, placeOf(row.digest))) as AdapterPayload;
    const { consumed_at: at } = row;
    return at === undefined ? payload : { ...payload, consumed: Math.floor(at / 1_000) };
  }
}

const digestOf = (kind: string, id: string): string => createHash('sha256').update(`${kind}/${id}`).digest('base64url');
const placeOf = (digest: string): string => `oauth/${digest}`;
