import {
  failedWith,
  ToolError,
  type CallResult,
  type CallState,
  type EpochMs,
  type Milliseconds,
} from '@toolfleet/contracts';
import { toFailure } from '@toolfleet/contracts/execution';

/**
 * The record of calls with effects that must not happen twice. A call moves between seven states:
 *
 *   accepted(fence) --claim(fence)--> claimed --finish(fence)--> succeeded | failed
 *      |  bump: fence+1                  |
 *      |<------- awaitInput -------------+
 *      +--> cancelled | expired          +-- deadline + grace --> outcome_unknown (a late outcome may still replace it)
 *
 * `accept` enters a call. A call that only its own gateway can send, and that has no key, is entered by the first of the other moves
 * instead, normally the claim: they get its `entry`.
 *
 * Each move is one compare-and-set: of several that race, one wins. Injected by type.
 * Every method rejects with the error of the store while that is unavailable; nothing may run without a record.
 */
export abstract class Journal {
  /** Looks up an idempotency key without storing anything. */
  abstract find(tenantId: string, idempotencyKey: string, fingerprint: string): Promise<KeyedCall>;

  /** Enters a call, or the next attempt of a call that is in the journal. Of two calls with one key, one is accepted. */
  abstract accept(request: JournalRequest): Promise<Acceptance>;

  /** For executors, immediately before the effect: true once, for the holder of the current fence. */
  abstract claim(callId: string, fence: number, attempt?: number, entry?: JournalEntry): Promise<boolean>;

  /** Raises the fence, so that the call may go to another executor; refused once the effect may have begun. */
  abstract bump(callId: string, entry?: JournalEntry): Promise<{ fence: number } | { refused: CallState }>;

  /**
   * Stores the outcome. The gateway that owns the call passes `current`, an executor its own fence.
   * @returns false when this fence may not finish the call any more, or the outcome was known
   */
  abstract finish(
    callId: string,
    fence: number | 'current',
    outcome: CallResult,
    entry?: JournalEntry,
  ): Promise<boolean>;

  /** Which of these calls may still get an outcome: they have a record, and none or an unknown one. */
  abstract unfinished(callIds: readonly string[]): Promise<ReadonlySet<string>>;

  /**
   * The tool asked for input before it ran, or a program waits for people: the call may be entered again, with its key, until the deadline
   * that it has then.
   * @returns false when it has ended
   */
  abstract awaitInput(callId: string, withinMs: Milliseconds): Promise<boolean>;

  /** Withdraws a call that no executor has claimed and frees its key. Resolves to the state afterwards. */
  abstract withdraw(callId: string, as: 'cancelled' | 'expired', entry?: JournalEntry): Promise<CallState | undefined>;

  /** The current record; undefined when there was none or it has expired. */
  abstract read(callId: string): Promise<JournalRecord | undefined>;
}

/** One call as it enters the journal. */
export interface JournalRequest {
  callId: string;
  tenantId: string;
  /** The user it is made for; stored so that the data of a user can be found. */
  userId?: string | undefined;
  /** `toMaker` the caller, who may read the outcome. */
  maker?: string | undefined;
  tool: string;
  /** On the gateway's clock; the store measures the remaining time on its own. */
  deadlineAt: EpochMs;
  /** True: another attempt may begin after a claim (idempotent tools). */
  repeatable: boolean;
  /** An earlier run may have begun: without a record, a call that is not repeatable becomes `outcome_unknown`. */
  mayHaveBegun?: boolean;
  /** Another process continues the call if this one dies, so its key stays its own. */
  moves?: boolean;
  /** Unique within the tenant. */
  idempotencyKey?: string;
  /** SHA-256 of the tool's observable input; present with a key. */
  fingerprint?: string;
}

/** Entry of a call that `accept` has not entered, stored by its first move. Such a call has no key and is not repeatable. */
export interface JournalEntry {
  tenantId: string;
  /** As in `JournalRequest`. */
  userId?: string | undefined;
  maker?: string | undefined;
  tool: string;
  /** Until the deadline, when the call was sent. */
  remainingMs: Milliseconds;
  /**
   * On the gateway's clock. A claim enters no call after it: a message can wait for hours in a suspended process, longer than the record
   * of the call that answered it is kept.
   */
  deadlineAt: EpochMs;
}

/** Answer to a call that enters the journal. */
export type Acceptance =
  | { kind: 'accepted'; fence: number }
  /** This call was claimed before and must not begin again. */
  | { kind: 'claimed'; state: CallState }
  | Exclude<KeyedCall, { kind: 'unknown' }>;

