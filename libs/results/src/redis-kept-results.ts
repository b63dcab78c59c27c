import { quotaExceeded } from '@toolfleet/contracts/account';
import { KeptResults, MIN_KEPT_BYTES, type KeptResult, type LargeResults } from '@toolfleet/journal';
import { defineScript, type Script } from '@toolfleet/queue/redis';
import type { Redis } from 'ioredis';
import { readFileSync } from 'node:fs';

const KEPT_RESULTS = readFileSync(new URL('../lua/kept-results.lua', import.meta.url), 'utf8');
const KEEP_RESULT = KEPT_RESULTS + readFileSync(new URL('../lua/keep-result.lua', import.meta.url), 'utf8');
const ADMIT_RESULT = KEPT_RESULTS + readFileSync(new URL('../lua/admit-result.lua', import.meta.url), 'utf8');
const DROP_RESULT = KEPT_RESULTS + readFileSync(new URL('../lua/drop-result.lua', import.meta.url), 'utf8');

type Keys = [sizes: string, order: string, ends: string];

/** Prefix of the refs of cache entries; all other refs begin with a call id. */
const CACHE_REF = 'rc:';
/** End of the refs of asynchronous records of a call with another outcome in the journal: an idempotency key's. */
export const BODY_REF = '#body';

/**
 * Counts the bytes that each tenant keeps in Redis: results of asynchronous calls, outcomes in the journal and shared cache
 * entries. One script checks and counts, so that concurrent results cannot exceed the quota together. The gateway that needed
 * the room deletes the evicted results right after; missed ones end with their TTL.
 */
export class RedisKeptResults extends KeptResults {
  readonly #scripts: Record<'keep' | 'admit' | 'drop', Script>;

  /** @param quotaBytes per tenant; 0 means no limit */
  constructor(
    private readonly redis: Redis,
    private readonly quotaBytes: number,
    /** Holds large results; these count as well. */
    private readonly large?: LargeResults,
  ) {
    super();
    this.#scripts = {
      keep: defineScript(redis, 'keepResult', 3, KEEP_RESULT),
      admit: defineScript(redis, 'admitResult', 3, ADMIT_RESULT),
      drop: defineScript(redis, 'dropResult', 3, DROP_RESULT),
    };
  }

  override async admit(tenantId: string): Promise<void> {
    if (this.quotaBytes === 0) return;
    if ((await this.#scripts.admit(...quotaKeys(tenantId), this.quotaBytes)) === 1) return;
    throw quotaExceeded('kept_results', this.quotaBytes);
  }

  override async keep({ tenantId, ref, bytes, keyed, ttlMs }: KeptResult): Promise<boolean> {
    if (this.quotaBytes === 0 || bytes < MIN_KEPT_BYTES) return true;
    const values = [ref, bytes, keyed ? 1 : 0, Math.ceil(ttlMs), this.quotaBytes];
    const [kept, ...evicted] = (await this.#scripts.keep(...quotaKeys(tenantId), ...values)) as [number, ...string[]];
    await Promise.all(evicted.map((evictedRef) => this.#delete(evictedRef)));
    return kept === 1;
  }

  override async drop(tenantId: string, ref: string): Promise<void> {
    if (this.quotaBytes > 0) await this.#scripts.drop(...quotaKeys(tenantId), ref);
  }

  /** Forgets a tenant's kept results, once its results are deleted, or only looks. Returns the number of keys. */
  erase(tenantId: string, dryRun: boolean): Promise<number> {
    const keys = quotaKeys(tenantId);
    return dryRun ? this.redis.exists(...keys) : this.redis.unlink(...keys);
  }

  /** Deletes a result. A call's is in the journal or in its asynchronous record; the state of the call stays. */
  async #delete(ref: string): Promise<void> {
    if (ref.startsWith(CACHE_REF)) {
      await this.redis.del(ref);
      return;
    }
    const isBody = ref.endsWith(BODY_REF);
    const record: [key: string, field: string] = [
      `{call:${isBody ? ref.slice(0, -BODY_REF.length) : ref}}:record`,
      'result',
    ];
    const places: [key: string, field: string][] = isBody ? [record] : [[`{c:${ref}}`, 'outcome'], record];
    await Promise.all(
      places.map(async ([key, field]) => {
        const object = this.large && (await this.redis.hget(key, 'object'));
        await this.redis.hdel(key, field, 'object');
        if (object) await this.large?.delete(object);
      }),
    );
  }
}

function quotaKeys(tenantId: string): Keys {
  const tag = `{kept:${tenantId}}`;
  return [`${tag}:sizes`, `${tag}:order`, `${tag}:ends`];
}
