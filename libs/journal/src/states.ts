import type { CallResult, CallState, EpochMs, Milliseconds } from '@toolfleet/contracts';

/**
 * The seven states of a journalled call and their moves, as pure functions:
 *
 *   accepted(fence) --claim(fence)--> claimed --finish(fence)--> succeeded | failed
 *      |  raise: fence+1                 |
 *      +--> cancelled | expired          +-- deadline + grace --> outcome_unknown (may still be finished for readers)
 *
 * The Lua scripts make the same moves; the conformance suite and a differential property test hold them together.
 */
export interface JournalRecord {
  readonly callId: string;
  readonly tenantId: string;
  readonly tool: string;
  /** True: another attempt may begin although one has been claimed (idempotent tools). */
  readonly repeatable: boolean;
  readonly state: CallState;
  /** Only an executor that holds this number may claim or finish. */
  readonly fence: number;
  /** Attempt that was claimed last; 0 before. */
  readonly attempt: number;
  /** Instants of the store's clock. */
  readonly acceptedAt: EpochMs;
  readonly claimedAt: EpochMs;
  readonly endedAt: EpochMs;
  readonly deadlineAt: EpochMs;
  readonly outcome?: CallResult;
}

/** A call without an outcome so long after its deadline has none to come that its caller could still get. */
export const GRACE_MS: Milliseconds = 5_000;

/** What a move gives: the next record, or the state that forbids it. */
export type Move = { ok: true; record: JournalRecord } | { ok: false; state: CallState };

/** A call as it enters the journal. One that may have begun before has lost its record: its outcome is unknown unless it is repeatable. */
export function opened(
  ask: Pick<JournalRecord, 'callId' | 'tenantId' | 'tool' | 'repeatable' | 'deadlineAt'> & { mayHaveBegun?: boolean },
  now: EpochMs,
): JournalRecord {
  const { callId, tenantId, tool, repeatable, deadlineAt, mayHaveBegun = false } = ask;
  const isLost = mayHaveBegun && !repeatable;
  const state = isLost ? 'outcome_unknown' : 'accepted';
  const endedAt = isLost ? now : 0;
  const instants = { acceptedAt: now, claimedAt: 0, endedAt, deadlineAt };
  return { callId, tenantId, tool, repeatable, state, fence: 1, attempt: 0, ...instants };
}

/** The record as it is at `now`: overdue ones end without anybody writing. */
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

/** Another executor or another attempt is to get the call; the older fence is worth nothing from here on. */
export function raised(record: JournalRecord, now: EpochMs): Move {
  const current = seenAt(record, now);
  const open = current.state === 'accepted' || (current.state === 'claimed' && current.repeatable);
  if (!open) return { ok: false, state: current.state };
  return { ok: true, record: { ...current, state: 'accepted', fence: current.fence + 1 } };
}

/** The same call enters again (another attempt, a job that runs again): also after it was taken back unclaimed. */
export function reopened(record: JournalRecord, now: EpochMs): Move {
  const takenBack = (record.state === 'expired' || record.state === 'cancelled') && now <= record.deadlineAt + GRACE_MS;
  if (!takenBack) return raised(record, now);
  return { ok: true, record: { ...record, state: 'accepted', fence: record.fence + 1, endedAt: 0 } };
}

/**
 * The outcome is known. `current` is the gateway that owns the call and has dropped answers of older fences already;
 * an executor names its own fence. A late outcome may still replace `outcome_unknown`.
 */
export function finishedWith(
  record: JournalRecord,
  fence: number | 'current',
  outcome: CallResult,
  now: EpochMs,
): Move {
  const open = record.state === 'accepted' || record.state === 'claimed' || record.state === 'outcome_unknown';
  if (!open || (fence !== 'current' && fence !== record.fence)) return { ok: false, state: seenAt(record, now).state };
  const unknown = outcome.failure?.code === 'OUTCOME_UNKNOWN';
  if (unknown && record.state === 'outcome_unknown') return { ok: false, state: record.state };
  const state = unknown ? 'outcome_unknown' : outcome.ok ? 'succeeded' : 'failed';
  return { ok: true, record: { ...record, state, outcome, endedAt: now } };
}

/** Taken back before any executor claimed it. */
export function withdrawn(record: JournalRecord, as: 'cancelled' | 'expired', now: EpochMs): Move {
  const current = seenAt(record, now);
  if (current.state !== 'accepted') return { ok: false, state: current.state };
  return { ok: true, record: { ...current, state: as, endedAt: now } };
}

/** True for states that end a call. */
export function isFinal(state: CallState): boolean {
  return state !== 'accepted' && state !== 'claimed';
}
