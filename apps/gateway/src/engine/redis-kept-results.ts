import { ToolError } from '@toolfleet/contracts';
import { KeptResults, LEAST_KEPT_BYTES, type KeptResult } from '@toolfleet/journal';
import type { Redis } from 'ioredis';
import { ADMIT_RESULT, DROP_RESULT, KEEP_RESULT } from './scripts.js';

type Keys = [sizes: string, order: string, ends: string];
type Script = (...values: (string | number)[]) => Promise<unknown>;

/** Refs of cache entries; all others are call ids. */
export const CACHE_REF = 'rc:';

/**
 * Bytes that each tenant keeps in Redis: results of asynchronous calls, outcomes in the journal, shared cache entries. Check and
 * count are one script, so results that arrive at the same time never pass the quota together. What has to go is deleted
 * right after, by the gateway that needed the room; keys that this misses end with their TTL.
 */
export class RedisKeptResults extends KeptResults {
  readonly #scripts: Record<'keep' | 'admit' | 'drop', Script>;

  constructor(
    private readonly redis: Redis,
    /** Per tenant, in bytes; 0 = no limit. */
    private readonly quotaBytes: number,
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
    if ((await this.#scripts.admit(...keysOf(tenantId), this.quotaBytes)) === 1) return;
    throw new ToolError('RESULT_QUOTA_EXCEEDED', {
      message: 'The results kept for this tenant fill its quota',
      details: { quota_bytes: this.quotaBytes },
    });
  }

  override async keep({ tenantId, ref, bytes, keyed, ttlMs }: KeptResult): Promise<boolean> {
    if (this.quotaBytes === 0 || bytes < LEAST_KEPT_BYTES) return true;
    const values = [ref, bytes, keyed ? 1 : 0, Math.ceil(ttlMs), this.quotaBytes];
    const [kept, ...removed] = (await this.#scripts.keep(...keysOf(tenantId), ...values)) as [number, ...string[]];
    await Promise.all(removed.map((gone) => this.#delete(gone)));
    return kept === 1;
  }

  override async drop(tenantId: string, ref: string): Promise<void> {
    if (this.quotaBytes > 0) await this.#scripts.drop(...keysOf(tenantId), ref);
  }

  async #delete(ref: string): Promise<void> {
    if (ref.startsWith(CACHE_REF)) await this.redis.del(ref);
    // One of both has it; the state of the call stays.
    else
      await Promise.all([this.redis.hdel(`{c:${ref}}`, 'outcome'), this.redis.hdel(`{call:${ref}}:record`, 'result')]);
  }
}

function keysOf(tenantId: string): Keys {
  const tag = `{kept:${tenantId}}`;
  return [`${tag}:sizes`, `${tag}:order`, `${tag}:ends`];
}
