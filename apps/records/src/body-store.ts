import { createSecretKey, generateKeySync, randomUUID, type KeyObject } from 'node:crypto';
import type { EpochMs } from '@toolfleet/contracts';
import type { BodyReading, FinishedCall, RecordsBody, RecordsBodyReply } from '@toolfleet/contracts/records';
import type { KeptBody } from '@toolfleet/contracts/resources';
import { openBytes, sealBytes, SecretBox } from '@toolfleet/service';
import { BulkInsert, erase, Prepared, type Owner } from '@toolfleet/database';
import { sql, type RawBuilder } from 'kysely';
import { BODIES, type RecordsDb, type RecordsTx } from './tables.js';

/** The key of a tenant's new bodies. */
interface SealingKey {
  id: string;
  key: KeyObject;
}

/**
 * The bodies of calls, their keys and who read them, in the database of the calls. Bodies are sealed with AES-256-GCM, each tenant's with keys
 * of that tenant. The keys are stored sealed with `RECORDS_SECRET_KEY`: the store alone opens nothing, and without its key a body can never
 * be read again.
 */
export class BodyStore {
  readonly #bodies = new BulkInsert(BODIES);
  readonly #box: SecretBox | undefined;
  readonly #newestKey: Prepared<{ key_id: string; sealed: string }>;

  constructor(
    private readonly db: RecordsDb,
    /** Absent: no bodies are kept. */
    secretKey: string | undefined,
  ) {
    this.#box = secretKey === undefined ? undefined : new SecretBox(secretKey);
    const keys = db.selectFrom('body_key').select(['key_id', 'sealed']).where('tenant_id', '=', '');
    this.#newestKey = new Prepared(keys.orderBy('made_at', 'desc').limit(sql.lit(1)));
  }

  /** Whether bodies can be kept. */
  get isOn(): boolean {
    return this.#box !== undefined;
  }

  /** Seals and inserts the bodies of calls at their positions, in the transaction of their rows. */
  async insert(tx: RecordsTx, calls: readonly { call: FinishedCall; position: number }[], now: EpochMs): Promise<void> {
    if (!this.isOn) return;
    const withBody = calls.filter(({ call }) => call.body);
    const keys = await this.#sealingKeys(tx, new Set(withBody.map(({ call }) => call.tenant_id)), now);
    const rows = withBody.map(({ call: { tenant_id, body }, position }) => {
      const { id, key } = keys.get(tenant_id)!;
      return {
        position,
        tenant_id,
        key_id: id,
        sealed: sealBytes(key, JSON.stringify(body), place(tenant_id, position)),
      };
    });
    await this.#bodies.run(tx, rows);
  }

