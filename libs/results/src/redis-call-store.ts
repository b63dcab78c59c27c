import { readFileSync } from 'node:fs';
import {
  isOwnOutcome,
  type CallBody,
  type CallEvent,
  type CallResult,
  type CallState,
  type EpochMs,
  jsonObject,
  type JsonObject,
  type ServerTask,
} from '@toolfleet/contracts';
import { mayBeInexact, parseExact, toExactJson } from '@toolfleet/contracts/json-text';
import { QUEUE_PREFIX } from '@toolfleet/contracts/subjects';
import { callBody } from '@toolfleet/engine';
import { MIN_KEPT_BYTES, readLargeResult, type KeptResults, type LargeResults } from '@toolfleet/journal';
import { defineScript, type Script } from '@toolfleet/queue/redis';
import type { Redis } from 'ioredis';
import { BODY_REF } from './redis-kept-results.js';
import { isFinal, type NewCallEvent, type AcceptedCall } from './call-store.js';

/** Events kept per call; older ones are dropped. */
const MAX_EVENTS = 1_000;
/** Smaller results are parsed within a millisecond. */
const SMALL_BYTES = 64 * 1024;
/** End of a stored body without its payload, see `StoredBody`. */
const PAYLOAD_IN_JOURNAL = Buffer.from('"payload":"journal"}');

const BEGIN_CALL = readFileSync(new URL('../lua/begin-call.lua', import.meta.url), 'utf8');
const ENTER_CALL = readFileSync(new URL('../lua/enter-call.lua', import.meta.url), 'utf8');
const FINISH_CALL = readFileSync(new URL('../lua/finish-call.lua', import.meta.url), 'utf8');

/**
 * Calls as hashes `{call:<id>}:record`, their events as streams `{call:<id>}:events`, and the answered questions of their tasks as sets
 * `{call:<id>}:answers`; one slot per call on Redis Cluster.
 */
export class RedisCallStore {
  readonly #begin: Script<number>;
  readonly #enter: Script<number>;
  readonly #finish: Script<number>;

  constructor(
    private readonly redis: Redis,
    private readonly ttlSeconds: number,
    private readonly now: () => number,
    /** Counts kept results; without one nothing is counted. */
    private readonly results?: Pick<KeptResults, 'keep'>,
    /** Keeps large results; without one all are kept in Redis. */
    private readonly large?: LargeResults,
  ) {
    this.#begin = defineScript(redis, 'beginCall', 2, BEGIN_CALL);
    this.#enter = defineScript(redis, 'enterCall', 2, ENTER_CALL);
    this.#finish = defineScript(redis, 'finishCall', 2, FINISH_CALL);
  }

