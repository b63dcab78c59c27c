import type { CallBody, CallState } from '@toolfleet/contracts';
import type { Redis } from 'ioredis';
import { CallStore, type CallEvent, type NewCallEvent, type StoredCall } from './call-store.js';

/** Progress lines kept of one call; older ones make room. */
const MAX_EVENTS = 1_000;

/** KEYS[1] hash of the call, KEYS[2] its events. ARGV event JSON, TTL s. Returns 0 when the call has ended. */
const BEGIN = `
local state = redis.call('HGET', KEYS[1], 'state')
if state and state ~= 'accepted' and state ~= 'claimed' then return 0 end
if state then redis.call('HSET', KEYS[1], 'state', 'claimed') end
redis.call('XADD', KEYS[2], '*', 'event', ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[2])
return 1`;

/**
 * KEYS[1] hash of the call, KEYS[2] its events. ARGV state, result JSON, event JSON, now ms, TTL s.
 * Returns 1 when this ended the call, 0 when it was over (or never was).
 */
const FINISH = `
local state = redis.call('HGET', KEYS[1], 'state')
if not state or (state ~= 'accepted' and state ~= 'claimed') then return 0 end
redis.call('HSET', KEYS[1], 'state', ARGV[1], 'result', ARGV[2], 'finished_at', ARGV[4])
redis.call('XADD', KEYS[2], '*', 'event', ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[5])
redis.call('EXPIRE', KEYS[2], ARGV[5])
return 1`;

type Script = (record: string, events: string, ...args: string[]) => Promise<number>;

/** Calls as hashes `{call:<id>}:record` and their events as streams beside them, one slot per call on Redis Cluster. */
export class RedisCallStore extends CallStore {
  private readonly redis: Redis & Record<'beginCall' | 'finishCall', Script>;

  constructor(
    redis: Redis,
    private readonly ttlSeconds: number,
    private readonly now: () => number,
  ) {
    super();
    redis.defineCommand('beginCall', { numberOfKeys: 2, lua: BEGIN });
    redis.defineCommand('finishCall', { numberOfKeys: 2, lua: FINISH });
    this.redis = redis as typeof this.redis;
  }

  override async create(call: StoredCall): Promise<void> {
    const key = recordKey(call.callId);
    await this.redis
      .multi()
      .hset(key, {
        tenant: call.tenantId,
        tool: call.tool,
        ...(call.maker === undefined ? {} : { maker: call.maker }),
        state: call.state,
        accepted_at: String(call.acceptedAt),
      })
      .expire(key, this.ttlSeconds)
      .xadd(eventsKey(call.callId), '*', 'event', JSON.stringify({ type: 'accepted' }))
      .expire(eventsKey(call.callId), this.ttlSeconds)
      .exec();
  }

  override async get(callId: string): Promise<StoredCall | null> {
    const stored = await this.redis.hgetall(recordKey(callId));
    if (!stored.tenant || !stored.tool) return null;
    return {
      callId,
      tenantId: stored.tenant,
      tool: stored.tool,
      ...(stored.maker ? { maker: stored.maker } : {}),
      state: stored.state as CallState,
      acceptedAt: Number(stored.accepted_at),
      ...(stored.finished_at ? { finishedAt: Number(stored.finished_at) } : {}),
      ...(stored.result ? { result: JSON.parse(stored.result) as CallBody } : {}),
    };
  }

  override async begin(callId: string): Promise<boolean> {
    const event = JSON.stringify({ type: 'started' } satisfies NewCallEvent);
    return (await this.redis.beginCall(recordKey(callId), eventsKey(callId), event, String(this.ttlSeconds))) === 1;
  }

  override async append(callId: string, event: NewCallEvent): Promise<void> {
    const key = eventsKey(callId);
    await this.redis
      .multi()
      .xadd(key, 'MAXLEN', '~', MAX_EVENTS, '*', 'event', JSON.stringify(event))
      .expire(key, this.ttlSeconds)
      .exec();
  }

  override async events(callId: string, afterId?: string): Promise<CallEvent[]> {
    const entries = await this.redis.xrange(eventsKey(callId), afterId === undefined ? '-' : `(${afterId}`, '+');
    return entries.map(([id, fields]) => ({ id, ...(JSON.parse(fields[1] ?? '{}') as NewCallEvent) }) as CallEvent);
  }

  override async finish(callId: string, state: CallState, result?: CallBody): Promise<boolean> {
    const event: NewCallEvent = { type: 'done', state, ...(result ? { result: withoutContent(result) } : {}) };
    const ended = await this.redis.finishCall(
      recordKey(callId),
      eventsKey(callId),
      state,
      result ? JSON.stringify(result) : '',
      JSON.stringify(event),
      String(this.now()),
      String(this.ttlSeconds),
    );
    return ended === 1;
  }
}

/** Pictures are kept once, in the record. */
function withoutContent({ content, ...body }: CallBody): CallBody {
  return content ? { ...body, metadata: { ...body.metadata, content_blocks: content.length } } : body;
}

const recordKey = (callId: string): string => `{call:${callId}}:record`;
const eventsKey = (callId: string): string => `{call:${callId}}:events`;
