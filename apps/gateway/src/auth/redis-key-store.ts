import type { Redis } from 'ioredis';
import type { EpochMs } from '@toolfleet/contracts';
import { type ApiKeyRecord, KeyStore, MAX_LIVE_KEYS } from './key-store.js';

/**
 * Keys in Redis under the hash tag `{auth}`, one slot, so that every script runs on Redis Cluster:
 * `{auth}:keys` id → record (JSON), `{auth}:revoked` id → instant, `{auth}:used` id → instant, `{auth}:client:<tenant>:<client>` ids.
 * Revocation and last use are fields of their own: a late `touch` can never write an old record over a revocation.
 */
const KEYS = '{auth}:keys';
const REVOKED = '{auth}:revoked';
const USED = '{auth}:used';

/** KEYS: keys, revoked, client. ARGV: id, record, now, most live keys. */
const CREATE = `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 'id_taken' end
local live = 0
for _, id in ipairs(redis.call('SMEMBERS', KEYS[3])) do
  local stored = redis.call('HGET', KEYS[1], id)
  if stored and redis.call('HEXISTS', KEYS[2], id) == 0 then
    local expires = cjson.decode(stored).expiresAt
    if not expires or expires > tonumber(ARGV[3]) then live = live + 1 end
  end
end
if live >= tonumber(ARGV[4]) then return 'too_many' end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('SADD', KEYS[3], ARGV[1])
return 'created'`;

/** KEYS: keys, revoked. ARGV: id, instant. */
const REVOKE = `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2])
return 1`;

/** KEYS: keys, used. ARGV: id, instant. */
const TOUCH = `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
local before = redis.call('HGET', KEYS[2], ARGV[1])
if not before or tonumber(before) < tonumber(ARGV[2]) then redis.call('HSET', KEYS[2], ARGV[1], ARGV[2]) end
return 1`;

/** KEYS: keys, revoked, used. ARGV: id. */
const FIND = `
return {redis.call('HGET', KEYS[1], ARGV[1]), redis.call('HGET', KEYS[2], ARGV[1]), redis.call('HGET', KEYS[3], ARGV[1])}`;

/** The connection is the caller's: it is neither opened nor closed here. Redis errors are passed on; callers fail closed. */
export class RedisKeyStore extends KeyStore {
  constructor(private readonly redis: Redis) {
    super();
  }

  override async create(key: ApiKeyRecord, now: EpochMs): Promise<'created' | 'too_many' | 'id_taken'> {
    const client = `{auth}:client:${key.tenantId}:${key.client}`;
    const record = JSON.stringify({ ...key, revokedAt: undefined, lastUsedAt: undefined });
    const answer = await this.redis.eval(CREATE, 3, KEYS, REVOKED, client, key.id, record, now, MAX_LIVE_KEYS);
    return answer as 'created' | 'too_many' | 'id_taken';
  }

  override async find(id: string): Promise<ApiKeyRecord | null> {
    const [record, revoked, used] = (await this.redis.eval(FIND, 3, KEYS, REVOKED, USED, id)) as (string | null)[];
    return record ? assemble(record, revoked, used) : null;
  }

  override async list(tenantId?: string): Promise<ApiKeyRecord[]> {
    const [records, revoked, used] = await Promise.all([
      this.redis.hgetall(KEYS),
      this.redis.hgetall(REVOKED),
      this.redis.hgetall(USED),
    ]);
    return Object.entries(records)
      .map(([id, record]) => assemble(record, revoked[id], used[id]))
      .filter((key) => tenantId === undefined || key.tenantId === tenantId)
      .toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
  }

  override async revoke(id: string, at: EpochMs): Promise<boolean> {
    return (await this.redis.eval(REVOKE, 2, KEYS, REVOKED, id, at)) === 1;
  }

  override async touch(id: string, at: EpochMs): Promise<void> {
    await this.redis.eval(TOUCH, 2, KEYS, USED, id, at);
  }
}

function assemble(record: string, revoked?: string | null, used?: string | null): ApiKeyRecord {
  return {
    ...(JSON.parse(record) as ApiKeyRecord),
    ...(revoked ? { revokedAt: Number(revoked) } : {}),
    ...(used ? { lastUsedAt: Number(used) } : {}),
  };
}
