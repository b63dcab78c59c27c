import type { Redis } from 'ioredis';
import { isJsonObject } from '@toolfleet/contracts';
import { RecentCalls, type CallScope, type StoredRecentCall } from './recent-calls.js';
import type { RecentCall } from '@toolfleet/contracts/fleet';

const FLEET_KEY = 'lc:fleet';
const tenantKey = (tenantId: string): string => `lc:t:${tenantId}`;
/** Streams of idle tenants expire after this time: a call takes about 0.6 KB, and there may be many tenants. */
const TTL_SECONDS = 6 * 3_600;
/** Calls read in one step of `erase`. */
const ERASED_PAGE = 500;
/** Factor by which the fleet's stream, which has the calls of all tenants, is longer. */
const FLEET_FACTOR = 5;

/**
 * Recent calls in capped streams, one per tenant (`lc:t:<tenant>`) and one for the fleet (`lc:fleet`): a busy tenant never
 * evicts another tenant's calls. Keys share no hash tag, so they spread over a Redis Cluster.
 */
export class RedisRecentCalls extends RecentCalls {
  constructor(
    private readonly redis: Redis,
    /** Calls kept per tenant; Redis keeps up to a hundred more, because exact trimming costs more. */
    private readonly kept: number,
  ) {
    super();
  }

  override async add(calls: readonly RecentCall[]): Promise<void> {
    const keys = new Set<string>();
    const writes: Promise<unknown>[] = [];
    for (const call of calls) {
      const text = JSON.stringify(call);
      for (const [key, kept] of [
        [FLEET_KEY, this.kept * FLEET_FACTOR],
        [tenantKey(call.tenant_id), this.kept],
      ] as const) {
        keys.add(key);
        writes.push(this.redis.xadd(key, 'MAXLEN', '~', kept, '*', 'call', text));
      }
    }
    for (const key of keys) writes.push(this.redis.expire(key, TTL_SECONDS));
    await Promise.all(writes);
  }

  override async read(scope: CallScope, limit: number, cursor?: string, before?: string): Promise<StoredRecentCall[]> {
    const key = streamKey(scope);
    const entries =
      cursor === undefined
        ? (await this.redis.xrevrange(key, before === undefined ? '+' : `(${before}`, '-', 'COUNT', limit)).toReversed()
        : await this.redis.xrange(key, `(${cursor}`, '+', 'COUNT', limit);
    return entries.flatMap(([id, fields]) => {
      const call: unknown = JSON.parse(fields[1] ?? 'null');
      return isJsonObject(call) ? [{ ...(call as unknown as RecentCall), cursor: id }] : [];
    });
  }

  override async erase(tenantId: string, isOwn: (call: RecentCall) => boolean, dryRun: boolean): Promise<number> {
    let erased = 0;
    for (const scope of [{ tenantId }, 'fleet'] as const) {
      for (let cursor = '0-0', isLast = false; !isLast;) {
        const calls = await this.read(scope, ERASED_PAGE, cursor);
        isLast = calls.length === 0;
        cursor = calls.at(-1)?.cursor ?? cursor;
        const own = calls.filter(isOwn).map((call) => call.cursor);
        if (own.length > 0 && !dryRun) await this.redis.xdel(streamKey(scope), ...own);
        erased += own.length;
      }
    }
    // A stream whose entries were deleted keeps its name.
    if (!dryRun && (await this.redis.xlen(tenantKey(tenantId))) === 0) await this.redis.unlink(tenantKey(tenantId));
    return erased;
  }
}

const streamKey = (scope: CallScope): string => (scope === 'fleet' ? FLEET_KEY : tenantKey(scope.tenantId));