  /** Stores a new call. */
  async create(call: AcceptedCall): Promise<void> {
    const key = recordKey(call.callId);
    const stored = this.redis
      .multi()
      .hset(key, { ...fieldsOf(call), state: call.state })
      .expire(key, this.ttlSeconds)
      .xadd(eventsKey(call.callId), '*', 'event', JSON.stringify({ type: 'accepted' }))
      .expire(eventsKey(call.callId), this.ttlSeconds)
      .exec();
    await Promise.all([this.#noteOpen(call), stored]);
  }

  /**
   * Stores a call that may be stored already: one that waits for an approval, or that was approved and waits for a worker. A program that
   * runs may wait again, for an approval with another job.
   * @param ttlSeconds how long it is kept if nothing else happens to it; default as for every call
   * @returns false when it is stored in this state or a later one
   */
  async enter(call: AcceptedCall, ttlSeconds = this.ttlSeconds): Promise<boolean> {
    if (call.deadlineAt === undefined) await this.redis.zrem(OPEN_CALLS, call.callId);
    await this.#noteOpen(call);
    const event = call.state === 'accepted' ? JSON.stringify({ type: 'accepted' } satisfies NewCallEvent) : '';
    const fields = Object.entries(fieldsOf(call)).flat();
    const [record, events] = [recordKey(call.callId), eventsKey(call.callId)];
    const values = [call.state, String(ttlSeconds), event, call.jobId ?? '', ...fields];
    return (await this.#enter(record, events, ...values)) === 1;
  }

  /** Lets `overdue` find a call that has a deadline. */
  async #noteOpen({ callId, deadlineAt }: AcceptedCall): Promise<void> {
    if (deadlineAt !== undefined) await this.redis.zadd(OPEN_CALLS, deadlineAt, callId);
  }

  /** The call of this id, of any tenant; null if there is none. */
  async get(callId: string): Promise<AcceptedCall | null> {
    const call = await this.getText(callId);
    if (!call?.resultText) return call;
    const { resultText, ...rest } = call;
    return { ...rest, result: parseExact<CallBody>(resultText.toString()).value };
  }

  /** Like `get`, but a large result stays text: it is sent on without being parsed (10 ms for each megabyte). */
  async getText(callId: string): Promise<AcceptedCall | null> {
    const values = await this.redis.hmgetBuffer(recordKey(callId), 'result', 'object', 'arguments', ...STATE_FIELDS);
    const [result, object, args, ...state] = values;
    const texts = [args, ...state].map((value) => value?.toString());
    const call = toStoredCall(callId, zip(['arguments', ...STATE_FIELDS], texts));
    if (call?.task) call.task.requests = await this.#unanswered(callId, call.task.requests);
    if (!call || !result) return call;
    const isWhole = !object && !result.subarray(-PAYLOAD_IN_JOURNAL.length).equals(PAYLOAD_IN_JOURNAL);
    // Callers get large integers as strings: such a result is parsed.
    if (isWhole && result.length > SMALL_BYTES && !mayBeInexact(result.toString('latin1')))
      return { ...call, resultText: result };
    return { ...call, result: await this.#whole(callId, call.tenantId, result.toString(), object?.toString()) };
  }

  /** The questions of a task that were not answered since it was reported. */
  async #unanswered(callId: string, requests: JsonObject): Promise<JsonObject> {
    const open = { ...requests };
    if (Object.keys(open).length > 0)
      for (const name of await this.redis.smembers(answersKey(callId))) delete open[name];
    return open;
  }

  /** Like `get`, without the result (may be megabytes). */
  async getState(callId: string): Promise<AcceptedCall | null> {
    const values = await this.redis.hmget(recordKey(callId), ...STATE_FIELDS);
    return toStoredCall(callId, zip(STATE_FIELDS, values));
  }

  /** Open calls after their deadline at `now`, at most so many. */
  async overdue(now: EpochMs, most: number): Promise<AcceptedCall[]> {
    const ids = await this.redis.zrangebyscore(OPEN_CALLS, '-inf', now, 'LIMIT', 0, most);
    const calls = await Promise.all(ids.map((callId) => this.getState(callId)));
    const open = calls.filter((call) => call !== null && !isFinal(call.state)) as AcceptedCall[];
    const ended = new Set(ids).difference(new Set(open.map(({ callId }) => callId)));
    if (ended.size > 0) await this.redis.zrem(OPEN_CALLS, ...ended);
    return open;
  }

  /**
   * Notes that a worker has begun.
   * @returns false if the call has ended: its job was delivered again because the queue missed that end
   */
  async begin(callId: string): Promise<boolean> {
    const event = JSON.stringify({ type: 'started' } satisfies NewCallEvent);
    return (await this.#begin(recordKey(callId), eventsKey(callId), event, String(this.ttlSeconds))) === 1;
  }

  async append(callId: string, event: NewCallEvent): Promise<void> {
    const key = eventsKey(callId);
    await this.redis
      .multi()
      .xadd(key, 'MAXLEN', '~', MAX_EVENTS, '*', 'event', JSON.stringify(event))
      .expire(key, this.ttlSeconds)
      .exec();
  }

  /** Stores facts that appear while a call runs. A question that a task no longer asks may be asked, and answered, again. */
  async note(callId: string, { task, rpcCode }: Pick<AcceptedCall, 'task' | 'rpcCode'>): Promise<void> {
    const key = recordKey(callId);
    const changes = this.redis.multi();
    if (rpcCode !== undefined) changes.hset(key, 'rpc_code', String(rpcCode));
    if (task) {
      const answered = await this.redis.smembers(answersKey(callId));
      const ended = answered.filter((name) => task.requests[name] === undefined);
      changes.hset(key, 'task', JSON.stringify(task));
      if (ended.length > 0) changes.srem(answersKey(callId), ...ended);
    }
    await changes.expire(key, this.ttlSeconds).exec();
  }

  /** Notes that questions of the task of a call were answered, by their keys. */
  async noteAnswers(callId: string, keys: readonly string[]): Promise<void> {
    const key = answersKey(callId);
    await this.redis
      .multi()
      .sadd(key, ...keys)
      .expire(key, this.ttlSeconds)
      .exec();
  }

  /** Events after `afterId`, oldest first. */
  async events(callId: string, afterId?: string): Promise<CallEvent[]> {
    const entries = await this.redis.xrange(eventsKey(callId), afterId === undefined ? '-' : `(${afterId}`, '+');
    const events = entries.map(
      ([id, fields]) => ({ id, ...(JSON.parse(fields[1] ?? '{}') as NewCallEvent) }) as CallEvent,
    );
    return Promise.all(
      events.map(async (event) => {
        if (event.type !== 'done' || event.result) return event;
        const result = (await this.get(callId))?.result;
        return result ? { ...event, result } : event;
      }),
    );
  }

  /** Ends a call; the first end stays. @returns whether this was the first */
  async finish(callId: string, state: CallState, result?: CallBody): Promise<boolean> {
    const event: NewCallEvent = { type: 'done', state };
    const stored: StoredResult = result ? await this.#kept(callId, result) : { text: '', movesOutcome: false };
    const ended = await this.#finish(
      recordKey(callId),
      eventsKey(callId),
      state,
      stored.text,
      JSON.stringify(event),
      String(this.now()),
      String(this.ttlSeconds),
      stored.object ?? '',
    );
    // One that stays is removed when it is due.
    this.redis.zrem(OPEN_CALLS, callId).catch(() => undefined);
    if (ended !== 1 && stored.object) await this.large?.delete(stored.object);
    if (ended === 1 && stored.movesOutcome) {
      const object = await this.redis.hget(journalKey(callId), 'object');
      await this.redis.hdel(journalKey(callId), 'outcome', 'object');
      if (object !== null) await this.large?.delete(object);
    }
    return ended === 1;
  }

  /**
   * The body as stored in the record, so that each result is stored once. The journal keeps the outcome of a call with an
   * idempotency key for replays, and the record refers to it. The outcome of any other call moves from the journal to the record.
   */
  async #kept(callId: string, body: CallBody): Promise<StoredResult> {
    const text = toExactJson(body);
    if (text.length < MIN_KEPT_BYTES) return { text, movesOutcome: false };
    const [key, hasOutcome] = await Promise.all([
      this.redis.hget(journalKey(callId), 'key'),
      this.redis.hexists(journalKey(callId), 'outcome'),
    ]);
    // The journal has the outcome of the tool itself, without substitutes, explanations of failures and selections.
    if (hasOutcome === 1 && key && isOwnOutcome(body)) {
      return { text: JSON.stringify({ ...withoutPayload(body), payload: 'journal' }), movesOutcome: false };
    }
    const movesOutcome = hasOutcome === 1 && !key;
    const tenantId = await this.redis.hget(recordKey(callId), 'tenant');
    if (!this.results || tenantId === null) return { text, movesOutcome };
    const bytes = Buffer.byteLength(text);
    const ttlMs = this.ttlSeconds * 1_000;
    const ref = hasOutcome === 1 && key ? `${callId}${BODY_REF}` : callId;
    const fits = await this.results.keep({ tenantId, ref, bytes, keyed: false, ttlMs });
    const object = fits ? await this.large?.put(tenantId, text, ttlMs) : undefined;
    if (fits && object === undefined) return { text, movesOutcome };
    const result_omitted = { bytes, reason: fits ? 'result_store' : 'quota' };
    const small = withoutPayload({ ...body, metadata: { ...body.metadata, result_omitted } });
    return { text: JSON.stringify(small), movesOutcome, object };
  }

  /** The body with the payload that is in the journal or in the result store. */
  async #whole(callId: string, tenantId: string, result: string, object: string | undefined): Promise<CallBody> {
    const { payload, ...body } = parseExact<StoredBody>(result).value;
    if (object) return readLargeResult(this.large, tenantId, object, body);
    if (payload === undefined) return body;
    const [stored, reference] = await this.redis.hmget(journalKey(callId), 'outcome', 'object');
    if (!stored) return { ...body, metadata: { ...body.metadata, result_omitted: { reason: 'expired' } } };
    let outcome = parseExact<CallResult>(stored).value;
    if (reference) outcome = await readLargeResult(this.large, tenantId, reference, outcome);
    const { output, text, content, metadata } = callBody(callId, outcome, 0);
    const { result_omitted } = metadata;
    return {
      ...body,
      output,
      text,
      content,
      metadata: jsonObject({ ...body.metadata, result_omitted }),
    };
  }
}

