import { randomUUID } from 'node:crypto';
import type { EpochMs, Milliseconds } from '@toolfleet/contracts';
import type { Redis } from 'ioredis';

/** Declarations of a replica that stopped without withdrawing them count for this long; every round renews them. */
const LEASE_MS: Milliseconds = 30_000;

/**
 * Declarations of the configuration files of all replicas. While files differ, as during a rollout, the replica with the new file must
 * not remove sources that the others still serve, and the last one that declared it has gone before it is removed.
 */
export class Declarations {
  private readonly key: string;
  /** Start of this replica's members; the id follows. */
  private readonly own = `${randomUUID()} `;
  private declared: readonly string[] = [];

  constructor(
    private readonly redis: Redis,
    kind: 'sources' | 'toolsets',
  ) {
    this.key = `{registry}:declared:${kind}`;
  }

  /** Declares exactly these ids in the name of this replica. Repeated before the lease ends. */
  async declare(ids: Iterable<string>): Promise<void> {
    const members = [...ids].map((id) => this.own + id);
    const now = await storeNow(this.redis);
    const gone = this.declared.filter((member) => !members.includes(member));
    if (members.length > 0) await this.redis.zadd(this.key, ...members.flatMap((member) => [now + LEASE_MS, member]));
    if (gone.length > 0) await this.redis.zrem(this.key, ...gone);
    await this.redis.zremrangebyscore(this.key, '-inf', now);
    this.declared = members;
  }

  /** Ids that other replicas declare. */
  async byOthers(): Promise<ReadonlySet<string>> {
    const members = await this.redis.zrangebyscore(this.key, await storeNow(this.redis), '+inf');
    const others = members.filter((member) => !member.startsWith(this.own));
    return new Set(others.map((member) => member.slice(this.own.length)));
  }
}

/** The instant by the clock of Redis, which all replicas share. */
export async function storeNow(redis: Redis): Promise<EpochMs> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}