  /** The newest keys of tenants; of several by one query. */
  async #sealingKeys(db: RecordsTx, tenants: ReadonlySet<string>, now: EpochMs): Promise<Map<string, SealingKey>> {
    const keys = new Map<string, SealingKey>();
    if (tenants.size > 1) {
      const stored = db.selectFrom('body_key').select(['tenant_id', 'key_id', 'sealed']);
      for (const row of await stored
        .where('tenant_id', 'in', [...tenants])
        .orderBy('made_at')
        .execute()) {
        const key = this.#openKey(row.sealed, row.tenant_id);
        // The newest decides: where it cannot be opened, a tenant gets another.
        if (key) keys.set(row.tenant_id, { id: row.key_id, key });
        else keys.delete(row.tenant_id);
      }
    }
    for (const tenant of tenants) if (!keys.has(tenant)) keys.set(tenant, await this.sealingKey(db, tenant, now));
    return keys;
  }

  /** The newest key of a tenant, made if there is none. Only while `isOn`. */
  async sealingKey(db: RecordsDb, tenant_id: string, made_at: EpochMs): Promise<SealingKey> {
    const [newest] = (await this.#newestKey.run(db, [tenant_id])).rows;
    const known = newest && this.#openKey(newest.sealed, tenant_id);
    if (known) return { id: newest.key_id, key: known };
    const key_id = randomUUID();
    const key = generateKeySync('aes', { length: 256 });
    const sealed = this.#box!.seal(key.export().toString('base64'), keyPlace(tenant_id));
    await db.insertInto('body_key').values({ key_id, tenant_id, sealed, made_at }).execute();
    return { id: key_id, key };
  }

  /** A stored key; undefined when it was sealed with another `RECORDS_SECRET_KEY`. */
  #openKey(sealed: string, tenantId: string): KeyObject | undefined {
    try {
      return this.#box && createSecretKey(this.#box.open(sealed, keyPlace(tenantId)), 'base64');
    } catch {
      return undefined;
    }
  }

  /** A key by its id; undefined when it was deleted, or sealed with another `RECORDS_SECRET_KEY`. */
  async openingKey(db: RecordsDb, tenant_id: string, key_id: string): Promise<KeyObject | undefined> {
    const found = await db.selectFrom('body_key').select('sealed').where('key_id', '=', key_id).executeTakeFirst();
    return found && this.#openKey(found.sealed, tenant_id);
  }

  /**
   * The body of a call, of its last record that has one, and who read it before. A reading by another than its maker is stored first.
   * @param question `is_note`: only stores the reading, of a call without a body at its last record
   */
  async read({ tenant_id, call_id, reader, is_note }: RecordsBody, now: EpochMs): Promise<RecordsBodyReply> {
    if (is_note) {
      const place = reader && (await this.#position(tenant_id, call_id));
      if (place !== undefined) await this.#note(place, tenant_id, reader!, now);
      return { readings: [] };
    }
    const found = await this.db
      .selectFrom('call_record')
      .innerJoin('call_body', 'call_body.position', 'call_record.position')
      .innerJoin('body_key', 'body_key.key_id', 'call_body.key_id')
      .select(['call_body.position', 'call_body.sealed', 'body_key.sealed as key'])
      .where('call_record.tenant_id', '=', tenant_id)
      .where('call_record.call_id', '=', call_id)
      .orderBy('call_body.position', 'desc')
      .limit(1)
      .executeTakeFirst();
    if (!found) return { readings: [] };
    const { position } = found;
    const key = this.#openKey(found.key, tenant_id);
    if (!key) return { readings: [], is_unreadable: true };
    const readings = await this.#readings(position);
    if (reader) await this.#note(position, tenant_id, reader, now);
    return { body: JSON.parse(openBytes(key, found.sealed, place(tenant_id, position))) as KeptBody, readings };
  }

  /** Where readings of a call are kept: with its last body, else with its last record. */
  async #position(tenant_id: string, call_id: string): Promise<number | undefined> {
    const found = await this.db
      .selectFrom('call_record')
      .leftJoin('call_body', 'call_body.position', 'call_record.position')
      .select(['call_record.position', 'call_body.position as body'])
      .where('call_record.tenant_id', '=', tenant_id)
      .where('call_record.call_id', '=', call_id)
      .orderBy('call_record.position', 'desc')
      .execute();
    return (found.find(({ body }) => typeof body === 'number') ?? found[0])?.position;
  }

  async #readings(position: number): Promise<BodyReading[]> {
    const rows = await this.db
      .selectFrom('body_reading')
      .selectAll()
      .where('position', '=', position)
      .orderBy('read_at')
      .limit(1_000)
      .execute();
    return rows.map((row) => ({
      tenant_id: row.reader_tenant_id,
      user_id: row.reader_user_id,
      key_id: row.reader_key_id,
      at: row.read_at,
    }));
  }

  async #note(
    position: number,
    tenant_id: string,
    reader: NonNullable<RecordsBody['reader']>,
    read_at: EpochMs,
  ): Promise<void> {
    const reading = {
      reading_id: randomUUID(),
      position,
      tenant_id,
      reader_tenant_id: reader.tenant_id,
      reader_user_id: reader.user_id,
      reader_key_id: reader.key_id,
      read_at,
    };
    await this.db.insertInto('body_reading').values(reading).execute();
  }

  /** Deletes what belongs to the calls between two positions that match a condition on `call_record`. */
  async deleteIn({ from, to }: { from: number; to: number }, condition: RawBuilder<boolean>): Promise<void> {
    for (const table of ['call_body', 'body_reading'] as const)
      await this.db
        .deleteFrom(table)
        .where('position', '>=', from)
        .where('position', '<', to)
        .where('position', 'in', (calls) =>
          calls
            .selectFrom('call_record')
            .select('position')
            .where('position', '>=', from)
            .where('position', '<', to)
            .where(condition),
        )
        .execute();
  }

  /** Deletes readings of calls before a position, dropped with their partition. */
  async forgetReadings(before: number): Promise<void> {
    await this.db.deleteFrom('body_reading').where('position', '<', before).execute();
  }

  /**
   * Deletes the keys of a tenant, and with them every body, also one in a backup; of a user the readings that it made. Counts in a dry run.
   * @returns the number of keys
   */
  async eraseOwner({ tenantId, userId }: Owner, dryRun: boolean): Promise<number> {
    if (userId !== undefined) {
      const isReader = sql<boolean>`reader_tenant_id = ${tenantId} and reader_user_id = ${userId}`;
      if (!dryRun) await erase(this.db, 'body_reading', isReader);
      return 0;
    }
    const keys = await erase(this.db, 'body_key', sql`tenant_id = ${tenantId}`, dryRun);
    if (!dryRun) await erase(this.db, 'body_reading', sql`reader_tenant_id = ${tenantId}`);
    return keys;
  }
}

const keyPlace = (tenantId: string): string => `key of bodies/${tenantId}`;
const place = (tenantId: string, position: number): string => `${tenantId}/${position}`;
