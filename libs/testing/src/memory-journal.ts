import type { CallResult, CallState, EpochMs, Milliseconds } from '@toolfleet/contracts';
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
} from '@toolfleet/journal';

/**
 * The journal of one process, for tests. The moves below are pure functions and the model that the Lua scripts of libs/journal are
 * compared with.
 */
export class MemoryJournal extends Journal {
  readonly #records = new Map<string, { record: JournalRecord; key: string | undefined; forgetAt: number }>();
  readonly #keys = new Map<string, KeyEntry>();

  constructor(
    private readonly clock: Clock,
    private readonly retention: JournalRetention = DEFAULT_RETENTION,
  ) {
    super();
  }

  override find(tenantId: string, idempotencyKey: string, fingerprint: string): Promise<KeyedCall> {
    this.#forget();
    return Promise.resolve(this.#look(keyId(tenantId, idempotencyKey), fingerprint));
  }

  override accept(request: JournalRequest): Promise<Acceptance> {
    this.#forget();
    const now = this.clock.now();
    const key = request.idempotencyKey === undefined ? undefined : keyId(request.tenantId, request.idempotencyKey);
    const holder = key === undefined ? undefined : this.#keys.get(key);
    if (key !== undefined && holder?.callId !== request.callId) {
      const known = this.#look(key, request.fingerprint ?? '');
      if (known.kind !== 'unknown') return Promise.resolve(known);
    }
    const existing = this.#records.get(request.callId);
    const move: Move = existing
      ? reopened(existing.record, now, request.deadlineAt)
      : { ok: true, record: opened(request, now) };
    if (!move.ok) return Promise.resolve(this.#again(request.callId, move.state));
    if (key !== undefined) {
      this.#keys.set(key, {
        callId: request.callId,
        fingerprint: request.fingerprint ?? '',
        until: request.deadlineAt + GRACE_MS,
        holder: '',
      });
    }
    const keepMs = key === undefined ? this.retention.otherMs : this.retention.keyedMs;
    this.#records.set(request.callId, {
      record: move.record,
      key,
      forgetAt: Math.max(now, request.deadlineAt) + keepMs,
    });
    const { state, fence } = move.record;
    return Promise.resolve(state === 'accepted' ? { kind: 'accepted', fence } : { kind: 'claimed', state });
  }

  override claim(callId: string, fence: number, attempt = 1, entry?: JournalEntry): Promise<boolean> {
    if (entry && fence === 1 && this.clock.now() <= entry.deadlineAt + GRACE_MS) this.#enter(callId, entry);
    const moved = this.#move(callId, (record, now) => claimed(record, fence, attempt, now));
    return Promise.resolve(moved?.ok === true);
  }

  override bump(callId: string, entry?: JournalEntry): Promise<{ fence: number } | { refused: CallState }> {
    this.#enter(callId, entry);
    const moved = this.#move(callId, raised);
    if (moved?.ok) return Promise.resolve({ fence: moved.record.fence });
    return Promise.resolve({ refused: moved?.state ?? 'expired' });
  }

  override finish(
    callId: string,
    fence: number | 'current',
    outcome: CallResult,
    entry?: JournalEntry,
  ): Promise<boolean> {
    this.#enter(callId, entry);
    return Promise.resolve(this.#move(callId, (record, now) => finishedWith(record, fence, outcome, now))?.ok === true);
  }

  override awaitInput(callId: string, withinMs: Milliseconds): Promise<boolean> {
    return Promise.resolve(this.#move(callId, (record, now) => awaitingInput(record, now + withinMs))?.ok === true);
  }

  override unfinished(callIds: readonly string[]): Promise<ReadonlySet<string>> {
    this.#forget();
    return Promise.resolve(new Set(callIds.filter((callId) => mayFinish(this.#records.get(callId)?.record.state))));
  }

  override withdraw(callId: string, as: 'cancelled' | 'expired', entry?: JournalEntry): Promise<CallState | undefined> {
    this.#enter(callId, entry);
    const moved = this.#move(callId, (record, now) => withdrawn(record, as, now));
    if (!moved?.ok) return Promise.resolve(moved?.state);
    const key = this.#records.get(callId)?.key;
    if (key !== undefined && this.#keys.get(key)?.callId === callId) this.#keys.delete(key);
    return Promise.resolve(as);
  }

  override read(callId: string): Promise<JournalRecord | undefined> {
    this.#forget();
    const known = this.#records.get(callId);
    return Promise.resolve(known && seenAt(known.record, this.clock.now()));
  }

  #enter(callId: string, entry: JournalEntry | undefined): void {
    this.#forget();
    if (!entry || this.#records.has(callId)) return;
    const now = this.clock.now();
    const deadlineAt = now + entry.remainingMs;
    const record = opened({ ...entry, callId, deadlineAt, repeatable: false }, now);
    const forgetAt = Math.max(now, deadlineAt) + this.retention.otherMs;
    this.#records.set(callId, { record, key: undefined, forgetAt });
  }

  #move(callId: string, move: (record: JournalRecord, now: number) => Move): Move | undefined {
    this.#forget();
    const known = this.#records.get(callId);
    if (!known) return undefined;
    const moved = move(known.record, this.clock.now());
    if (moved.ok) known.record = moved.record;
    return moved;
  }

  #look(key: string, fingerprint: string): KeyedCall {
    const entry = this.#keys.get(key);
    const record = entry && this.#records.get(entry.callId)?.record;
    const now = this.clock.now();
    return resolveKey(entry, record && seenAt(record, now), fingerprint, now);
  }

  #again(callId: string, state: CallState): Acceptance {
    const outcome = this.#records.get(callId)?.record.outcome;
    return outcome ? { kind: 'finished', callId, outcome } : { kind: 'claimed', state };
  }

  #forget(): void {
    const now = this.clock.now();
    for (const [callId, { key, forgetAt }] of this.#records) {
      if (forgetAt > now) continue;
      this.#records.delete(callId);
      if (key !== undefined && this.#keys.get(key)?.callId === callId) this.#keys.delete(key);
    }
  }
}

function keyId(tenantId: string, idempotencyKey: string): string {
  return JSON.stringify([tenantId, idempotencyKey]);
}

/** The result of a move: the next record, or the state that forbids it. */
export type Move = { ok: true; record: JournalRecord } | { ok: false; state: CallState };

/** A call enters. One that may have begun before has lost its record: unless it is repeatable, its outcome is unknown. */
export function opened(
  request: Pick<JournalRecord, 'callId' | 'tenantId' | 'userId' | 'maker' | 'tool' | 'repeatable' | 'deadlineAt'> & {
    mayHaveBegun?: boolean;
  },
  now: EpochMs,
): JournalRecord {
  const { callId, tenantId, userId, maker, tool, repeatable, deadlineAt, mayHaveBegun = false } = request;
  const isLost = mayHaveBegun && !repeatable;
  const state = isLost ? 'outcome_unknown' : 'accepted';
  const endedAt = isLost ? now : 0;
  const instants = { acceptedAt: now, claimedAt: 0, endedAt, deadlineAt };
  return { callId, tenantId, userId, maker, tool, repeatable, state, fence: 1, attempt: 0, ...instants };
}

/** The record at `now`: an overdue call ends without a write. */
export function seenAt(record: JournalRecord, now: EpochMs): JournalRecord {
  if (now <= record.deadlineAt + GRACE_MS) return record;
  const endedAt = record.deadlineAt + GRACE_MS;
  if (record.state === 'accepted') return { ...record, state: 'expired', endedAt };
  if (record.state === 'claimed') return { ...record, state: 'outcome_unknown', endedAt };
  return record;
}

/** An executor is about to begin the effect. */
export function claimed(record: JournalRecord, fence: number, attempt: number, now: EpochMs): Move {
  const current = seenAt(record, now);
  if (current.state !== 'accepted' || current.fence !== fence) return { ok: false, state: current.state };
  return { ok: true, record: { ...current, state: 'claimed', attempt, claimedAt: now } };
}

/** The call goes to another executor or attempt; older fences become invalid. */
export function raised(record: JournalRecord, now: EpochMs): Move {
  const current = seenAt(record, now);
  const open = current.state === 'accepted' || (current.state === 'claimed' && current.repeatable);
  if (!open) return { ok: false, state: current.state };
  return { ok: true, record: { ...current, state: 'accepted', fence: current.fence + 1 } };
}

/** The same call enters again, as another attempt or a job that runs again; also after it was withdrawn. */
export function reopened(record: JournalRecord, now: EpochMs, deadlineAt = record.deadlineAt): Move {
  const takenBack = (record.state === 'expired' || record.state === 'cancelled') && now <= record.deadlineAt + GRACE_MS;
  const move = takenBack ? { ok: true as const, record: { ...record, fence: record.fence + 1 } } : raised(record, now);
  return move.ok ? { ok: true, record: { ...move.record, state: 'accepted', endedAt: 0, deadlineAt } } : move;
}

/** A call waits for input, or its program for people: it may be entered again until `deadlineAt`. */
export function awaitingInput(record: JournalRecord, deadlineAt: EpochMs): Move {
  if (record.state !== 'claimed' && record.state !== 'accepted') return { ok: false, state: record.state };
  return { ok: true, record: { ...record, state: 'accepted', fence: record.fence + 1, deadlineAt } };
}

/**
 * The outcome is known. The gateway that owns the call passes `current`, because it has dropped responses of older fences; an
 * executor passes its own fence. A late outcome may replace `outcome_unknown`.
 */
export function finishedWith(
  record: JournalRecord,
  fence: number | 'current',
  outcome: CallResult,
  now: EpochMs,
): Move {
  if (!mayFinish(record.state) || (fence !== 'current' && fence !== record.fence))
    return { ok: false, state: seenAt(record, now).state };
  const unknown = outcome.failure?.code === 'OUTCOME_UNKNOWN';
  if (unknown && record.state === 'outcome_unknown') return { ok: false, state: record.state };
  const state = unknown ? 'outcome_unknown' : outcome.ok ? 'succeeded' : 'failed';
  return { ok: true, record: { ...record, state, outcome, endedAt: now } };
}

/** The call is withdrawn before any executor claimed it. */
export function withdrawn(record: JournalRecord, as: 'cancelled' | 'expired', now: EpochMs): Move {
  const current = seenAt(record, now);
  if (current.state !== 'accepted') return { ok: false, state: current.state };
  return { ok: true, record: { ...current, state: as, endedAt: now } };
}
