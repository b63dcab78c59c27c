/** The epoch of Redis (see `libs/queue/src/store-epoch.ts`) in the database of the ledger, because it survives the loss of Redis. */
import { randomUUID } from 'node:crypto';
import { EPOCH_KEYS } from '@toolfleet/contracts/account';
import type { EpochMs } from '@toolfleet/contracts';
import { STORE_EPOCH_KEY, type StoreEpoch } from '@toolfleet/queue/redis';
import type { Clock } from '@toolfleet/resilience';
import type { Redis } from 'ioredis';
import type { LedgerDb } from './ledger-tables.js';

/** Writes of this age count as kept: they are on the disk, and on the replica that a failover promotes. */
const KEPT_AFTER_MS = 30_000;
const ROW = 1;

/** What Redis should hold, by the database. Database failures reject. */
export class StoredEpoch {
  constructor(private readonly db: LedgerDb) {}

  /** The epoch, after `first` has become it in a database without one. */
  async readOr(first: StoreEpoch): Promise<StoreEpoch> {
    const read = () => this.db.selectFrom('store_epoch').selectAll().executeTakeFirst();
    let row = await read();
    if (!row) {
      // Another replica may have begun one.
      await this.db
        .insertInto('store_epoch')
        .values({ id: ROW, ...columnsOf(first) })
        .onConflict((conflict) => conflict.doNothing())
        .execute();
      row = await read();
    }
    if (!row) throw new Error('the epoch was not stored');
    return { epoch: row.epoch, keptAt: row.kept_at, keys: row.keys.split(' ').filter((key) => key !== '') };
  }

  /** Replaces an epoch, unless another replica has begun the next one. */
  async replace(before: StoreEpoch, epoch: StoreEpoch): Promise<void> {
    await this.db.updateTable('store_epoch').set(columnsOf(epoch)).where('epoch', '=', before.epoch).execute();
  }
}

const columnsOf = ({ epoch, keptAt, keys }: StoreEpoch) => ({ epoch, kept_at: keptAt, keys: keys.join(' ') });

/** Begins the epoch of a new store, moves its instant on, and copies it to Redis for the other services. */
export class StoreKeeper {
  #epoch: StoreEpoch | undefined;

  constructor(
    private readonly redis: Redis,
    private readonly stored: StoredEpoch,
    private readonly clock: Clock,
  ) {}

  /** What Redis should hold. `accept` in the copy, set by an operator, begins another epoch with the data that Redis has. */
  async read(): Promise<StoreEpoch> {
    const copy = await this.redis.hgetall(STORE_EPOCH_KEY);
    // A database that is new takes the epoch that Redis has.
    const first = { epoch: copy['epoch'] ?? randomUUID(), keptAt: 0, keys: [] };
    this.#epoch = await this.stored.readOr(first);
    // Deleted before, so that one of several replicas begins it.
    if (copy['accept'] !== undefined && (await this.redis.hdel(STORE_EPOCH_KEY, 'accept')) === 1) {
      const next = { epoch: randomUUID(), keptAt: 0, keys: [] };
      await this.stored.replace(this.#epoch, next);
      this.#epoch = next;
    }
    await this.#copy(this.#epoch);
    return this.#epoch;
  }

  /** Redis has lost nothing: kinds of keys that are new get the epoch, and every 30 s all get the present instant. */
  async kept(oldestAt: EpochMs): Promise<void> {
    const epoch = this.#epoch;
    const [now, keys] = [this.clock.now(), Object.keys(EPOCH_KEYS)];
    if (!epoch || (keys.every((key) => epoch.keys.includes(key)) && now - oldestAt < KEPT_AFTER_MS)) return;
    // Two writes each, so that the append-only file has a transaction: if a restart refuses those, the epoch is missing as well.
    for (const key of keys) await this.redis.multi().hset(key, 'epoch', epoch.epoch).hset(key, 'at', now).exec();
    const keptAt = now - oldestAt < KEPT_AFTER_MS || !Number.isFinite(oldestAt) ? epoch.keptAt : oldestAt;
    this.#epoch = { ...epoch, keptAt, keys: [...new Set([...epoch.keys, ...keys])] };
    await this.stored.replace(epoch, this.#epoch);
    await this.#copy(this.#epoch);
  }

  async #copy({ epoch, keptAt, keys }: StoreEpoch): Promise<void> {
    await this.redis.hset(STORE_EPOCH_KEY, { epoch, kept_at: keptAt, keys: keys.join(' ') });
  }
}