/** State of an idempotency key in the journal. */
export type KeyedCall =
  | { kind: 'unknown' }
  /** The first call with this key has ended; its outcome is replayed. */
  | ({ kind: 'finished'; callId: string; outcome: CallResult } & Pick<JournalRecord, 'userId' | 'maker'>)
  | { kind: 'running'; callId: string; retryAfterMs: Milliseconds }
  /** The key was used with another tool, other arguments or another context. */
  | { kind: 'mismatch'; callId: string };

/** The record of one call. Instants are on the store's clock, 0 while they have not happened. */
export interface JournalRecord {
  readonly callId: string;
  readonly tenantId: string;
  /** As in `JournalRequest`. */
  readonly userId?: string | undefined;
  readonly maker?: string | undefined;
  readonly tool: string;
  readonly repeatable: boolean;
  readonly state: CallState;
  /** Only an executor with this number may claim or finish the call. */
  readonly fence: number;
  /** The attempt that was claimed last; 0 before. */
  readonly attempt: number;
  readonly acceptedAt: EpochMs;
  readonly claimedAt: EpochMs;
  readonly endedAt: EpochMs;
  readonly deadlineAt: EpochMs;
  readonly outcome?: CallResult;
}

/** How long records are kept after the deadline of their call. */
export interface JournalRetention {
  /** Calls with an idempotency key; the documentation promises 24 h. */
  keyedMs: Milliseconds;
  /** All others: long enough for late outcomes and for reading the state of a call. */
  otherMs: Milliseconds;
}

/** 24 h and 1 h. */
export const DEFAULT_RETENTION: JournalRetention = { keyedMs: 86_400_000, otherMs: 3_600_000 };

/** Time after its deadline at which a call without an outcome ends as `expired` or `outcome_unknown`. */
export const GRACE_MS: Milliseconds = 5_000;
/** Maximum wait that a duplicate of a running call is advised to make. */
const MAX_RETRY_AFTER_MS = 2_000;

/** True for the states in which `finish` may store an outcome. */
export function mayFinish(state: unknown): boolean {
  return state === 'accepted' || state === 'claimed' || state === 'outcome_unknown';
}

/** True for the states that end a call. */
export function isFinal(state: CallState): boolean {
  return state !== 'accepted' && state !== 'claimed';
}

/** The stored entry of an idempotency key. */
export interface KeyEntry {
  callId: string;
  fingerprint: string;
  /** Store time after which a call without a record counts as lost on its way into the journal. */
  until: EpochMs;
  /** The process that runs the call; '' if another one continues it. */
  holder: string;
}

/** Processes that hold idempotency keys. */
export interface KeyHolders {
  /** Id of this process. */
  readonly own: string;
  /** Whether a process is known to have died, or is suspended for longer than its signs of life last. */
  isGone(holder: string): boolean;
}

/**
 * Decides on an idempotency key, from its entry and the record of its call. A call that was withdrawn leaves its key free,
 * and so does one without its process, unless its effect may have begun and must not begin again.
 * A process that died between taking the key and entering the call leaves the key `running` until deadline + grace, and then with
 * an unknown outcome, so that the call is never silently run again.
 */
export function resolveKey(
  entry: KeyEntry | undefined,
  record: JournalRecord | undefined,
  fingerprint: string,
  now: EpochMs,
  isGone: KeyHolders['isGone'] = () => false,
): KeyedCall {
  if (!entry) return { kind: 'unknown' };
  const { callId } = entry;
  if (record?.state === 'cancelled' || record?.state === 'expired') return { kind: 'unknown' };
  if (entry.fingerprint !== fingerprint) return { kind: 'mismatch', callId };
  if (record && isFinal(record.state)) {
    const { userId, maker, outcome = unknownOutcome(callId, record.tool) } = record;
    return { kind: 'finished', callId, outcome, userId, maker };
  }
  const until = record ? record.deadlineAt + GRACE_MS : entry.until;
  if (now > until) return { kind: 'finished', callId, outcome: unknownOutcome(callId, record?.tool) };
  const mayBegin = record?.state !== 'claimed' || record.repeatable;
  if (mayBegin && entry.holder !== '' && isGone(entry.holder)) return { kind: 'unknown' };
  return { kind: 'running', callId, retryAfterMs: Math.min(MAX_RETRY_AFTER_MS, Math.max(1, until - now)) };
}

/** The outcome of a call that was claimed and never finished: in-band, not retryable. */
export function unknownOutcome(callId: string, tool?: string): CallResult {
  const message = `It is not known whether ${tool ? `'${tool}'` : 'the call'} took effect`;
  const error = new ToolError('OUTCOME_UNKNOWN', { message, details: { call_id: callId } });
  return failedWith(toFailure(error), { attempts: 1 });
}
