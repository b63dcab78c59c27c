import { createHash } from 'node:crypto';
import type { Cluster, Redis } from 'ioredis';
import type { CallResult, CallState, Milliseconds } from '@toolfleet/contracts';
import { parseExact, toExactJson } from '@toolfleet/contracts/json-text';
import type { Clock } from '@toolfleet/resilience';
import {
  DEFAULT_RETENTION,
  GRACE_MS,
  Journal,
  mayFinish,
  resolveKey,
  type Acceptance,
  type JournalEntry,
  type JournalRecord,
  type JournalRequest,
  type JournalRetention,
  type KeyedCall,
  type KeyEntry,
  type KeyHolders,
} from './journal.js';
import { MIN_KEPT_BYTES, omitPayload, readLargeResult, type KeptResults, type LargeResults } from './kept-results.js';
import { ScriptBatch } from './redis-script-batch.js';
import {
  ABANDON,
  ACCEPT,
  AWAIT_INPUT,
  BUMP,
  CLAIM,
  FINISH,
  FREE_KEY,
  READ,
  STATE,
  TAKE_KEY,
  WITHDRAW,
} from './scripts.js';

type JournalRedis = Redis | Cluster;
type JournalScript = (key: string, ...values: (string | number)[]) => Promise<unknown>;

/** Attempts to take an idempotency key while its holder changes. */
const MAX_KEY_ROUNDS = 4;

/**
 * The journal in Redis with an append-only file and `noeviction`. Each move is one script on one key, and the moves that every call makes
 * run together with others of the same turn. A call and its
 * idempotency key are in different slots, so that every script runs on Redis Cluster. The key is taken before the call is entered:
 * a process that dies in between leaves a key that stays `running` until deadline + grace.
 */
export class RedisJournal extends Journal {
  readonly #scripts: Record<
    'abandon' | 'accept' | 'awaitInput' | 'bump' | 'withdraw' | 'read' | 'takeKey' | 'freeKey',
    JournalScript
  >;
  readonly #claims: ScriptBatch;
  readonly #outcomes: ScriptBatch;
  readonly #states: ScriptBatch;

