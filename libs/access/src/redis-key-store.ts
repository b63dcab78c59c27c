import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import type { EpochMs } from '@toolfleet/contracts';
import { DEFAULT_QUOTAS } from '@toolfleet/contracts/account';
import { type ApiKeyRecord, type CreateOutcome, isPersonal, KeyStore, MAX_LIVE_KEYS } from './api-keys.js';
import { OPERATOR_KEY_ID } from './roles.js';

/**
 * Keys in Redis under the hash tag `{auth}`, one slot, so that every script runs on Redis Cluster:
 * `{auth}:keys` id → record (JSON), `{auth}:revoked` id → instant, `{auth}:used` id → instant, `{auth}:client:<tenant>:<client>` (of a
 * personal key `<tenant>:<user>:<client>`) and `{auth}:tenant:<tenant>` ids.
 * Revocation and last use are separate fields: a late `touch` can never write an old record over a revocation.
 */
const KEYS = '{auth}:keys';
const REVOKED = '{auth}:revoked';
const USED = '{auth}:used';
/** Keys that one command reads of the whole fleet. */
const PAGE = 500;

const CREATE_KEY = readFileSync(new URL('../lua/create-key.lua', import.meta.url), 'utf8');
const CHANGE_KEY = readFileSync(new URL('../lua/change-key.lua', import.meta.url), 'utf8');
const REVOKE_KEY = readFileSync(new URL('../lua/revoke-key.lua', import.meta.url), 'utf8');
const TOUCH_KEY = readFileSync(new URL('../lua/touch-key.lua', import.meta.url), 'utf8');
const FIND_KEY = readFileSync(new URL('../lua/find-key.lua', import.meta.url), 'utf8');

/** API keys in Redis, over the caller's connection. Redis errors are passed on, and callers fail closed. */
export class RedisKeyStore extends KeyStore {
  constructor(
    private readonly redis: Redis,
    override readonly most = DEFAULT_QUOTAS.keys,
  ) {
    super();
  }

  override async create(key: ApiKeyRecord, now: EpochMs): Promise<CreateOutcome> {
    const client = clientKey(key);
    const parent = key.parentId === OPERATOR_KEY_ID ? '' : (key.parentId ?? '');
    const keys = [KEYS, REVOKED, client, tenantKey(key), USED];
    const args = [key.id, recordText(key), now, MAX_LIVE_KEYS, parent, this.most];
    return (await this.redis.eval(CREATE_KEY, keys.length, ...keys, ...args)) as CreateOutcome;
  }

  override async find(id: string): Promise<ApiKeyRecord | null> {
    const [record, revoked, used] = (await this.redis.eval(FIND_KEY, 3, KEYS, REVOKED, USED, id)) as (string | null)[];
    return record ? assemble(record, revoked, used) : null;
  }

  override async list(tenantId?: string): Promise<ApiKeyRecord[]> {
    const found = new Map<string, ApiKeyRecord>();
    for await (const ids of this.#pages(tenantId)) {
      if (ids.length === 0) continue;
      const read = (hash: string) => this.redis.hmget(hash, ...ids);
      const [records, revoked, used] = await Promise.all([read(KEYS), read(REVOKED), read(USED)]);
      for (const [at, id] of ids.entries()) {
        // One that was erased meanwhile has no record.
        const record = records[at];
        if (record) found.set(id, assemble(record, revoked[at], used[at]));
      }
    }
    return [...found.values()].toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
  }

  /** Ids of a tenant, at most as many as its quota, or of the fleet in pages, between which Redis serves others. One may come twice. */
  async *#pages(tenantId: string | undefined): AsyncGenerator<string[]> {
    if (tenantId !== undefined) return yield await this.redis.smembers(tenantKey({ tenantId }));
    for await (const page of this.redis.hscanStream(KEYS, { count: PAGE }))
      yield (page as string[]).filter((_, at) => at % 2 === 0);
  }

  override async change(key: ApiKeyRecord): Promise<boolean> {
    return (await this.redis.eval(CHANGE_KEY, 1, KEYS, key.id, recordText(key))) === 1;
  }

  override async revoke(id: string, at: EpochMs): Promise<boolean> {
    return (await this.redis.eval(REVOKE_KEY, 2, KEYS, REVOKED, id, at)) === 1;
  }

  override async erase(id: string): Promise<boolean> {
    const key = await this.find(id);
    if (!key) return false;
    await this.redis
      .multi()
      .srem(clientKey(key), id)
      .srem(tenantKey(key), id)
      .hdel(REVOKED, id)
      .hdel(USED, id)
      .hdel(KEYS, id)
      .exec();
    return true;
  }

  override async touch(id: string, at: EpochMs): Promise<void> {
    await this.redis.eval(TOUCH_KEY, 2, KEYS, USED, id, at);
  }
}

/** Revocation and last use are separate fields. */
const recordText = (key: ApiKeyRecord): string =>
  JSON.stringify({ ...key, revokedAt: undefined, lastUsedAt: undefined });

const clientKey = (key: ApiKeyRecord): string =>
  ['{auth}:client', key.tenantId, ...(isPersonal(key) ? [key.userId] : []), key.client].join(':');

const tenantKey = ({ tenantId }: Pick<ApiKeyRecord, 'tenantId'>): string => `{auth}:tenant:${tenantId}`;

function assemble(record: string, revoked?: string | null, used?: string | null): ApiKeyRecord {
  return {
    ...(JSON.parse(record) as ApiKeyRecord),
    revokedAt: revoked ? Number(revoked) : undefined,
    lastUsedAt: used ? Number(used) : undefined,
  };
}
