import { createHash } from 'node:crypto';
import type { Cluster, Redis } from 'ioredis';
import type { CallResult, CallState } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import {
  DEFAULT_RETENTION,
  Journal,
  type Acceptance,
  type JournalRequest,
  type JournalRetention,
  type KeyedCall,
} from './journal.js';
import { KeptResults, MIN_KEPT_BYTES } from './kept-results.js';
import { omitPayload, readLargeResult, type LargeResults } from './large-results.js';
import { keyedCall, type KeyEntry } from './keyed-call.js';
import { ACCEPT, BUMP, CLAIM, FINISH, FREE_KEY, READ, TAKE_KEY, WITHDRAW } from './scripts.js';
import { GRACE_MS, type JournalRecord } from './states.js';

/** A connection that can run scripts. */
export type JournalRedis = Redis | Cluster;

type Script = (key: string, ...values: (string | number)[]) => Promise<unknown>;

/** How often a key is tried again when its holder changes under our hands. */
const KEY_ROUNDS = 4;

/**
 * Journal in Redis (append-only file on, `noeviction`). Each move is one script on one key; call and idempotency key live in
 * slots of their own, so every script runs on Redis Cluster. The key is taken before the call is entered: a process that
 * dies in between leaves a key that stays "running" until deadline + grace.
 */
export class RedisJournal extends Journal {
  readonly #scripts: Record<
    'accept' | 'claim' | 'bump' | 'finish' | 'withdraw' | 'read' | 'takeKey' | 'freeKey',
    Script
  >;