  /**
   * @param results counts stored outcomes against the quota of their tenant
   * @param large stores large outcomes outside Redis
   * @param holders knows which gateways are gone; without it keys are kept until the deadline of their call
   */
  constructor(
    private readonly redis: JournalRedis,
    private readonly clock: Clock,
    private readonly retention: JournalRetention = DEFAULT_RETENTION,
    private readonly results?: KeptResults,
    private readonly large?: LargeResults,
    private readonly holders?: KeyHolders,
  ) {
    super();
    this.#claims = new ScriptBatch(redis, 'journalClaim', CLAIM);
    this.#outcomes = new ScriptBatch(redis, 'journalFinish', FINISH);
    this.#states = new ScriptBatch(redis, 'journalState', STATE);
    this.#scripts = {
      abandon: defineScript(redis, 'journalAbandon', ABANDON),
      accept: defineScript(redis, 'journalAccept', ACCEPT),
      awaitInput: defineScript(redis, 'journalAwaitInput', AWAIT_INPUT),
      bump: defineScript(redis, 'journalBump', BUMP),
      withdraw: defineScript(redis, 'journalWithdraw', WITHDRAW),
      read: defineScript(redis, 'journalRead', READ),
      takeKey: defineScript(redis, 'journalTakeKey', TAKE_KEY),
      freeKey: defineScript(redis, 'journalFreeKey', FREE_KEY),
    };
  }

  override async find(tenantId: string, idempotencyKey: string, fingerprint: string): Promise<KeyedCall> {
    const held = await this.redis.get(keyId(tenantId, idempotencyKey));
    return held === null ? { kind: 'unknown' } : this.#resolve(parseKeyEntry(held), fingerprint);
  }

  override async accept(request: JournalRequest): Promise<Acceptance> {
    const key = request.idempotencyKey === undefined ? '' : keyId(request.tenantId, request.idempotencyKey);
    const keepMs = key === '' ? this.retention.otherMs : this.retention.keyedMs;
    const remainingMs = Math.ceil(request.deadlineAt - this.clock.now());
    if (key !== '') {
      await this.results?.admit(request.tenantId);
      const taken = await this.#takeKey(key, request, remainingMs, keepMs);
      if (taken) return taken;
    }
    const reply = (await this.#scripts.accept(
      callKey(request.callId),
      request.mayHaveBegun ? 1 : 0,
      ...entryArguments({ ...request, remainingMs }, keepMs),
      request.repeatable ? 1 : 0,
      key,
    )) as [CallState, number?];
    const [state, fence] = reply;
    if (fence !== undefined) return { kind: 'accepted', fence: Number(fence) };
    const outcome = (await this.read(request.callId))?.outcome;
    return outcome ? { kind: 'finished', callId: request.callId, outcome } : { kind: 'claimed', state };
  }

  override async claim(callId: string, fence: number, attempt = 1, entry?: JournalEntry): Promise<boolean> {
    const first = entry ? [Math.ceil(entry.deadlineAt), ...this.#entry(entry)] : [];
    return (await this.#claims.run(callKey(callId), fence, attempt, ...first)) === 1;
  }

  override async bump(callId: string, entry?: JournalEntry): Promise<{ fence: number } | { refused: CallState }> {
    const [state, fence] = (await this.#scripts.bump(callKey(callId), ...this.#entry(entry))) as [CallState, number?];
    return fence === undefined ? { refused: state } : { fence: Number(fence) };
  }

  override async finish(
    callId: string,
    fence: number | 'current',
    outcome: CallResult,
    entry?: JournalEntry,
  ): Promise<boolean> {
    const unknown = outcome.failure?.code === 'OUTCOME_UNKNOWN';
    const state = unknown ? 'outcome_unknown' : outcome.ok ? 'succeeded' : 'failed';
    const { text, object } = await this.#serialize(callId, outcome);
    const first = this.#entry(entry);
    const isStored = (await this.#outcomes.run(callKey(callId), fence, state, text, object ?? '', ...first)) === 1;
    if (!isStored && object) await this.large?.delete(object);
    return isStored;
  }

  override async unfinished(callIds: readonly string[]): Promise<ReadonlySet<string>> {
    const states = await Promise.all(callIds.map((callId) => this.#states.run(callKey(callId))));
    return new Set(callIds.filter((_, index) => mayFinish(states[index])));
  }

  /**
   * Serializes an outcome. A large payload moves to the result store and leaves a reference (`object`); one that exceeds the quota
   * of its tenant is dropped.
   */
  async #serialize(callId: string, outcome: CallResult): Promise<{ text: string; object?: string }> {
    const text = toExactJson(outcome);
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

  override async awaitInput(callId: string, withinMs: Milliseconds): Promise<boolean> {
    return (await this.#scripts.awaitInput(callKey(callId), withinMs)) === 1;
  }

  override async withdraw(
    callId: string,
    as: 'cancelled' | 'expired',
    entry?: JournalEntry,
  ): Promise<CallState | undefined> {
    const first = this.#entry(entry);
    const reply = (await this.#scripts.withdraw(callKey(callId), as, ...first)) as [CallState, string, number] | null;
    if (reply === null) return undefined;
    const [state, key, taken] = reply;
    if (taken === 1 && key !== '') await this.#scripts.freeKey(key, callId);
    return state;
  }

  override async read(callId: string): Promise<JournalRecord | undefined> {
    return (await this.#read(callId)).record;
  }

  /** The arguments with which a script enters a call; none for one that was accepted. */
  #entry(entry: JournalEntry | undefined): (string | number)[] {
    return entry ? entryArguments(entry, this.retention.otherMs) : [];
  }

  /** Takes an idempotency key for this call. Resolves to undefined on success, else to the state of the key for a duplicate. */
  async #takeKey(
    key: string,
    request: JournalRequest,
    remainingMs: number,
    keepMs: number,
  ): Promise<Exclude<KeyedCall, { kind: 'unknown' }> | undefined> {
    const { fingerprint = '', callId, moves } = request;
    const holder = moves ? '' : (this.holders?.own ?? '');
    let takeFrom = '';
    for (let round = 1; ; round += 1) {
      const graceMs = remainingMs + GRACE_MS;
      const held = parseKeyEntry(
        String(await this.#scripts.takeKey(key, callId, fingerprint, graceMs, keepMs, takeFrom, holder)),
      );
      if (held.callId === callId) return undefined;
      const known = await this.#resolve(held, fingerprint);
      if (known.kind !== 'unknown') return known;
      if (round >= MAX_KEY_ROUNDS) return { kind: 'running', callId: held.callId, retryAfterMs: 1_000 };
      // Its call has not begun. Once it cannot begin any more, the key is free unless another call takes it first.
      if ((await this.#scripts.abandon(callKey(held.callId), keepMs)) === 1) takeFrom = held.callId;
    }
  }

  async #resolve(entry: KeyEntry, fingerprint: string): Promise<KeyedCall> {
    const { record, now } = await this.#read(entry.callId);
    return resolveKey(entry, record, fingerprint, now, (holder) => this.holders?.isGone(holder) ?? false);
  }

  async #read(callId: string): Promise<{ record: JournalRecord | undefined; now: number }> {
    const [now, state, ...pairs] = (await this.#scripts.read(callKey(callId))) as [string, CallState?, ...string[]];
    if (state === undefined) return { record: undefined, now: Number(now) };
    const fields = new Map<string, string>();
    for (let index = 0; index + 1 < pairs.length; index += 2) fields.set(pairs[index] ?? '', pairs[index + 1] ?? '');
    const record = toRecord(callId, state, fields);
    const object = fields.get('object');
    if (!record.outcome || !object) return { record, now: Number(now) };
    const outcome = await readLargeResult(this.large, record.tenantId, object, record.outcome);
    return { record: { ...record, outcome }, now: Number(now) };
  }
}

function toRecord(callId: string, state: CallState, fields: ReadonlyMap<string, string>): JournalRecord {
  const number = (name: string) => Number(fields.get(name) ?? 0);
  const outcome = fields.get('outcome');
  const deadlineAt = number('deadline_at');
  const overdue = state !== fields.get('state');
  return {
    callId,
    tenantId: fields.get('tenant') ?? '',
    userId: fields.get('user') || undefined,
    maker: fields.get('maker') || undefined,
    tool: fields.get('tool') ?? '',
    repeatable: fields.get('repeatable') === '1',
    state,
    fence: number('fence'),
    attempt: number('attempt'),
    acceptedAt: number('accepted_at'),
    claimedAt: number('claimed_at'),
    endedAt: overdue ? deadlineAt + GRACE_MS : number('ended_at'),
    deadlineAt,
    outcome: outcome === undefined ? undefined : parseExact<CallResult>(outcome).value,
  };
}

function parseKeyEntry(text: string): KeyEntry {
  const [callId = '', fingerprint = '', until = '0', holder = ''] = text.split(' ');
  return { callId, fingerprint, until: Number(until), holder };
}

function entryArguments(
  { remainingMs, tenantId, tool, userId = '', maker = '' }: Omit<JournalEntry, 'deadlineAt'>,
  keepMs: Milliseconds,
): (string | number)[] {
  return [Math.ceil(remainingMs), keepMs, tenantId, tool, userId, maker];
}

function callKey(callId: string): string {
  return `{c:${callId}}`;
}

/** Hashes the key, because it comes from a caller and may have any characters. */
function keyId(tenantId: string, idempotencyKey: string): string {
  return `{i:${createHash('sha256')
    .update(JSON.stringify([tenantId, idempotencyKey]))
    .digest('hex')}}`;
}

/** Registers a script. ioredis sends its hash, and its text only to a server that does not have it. */
function defineScript(redis: JournalRedis, name: string, lua: string): JournalScript {
  redis.defineCommand(name, { numberOfKeys: 1, lua });
  const commands = redis as unknown as Record<string, JournalScript>;
  return (key, ...values) => (commands[name] as JournalScript).call(redis, key, ...values);
}
