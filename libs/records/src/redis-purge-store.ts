import type { EpochMs } from '@toolfleet/contracts';
import type { Redis } from 'ioredis';

/** Subject of a purge: a tenant, or one of its users. */
export interface PurgeScope {
  tenantId: string;
  userId?: string;
}

export type PurgeCounts = Record<string, number>;

/** A purge with its progress. */
export interface PurgeRecord extends PurgeScope {
  id: string;
  dryRun: boolean;
  /** Replaces the tenant or user in the ledger. */
  pseudonym: string;
  requestedBy: string;
  requestedAt: EpochMs;
  state: 'running' | 'done';
  /** Names of the finished steps. */
  done: string[];
  /** Removed rows, or counted by a dry run, by kind. */
  counts: PurgeCounts;
  /** Rows that were there again at the end: written by calls that ran meanwhile. Empty after a complete purge. */
  remaining: PurgeCounts;
  /** API keys of the scope, to name their calls. Collected before they are deleted. */
  keyIds: string[];
  /** Why the last attempt stopped; it is repeated. */
  error?: string;
  finishedAt?: EpochMs;
}

const OPEN = '{purge}:open';
const recordKey = (id: string): string => `{purge}:${id}`;
const leaseKey = (id: string): string => `{purge}:${id}:lease`;

/** How long the record of a purge is kept after its last change. It names the tenant or user; the audit log does as well. */
const TTL_SECONDS = 30 * 86_400;
/** Life of a lease that is not renewed: so long a purge rests after its gateway was killed. */
const LEASE_MS = 20_000;

/** Purges as hashes `{purge}:<id>`: `request` as JSON, `done:<step>`, `counts:<kind>` and `remaining:<kind>`. */
export class RedisPurgeStore {
  constructor(
    private readonly redis: Redis,
    private readonly leaseMs = LEASE_MS,
  ) {}

  async create({ counts: _counts, remaining: _remaining, done: _done, ...request }: PurgeRecord): Promise<void> {
    const key = recordKey(request.id);
    await this.redis
      .multi()
      .hset(key, { request: JSON.stringify(request), state: request.state })
      .expire(key, TTL_SECONDS)
      .sadd(OPEN, request.id)
      .exec();
  }

  async get(id: string): Promise<PurgeRecord | undefined> {
    const { request, state, error, key_ids, finished_at, ...progress } = await this.redis.hgetall(recordKey(id));
    if (request === undefined) return undefined;
    const under = (prefix: string): [string, string][] =>
      Object.entries(progress)
        .filter(([field]) => field.startsWith(prefix))
        .map(([field, value]) => [field.slice(prefix.length), value]);
    const amounts = (prefix: string): PurgeCounts =>
      Object.fromEntries(under(prefix).map(([kind, amount]) => [kind, Number(amount)]));
    return {
      ...(JSON.parse(request) as PurgeRecord),
      state: state === 'done' ? 'done' : 'running',
      done: under('done:').map(([step]) => step),
      counts: amounts('counts:'),
      remaining: amounts('remaining:'),
      keyIds: JSON.parse(key_ids ?? '[]') as string[],
      error,
      finishedAt: finished_at === undefined ? undefined : Number(finished_at),
    };
  }

  /** Ids of purges that have not ended. */
  open(): Promise<string[]> {
    return this.redis.smembers(OPEN);
  }

  async finishStep(id: string, step: string): Promise<void> {
    await this.redis.multi().hset(recordKey(id), `done:${step}`, 1).hdel(recordKey(id), 'error').exec();
  }

  async count(id: string, field: 'counts' | 'remaining', kind: string, amount: number): Promise<void> {
    await this.redis.hincrby(recordKey(id), `${field}:${kind}`, amount);
  }

  async setKeyIds(id: string, keyIds: readonly string[]): Promise<void> {
    await this.redis.hset(recordKey(id), 'key_ids', JSON.stringify(keyIds));
  }

  async clearRemaining(id: string): Promise<void> {
    const fields = (await this.redis.hkeys(recordKey(id))).filter((field) => field.startsWith('remaining:'));
    if (fields.length > 0) await this.redis.hdel(recordKey(id), ...fields);
  }

  async fail(id: string, error: string): Promise<void> {
    await this.redis.multi().hset(recordKey(id), 'error', error).expire(recordKey(id), TTL_SECONDS).exec();
  }

  async finish(id: string, at: EpochMs): Promise<void> {
    await this.redis
      .multi()
      .hset(recordKey(id), { state: 'done', finished_at: at })
      .hdel(recordKey(id), 'error', 'key_ids')
      .expire(recordKey(id), TTL_SECONDS)
      .srem(OPEN, id)
      .exec();
  }

  /** Takes or renews the right to work on a purge. False: another gateway has it. */
  async lease(id: string, holder: string): Promise<boolean> {
    if ((await this.redis.set(leaseKey(id), holder, 'PX', this.leaseMs, 'NX')) === 'OK') return true;
    if ((await this.redis.get(leaseKey(id))) !== holder) return false;
    return (await this.redis.pexpire(leaseKey(id), this.leaseMs)) === 1;
  }

  async release(id: string, holder: string): Promise<void> {
    if ((await this.redis.get(leaseKey(id))) === holder) await this.redis.del(leaseKey(id));
  }
}
