import { readFileSync } from 'node:fs';
import type { CallBody, CallResult, CallState } from '@toolfleet/contracts';
import { callBody } from '@toolfleet/engine';
import { MIN_KEPT_BYTES, type KeptResults } from '@toolfleet/journal';
import type { Redis } from 'ioredis';
import { CallStore, type CallEvent, type NewCallEvent, type StoredCall } from './async-calls.js';

/** Progress lines kept of one call; older ones make room. */
const MAX_EVENTS = 1_000;

const BEGIN_CALL = readFileSync(new URL('../../lua/begin-call.lua', import.meta.url), 'utf8');
const FINISH_CALL = readFileSync(new URL('../../lua/finish-call.lua', import.meta.url), 'utf8');

type Script = (record: string, events: string, ...args: string[]) => Promise<number>;

/** Calls as hashes `{call:<id>}:record` and their events as streams beside them, one slot per call on Redis Cluster. */
export class RedisCallStore extends CallStore {
  private readonly redis: Redis & Record<'beginCall' | 'finishCall', Script>;

  constructor(
    redis: Redis,
    private readonly ttlSeconds: number,
    private readonly now: () => number,
    /** Counts what is kept; without one nothing is counted. */
    private readonly results?: Pick<KeptResults, 'keep'>,
  ) {
    super();
    redis.defineCommand('beginCall', { numberOfKeys: 2, lua: BEGIN_CALL });
    redis.defineCommand('finishCall', { numberOfKeys: 2, lua: FINISH_CALL });
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
      ...(stored.result ? { result: await this.#whole(callId, JSON.parse(stored.result) as StoredBody) } : {}),
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
    const events = entries.map(
      ([id, fields]) => ({ id, ...(JSON.parse(fields[1] ?? '{}') as NewCallEvent) }) as CallEvent,
    );
    return Promise.all(
      events.map(async (event) => {
        if (event.type !== 'done' || event.result) return event;
        const result = (await this.get(callId))?.result;
        return result ? { ...event, result: withoutContent(result) } : event;
      }),
    );
  }

  override async finish(callId: string, state: CallState, result?: CallBody): Promise<boolean> {
    const event: NewCallEvent = { type: 'done', state };
    const stored = result ? await this.#kept(callId, result) : { text: '', movesOutcome: false };
    const ended = await this.redis.finishCall(
      recordKey(callId),
      eventsKey(callId),
      state,
      stored.text,
      JSON.stringify(event),
      String(this.now()),
      String(this.ttlSeconds),
    );
    if (ended === 1 && stored.movesOutcome) await this.redis.hdel(journalKey(callId), 'outcome');
    return ended === 1;
  }

  /**
   * The body as the record has it, so that a result is kept once. The journal keeps the outcome of a call with an idempotency
   * key for replays: then the record only points there. The outcome of any other call moves from the journal to its record.
   */
  async #kept(callId: string, body: CallBody): Promise<{ text: string; movesOutcome: boolean }> {
    const text = JSON.stringify(body);
    if (text.length < MIN_KEPT_BYTES) return { text, movesOutcome: false };
    const [key, hasOutcome] = await Promise.all([
      this.redis.hget(journalKey(callId), 'key'),
      this.redis.hexists(journalKey(callId), 'outcome'),
    ]);
    if (hasOutcome === 1 && key && body.metadata['fallback'] === undefined) {
      return { text: JSON.stringify({ ...withoutPayload(body), payload: 'journal' }), movesOutcome: false };
    }
    const movesOutcome = hasOutcome === 1 && !key;
    const tenantId = await this.redis.hget(recordKey(callId), 'tenant');
    if (!this.results || tenantId === null) return { text, movesOutcome };
    const bytes = Buffer.byteLength(text);
    const ttlMs = this.ttlSeconds * 1_000;
    if (await this.results.keep({ tenantId, ref: callId, bytes, keyed: false, ttlMs })) return { text, movesOutcome };
    const result_omitted = { bytes, reason: 'quota' };
    const small = withoutPayload({ ...body, metadata: { ...body.metadata, result_omitted } });
    return { text: JSON.stringify(small), movesOutcome };
  }

  /** The body with the payload that lies in the journal. */
  async #whole(callId: string, { payload, ...body }: StoredBody): Promise<CallBody> {
    if (payload === undefined) return body;
    const outcome = await this.redis.hget(journalKey(callId), 'outcome');
    if (outcome === null) return { ...body, metadata: { ...body.metadata, result_omitted: { reason: 'expired' } } };
    const { output, text, content } = callBody(callId, JSON.parse(outcome) as CallResult, 0);
    return { ...body, output, text, ...(content ? { content } : {}) };
  }
}

/** A body in a record. `journal`: output, text and content are those of the outcome in the journal. */
type StoredBody = CallBody & { payload?: 'journal' };

function withoutPayload({ content: _content, ...body }: CallBody): CallBody {
  return { ...body, output: null, text: '' };
}

/** Pictures are in the record, not in its events. */
function withoutContent({ content, ...body }: CallBody): CallBody {
  return content ? { ...body, metadata: { ...body.metadata, content_blocks: content.length } } : body;
}

/** Key of the call in the journal (libs/journal). */
const journalKey = (callId: string): string => `{c:${callId}}`;
const recordKey = (callId: string): string => `{call:${callId}}:record`;
const eventsKey = (callId: string): string => `{call:${callId}}:events`;
