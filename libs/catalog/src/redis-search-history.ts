import type { EpochMs } from '@toolfleet/contracts';
import type { Redis } from 'ioredis';

/** A search, kept until its calls are known. */
export interface SearchRecord {
  at: EpochMs;
  /** `toMaker` of the caller. */
  caller: string;
  /** Hashes of its words. */
  words: string[];
  /** Names of the tools it found. */
  found: string[];
}

/** A tool that a caller called successfully after a search. */
export interface LearnedCall {
  words: string[];
  tool: string;
}

const searchesKey = (tenantId: string): string => `lc:s:${tenantId}`;
const learnedKey = (tenantId: string): string => `lc:h:${tenantId}`;
const leaseKey = (tenantId: string): string => `lc:l:${tenantId}`;
/** Searches kept per tenant until their calls are known; about 1 KB each. */
const MAX_SEARCHES = 200;
const SEARCH_TTL_SECONDS = 3_600;
/** Callers per tenant with learned calls; a further one replaces an arbitrary one. At most 50 calls of about 100 bytes each. */
const MAX_CALLERS = 100;
/** Time after the last addition of a tenant until its history is deleted. */
const LEARNED_TTL_SECONDS = 30 * 86_400;

/**
 * Searches in a capped list per tenant (`lc:s:<tenant>`) and learned calls in a hash per tenant (`lc:h:<tenant>`, a field per
 * caller), with the permissions of gateways.
 */
export class RedisSearchHistory {
  constructor(
    private readonly redis: Redis,
    private readonly learnEveryMs: number,
  ) {}

  async addSearch(tenantId: string, search: SearchRecord): Promise<void> {
    const key = searchesKey(tenantId);
    await Promise.all([
      this.redis.lpush(key, JSON.stringify(search)),
      this.redis.ltrim(key, 0, MAX_SEARCHES - 1),
      this.redis.expire(key, SEARCH_TTL_SECONDS),
    ]);
  }

  /** The newest searches of a tenant, oldest first. */
  async searches(tenantId: string): Promise<SearchRecord[]> {
    const texts = await this.redis.lrange(searchesKey(tenantId), 0, MAX_SEARCHES - 1);
    const searches = texts.map((text) => JSON.parse(text) as SearchRecord);
    return searches.toSorted((a, b) => a.at - b.at); // gateways write them in any order
  }

  /** Learned calls of each caller of the tenant, newest first. */
  async learned(tenantId: string): Promise<Map<string, LearnedCall[]>> {
    const fields = await this.redis.hgetall(learnedKey(tenantId));
    return new Map(Object.entries(fields).map(([caller, text]) => [caller, JSON.parse(text) as LearnedCall[]]));
  }

  /** Replaces the learned calls of a caller. */
  async teach(tenantId: string, caller: string, calls: readonly LearnedCall[]): Promise<void> {
    const key = learnedKey(tenantId);
    await this.redis.hset(key, caller, JSON.stringify(calls));
    const others = (await this.redis.hkeys(key)).filter((other) => other !== caller);
    const surplus = others.slice(0, Math.max(0, others.length + 1 - MAX_CALLERS));
    if (surplus.length > 0) await this.redis.hdel(key, ...surplus);
    await this.redis.expire(key, LEARNED_TTL_SECONDS);
  }

  /** True for one gateway per interval. */
  async mayLearn(tenantId: string): Promise<boolean> {
    return (await this.redis.set(leaseKey(tenantId), '1', 'PX', this.learnEveryMs, 'NX')) === 'OK';
  }

  /** Removes or counts the entries of a tenant, or of some of its callers. */
  async erase(tenantId: string, callers: readonly string[] | undefined, dryRun: boolean): Promise<number> {
    const [searches, learned] = await Promise.all([this.searches(tenantId), this.learned(tenantId)]);
    const isOwn = (caller: string) => callers === undefined || callers.includes(caller);
    const own = searches.filter(({ caller }) => isOwn(caller));
    const teachers = [...learned.keys()].filter(isOwn);
    if (!dryRun) {
      // One key each: in a cluster they are in different slots.
      if (callers === undefined)
        await Promise.all([searchesKey, leaseKey].map((keyOf) => this.redis.unlink(keyOf(tenantId))));
      else for (const search of own) await this.redis.lrem(searchesKey(tenantId), 0, JSON.stringify(search));
      if (teachers.length > 0) await this.redis.hdel(learnedKey(tenantId), ...teachers);
    }
    return own.length + teachers.length;
  }
}