/** The fields of a new record besides its state. Redis would store the text 'undefined'. */
const fieldsOf = (call: AcceptedCall): Record<string, string | number> => {
  const fields = {
    tenant: call.tenantId,
    tool: call.tool,
    maker: call.maker,
    session: call.session,
    entry_point: call.entryPoint,
    arguments: call.arguments && toExactJson(call.arguments),
    user: call.userId ?? '',
    accepted_at: call.acceptedAt,
    deadline_at: call.deadlineAt,
    job: call.jobId,
  };
  return jsonObject(fields) as Record<string, string | number>;
};

/** Fields of a record without its result. */
const STATE_FIELDS = [
  'tenant',
  'tool',
  'user',
  'maker',
  'session',
  'entry_point',
  'state',
  'accepted_at',
  'deadline_at',
  'finished_at',
  'task',
  'rpc_code',
  'job',
] as const;

const zip = (names: readonly string[], values: readonly (string | null | undefined)[]) =>
  Object.fromEntries(names.map((name, index) => [name, values[index] ?? undefined]));

function toStoredCall(callId: string, stored: Readonly<Record<string, string | undefined>>): AcceptedCall | null {
  const { tenant, tool, user, maker, session, arguments: args, state, accepted_at, deadline_at, finished_at } = stored;
  if (!tenant || !tool) return null;
  return {
    task: stored['task'] ? (JSON.parse(stored['task']) as ServerTask) : undefined,
    jobId: stored['job'] || undefined,
    rpcCode: stored['rpc_code'] ? Number(stored['rpc_code']) : undefined,
    callId,
    tenantId: tenant,
    tool,
    userId: user || undefined,
    maker: maker || undefined,
    session: session || undefined,
    entryPoint: stored['entry_point'] || undefined,
    arguments: args ? parseExact<JsonObject>(args).value : undefined,
    state: state as CallState,
    acceptedAt: Number(accepted_at),
    deadlineAt: deadline_at ? Number(deadline_at) : undefined,
    finishedAt: finished_at ? Number(finished_at) : undefined,
  };
}

/** Parts of a body in a record: its JSON, and the reference of a result that is in the result store. */
interface StoredResult {
  text: string;
  movesOutcome: boolean;
  object?: string;
}

/** A body in a record. `journal`, always its last field: output, text and content are the journal's. */
type StoredBody = CallBody & { payload?: 'journal' };

function withoutPayload({ content: _content, ...body }: CallBody): CallBody {
  return { ...body, output: null, text: '' };
}

/** Key of the call in the journal (libs/journal). */
const journalKey = (callId: string): string => `{c:${callId}}`;
/** Ids of open calls by their deadline. */
const OPEN_CALLS = `${QUEUE_PREFIX}:calls:open`;
const recordKey = (callId: string): string => `{call:${callId}}:record`;
/** Keys of the questions of a followed task that were answered. */
const answersKey = (callId: string): string => `{call:${callId}}:answers`;
const eventsKey = (callId: string): string => `{call:${callId}}:events`;
