import { ToolError } from '@toolfleet/contracts';
import { KeptResults, MIN_KEPT_BYTES, type KeptResult, type LargeResults } from '@toolfleet/journal';
import type { Redis } from 'ioredis';
import { ADMIT_RESULT, DROP_RESULT, KEEP_RESULT } from './scripts.js';

type Keys = [sizes: string, order: string, ends: string];
type Script = (...values: (string | number)[]) => Promise<unknown>;

/** Prefix of the refs of cache entries; all other refs begin with a call id. */
const CACHE_REF = 'rc:';
/** End of the refs of asynchronous records whose call has another outcome in the journal: that of an idempotency key. */
export const BODY_REF = '#body';

/**
 * Counts the bytes that each tenant keeps in Redis: results of asynchronous calls, outcomes in the journal and shared cache
 * entries. One script checks and counts, so that concurrent results cannot exceed the quota together. The gateway that needed
 * the room deletes the evicted results right after; what it misses ends with its TTL.
 */
export class RedisKeptResults extends KeptResults {
  readonly #scripts: Record<'keep' | 'admit' | 'drop', Script>;

  /** @param quotaBytes per tenant; 0 means no limit */
  constructor(
    private readonly redis: Redis,
    private readonly quotaBytes: number,
    /** Holds large results, which count as well. */
    private readonly large?: LargeResults,
  ) {
    super();
    redis.defineCommand('keepResult', { numberOfKeys: 3, lua: KEEP_RESULT });
    redis.defineCommand('admitResult', { numberOfKeys: 3, lua: ADMIT_RESULT });
    redis.defineCommand('dropResult', { numberOfKeys: 3, lua: DROP_RESULT });
    const commands = redis as unknown as Record<'keepResult' | 'admitResult' | 'dropResult', Script>;
    this.#scripts = {
      keep: (...values) => commands.keepResult(...values),
      admit: (...values) => commands.admitResult(...values),
      drop: (...values) => commands.dropResult(...values),
    };
  }

  override async admit(tenantId: string): Promise<void> {
    if (this.quotaBytes === 0) return;
    if ((await this.#scripts.admit(...quotaKeys(tenantId), this.quotaBytes)) === 1) return;
    throw new ToolError('RESULT_QUOTA_EXCEEDED', {
      message: 'The kept results of this tenant fill its quota',
      details: { quota_bytes: this.quotaBytes },
    });
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

  /** Forgets what a tenant keeps, once its results are deleted, or only looks. Returns the number of keys. */
  erase(tenantId: string, dryRun: boolean): Promise<number> {
    const keys = quotaKeys(tenantId);
    return dryRun ? this.redis.exists(...keys) : this.redis.unlink(...keys);
  }

  /** Deletes a result. That of a call is in the journal or in its asynchronous record; the state of the call stays. */
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
