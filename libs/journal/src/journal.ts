import type { CallResult, CallState, EpochMs, Milliseconds } from '@toolfleet/contracts';
import type { JournalRecord } from './states.js';

/** What is known about an idempotency key. */
export type KeyedCall =
  | { kind: 'unknown' }
  | { kind: 'finished'; callId: string; outcome: CallResult }
  | { kind: 'running'; callId: string; retryAfterMs: Milliseconds }
  | { kind: 'mismatch'; callId: string };

/** Answer to a call that enters the journal. */
export type Acceptance =
  | { kind: 'accepted'; fence: number }
  /** This very call was claimed before and must not begin again. */
  | { kind: 'claimed'; state: CallState }
  | Exclude<KeyedCall, { kind: 'unknown' }>;

/** One call as it enters the journal. */
export interface JournalRequest {
  callId: string;
  tenantId: string;
  tool: string;
  /** Of the gateway's wall clock; the store counts the time left on its own. */
  deadlineAt: EpochMs;
  repeatable: boolean;
  /** An earlier run may have begun: without a record, a call that is not repeatable is entered as `outcome_unknown`. */
  mayHaveBegun?: boolean;
  /** Unique within the tenant: the engine adds the user. */
  idempotencyKey?: string;
  /** SHA-256 of what the tool can observe of the call; present with a key. */
  fingerprint?: string;
}

/** How long records stay. */
export interface JournalRetention {
  /** Calls with an idempotency key (docs promise 24 h). */
  keyedMs: Milliseconds;
  /** Others: long enough for late results and for reading the state of a call. */
  otherMs: Milliseconds;
}

/** 24 h and 1 h. */
export const DEFAULT_RETENTION: JournalRetention = { keyedMs: 86_400_000, otherMs: 3_600_000 };
/** Longest idempotency key. */
export const MAX_IDEMPOTENCY_KEY_CHARS = 255;

/**
 * Record of calls whose effect must not begin twice. Every move is one compare-and-set; of many that race, one wins.
 * Injected by type. @throws whatever the store throws when it is away: nothing may run unrecorded
 */
export abstract class Journal {
  /** Looks an idempotency key up; stores nothing. */
  abstract find(tenantId: string, idempotencyKey: string, fingerprint: string): Promise<KeyedCall>;

  /** Enters a call, or the next attempt of one that is in already. Of two calls with one key, one is accepted. */
  abstract accept(ask: JournalRequest): Promise<Acceptance>;

  /** For executors, immediately before the effect: true once, for the holder of the current fence. */
  abstract claim(callId: string, fence: number, attempt?: number): Promise<boolean>;

  /** Raises the fence, so that the call may go to another executor; refused once the effect may have begun. */
  abstract bump(callId: string): Promise<{ fence: number } | { refused: CallState }>;

  /**
   * Stores the outcome: `current` for the gateway that owns the call, its own fence for an executor.
   * @returns false when that fence may not finish any more, or the outcome was known
   */
  abstract finish(callId: string, fence: number | 'current', outcome: CallResult): Promise<boolean>;

  /** Takes back a call nobody has claimed, and frees its key; answers the state it is in afterwards. */
  abstract withdraw(callId: string, as: 'cancelled' | 'expired'): Promise<CallState | undefined>;

  /** The record as it is now; undefined when it was never made or is forgotten. */
  abstract read(callId: string): Promise<JournalRecord | undefined>;
}