  constructor(
    private readonly redis: JournalRedis,
    private readonly clock: Clock,
    private readonly retention: JournalRetention = DEFAULT_RETENTION,
    /** Counts what is kept; without one nothing is counted. */
    private readonly results?: KeptResults,
    /** Keeps large outcomes; without one all are kept in Redis. */
    private readonly large?: LargeResults,
  ) {
    super();
    this.#scripts = {
      accept: script(redis, 'journalAccept', ACCEPT),
      claim: script(redis, 'journalClaim', CLAIM),
      bump: script(redis, 'journalBump', BUMP),
      finish: script(redis, 'journalFinish', FINISH),
      withdraw: script(redis, 'journalWithdraw', WITHDRAW),
      read: script(redis, 'journalRead', READ),
      takeKey: script(redis, 'journalTakeKey', TAKE_KEY),
      freeKey: script(redis, 'journalFreeKey', FREE_KEY),
    };
  }

  override async find(tenantId: string, idempotencyKey: string, fingerprint: string): Promise<KeyedCall> {
    const held = await this.redis.get(keyOf(tenantId, idempotencyKey));
    return held === null ? { kind: 'unknown' } : this.#look(entryOf(held), fingerprint);
  }

  override async accept(ask: JournalRequest): Promise<Acceptance> {
    const key = ask.idempotencyKey === undefined ? '' : keyOf(ask.tenantId, ask.idempotencyKey);
    const keepMs = key === '' ? this.retention.otherMs : this.retention.keyedMs;
    const remainingMs = Math.ceil(ask.deadlineAt - this.clock.now());
    if (key !== '') {
      await this.results?.admit(ask.tenantId);
      const taken = await this.#takeKey(key, ask, remainingMs, keepMs);
      if (taken) return taken;
    }
    const reply = (await this.#scripts.accept(
      callKey(ask.callId),
      remainingMs,
      ask.repeatable ? 1 : 0,
      ask.tenantId,
      ask.tool,
      key,
      keepMs,
      ask.mayHaveBegun ? 1 : 0,
    )) as [CallState, number?];
    const [state, fence] = reply;
    if (fence !== undefined) return { kind: 'accepted', fence: Number(fence) };
    const outcome = (await this.read(ask.callId))?.outcome;
    return outcome ? { kind: 'finished', callId: ask.callId, outcome } : { kind: 'claimed', state };
  }

  override async claim(callId: string, fence: number, attempt = 1): Promise<boolean> {
    return (await this.#scripts.claim(callKey(callId), fence, attempt)) === 1;
  }

  override async bump(callId: string): Promise<{ fence: number } | { refused: CallState }> {
    const [state, fence] = (await this.#scripts.bump(callKey(callId))) as [CallState, number?];
    return fence === undefined ? { refused: state } : { fence: Number(fence) };
  }

  override async finish(callId: string, fence: number | 'current', outcome: CallResult): Promise<boolean> {
    const unknown = outcome.failure?.code === 'OUTCOME_UNKNOWN';
    const state = unknown ? 'outcome_unknown' : outcome.ok ? 'succeeded' : 'failed';
    const { text, object } = await this.#kept(callId, outcome);
    const isStored = (await this.#scripts.finish(callKey(callId), fence, state, text, object ?? '')) === 1;
    if (!isStored && object) await this.large?.delete(object);
    return isStored;
  }

  /**
   * The outcome as it is stored: without its payload where that is in the result store, with the reference, or where the quota
   * of the tenant has no room for it.
   */
  async #kept(callId: string, outcome: CallResult): Promise<{ text: string; object?: string }> {
    const text = JSON.stringify(outcome);
    if (!this.results || text.length < MIN_KEPT_BYTES) return { text };
    const [tenantId, key] = await this.redis.hmget(callKey(callId), 'tenant', 'key');
    if (tenantId === null || tenantId === undefined) return { text };
    const keyed = key !== '' && key !== null && key !== undefined;
    const ttlMs = keyed ? this.retention.keyedMs : this.retention.otherMs;
    const bytes = Buffer.byteLength(text);
    const fits = await this.results.keep({ tenantId, ref: callId, bytes, keyed, ttlMs });
    if (!fits) return { text: JSON.stringify(omitPayload(outcome, { bytes, reason: 'quota' })) };
    const leftMs = await this.redis.pttl(callKey(callId));
    const object = await this.large?.put(tenantId, text, Math.max(ttlMs, leftMs));
    if (object === undefined) return { text };
    return { text: JSON.stringify(omitPayload(outcome, { bytes, reason: 'result_store' })), object };
  }

  override async withdraw(callId: string, as: 'cancelled' | 'expired'): Promise<CallState | undefined> {
    const reply = (await this.#scripts.withdraw(callKey(callId), as)) as [CallState, string, number] | null;
    if (reply === null) return undefined;
    const [state, key, taken] = reply;
    if (taken === 1 && key !== '') await this.#scripts.freeKey(key, callId);
    return state;
  }

  override async read(callId: string): Promise<JournalRecord | undefined> {
    return (await this.#read(callId)).record;
  }

  /** Undefined once the key is this call's; else what its holder's duplicates are told. */
  async #takeKey(
    key: string,
    ask: JournalRequest,
    remainingMs: number,
    keepMs: number,
  ): Promise<KeyedCallAnswer | undefined> {
    const fingerprint = ask.fingerprint ?? '';
    let takeFrom = '';
    for (let round = 1; ; round += 1) {
      const graceMs = remainingMs + GRACE_MS;
      const held = entryOf(
        String(await this.#scripts.takeKey(key, ask.callId, fingerprint, graceMs, keepMs, takeFrom)),
      );
      if (held.callId === ask.callId) return undefined;
      const known = await this.#look(held, fingerprint);
      if (known.kind !== 'unknown') return known;
      if (round >= KEY_ROUNDS) return { kind: 'running', callId: held.callId, retryAfterMs: 1_000 };
      takeFrom = held.callId; // its call never began: the key is free, unless somebody else takes it first
    }
  }

  async #look(entry: KeyEntry, fingerprint: string): Promise<KeyedCall> {
    const { record, now } = await this.#read(entry.callId);
    return keyedCall(entry, record, fingerprint, now);
  }

  async #read(callId: string): Promise<{ record: JournalRecord | undefined; now: number }> {
    const [now, state, ...pairs] = (await this.#scripts.read(callKey(callId))) as [string, CallState?, ...string[]];
    if (state === undefined) return { record: undefined, now: Number(now) };
    const fields = new Map<string, string>();
    for (let index = 0; index + 1 < pairs.length; index += 2) fields.set(pairs[index] ?? '', pairs[index + 1] ?? '');
    const record = recordOf(callId, state, fields);
    const object = fields.get('object');
    if (!record.outcome || !object) return { record, now: Number(now) };
    const outcome = await readLargeResult(this.large, record.tenantId, object, record.outcome);
    return { record: { ...record, outcome }, now: Number(now) };
  }
}

type KeyedCallAnswer = Exclude<KeyedCall, { kind: 'unknown' }>;

function recordOf(callId: string, state: CallState, fields: ReadonlyMap<string, string>): JournalRecord {
  const number = (name: string) => Number(fields.get(name) ?? 0);
  const outcome = fields.get('outcome');
  const deadlineAt = number('deadline_at');
  const overdue = state !== fields.get('state');
  return {
    callId,
    tenantId: fields.get('tenant') ?? '',
    tool: fields.get('tool') ?? '',
    repeatable: fields.get('repeatable') === '1',
    state,
    fence: number('fence'),
    attempt: number('attempt'),
    acceptedAt: number('accepted_at'),
    claimedAt: number('claimed_at'),
    endedAt: overdue ? deadlineAt + GRACE_MS : number('ended_at'),
    deadlineAt,
    ...(outcome === undefined ? {} : { outcome: JSON.parse(outcome) as CallResult }),
  };
}

function entryOf(text: string): KeyEntry {
  const [callId = '', fingerprint = '', until = '0'] = text.split(' ');
  return { callId, fingerprint, until: Number(until) };
}

function callKey(callId: string): string {
  return `{c:${callId}}`;
}

/** Keys come from callers: hashed, so that their length and characters do not matter. */
function keyOf(tenantId: string, idempotencyKey: string): string {
  return `{i:${createHash('sha256')
    .update(JSON.stringify([tenantId, idempotencyKey]))
    .digest('hex')}}`;
}

/** Registers a script; ioredis sends its hash, and the text only to a server that does not know it. */
function script(redis: JournalRedis, name: string, lua: string): Script {
  redis.defineCommand(name, { numberOfKeys: 1, lua });
  const commands = redis as unknown as Record<string, Script>;
  return (key, ...values) => (commands[name] as Script).call(redis, key, ...values);
}
