import type { KeyedCall } from './journal.js';
import { GRACE_MS, isFinal, type JournalRecord } from './states.js';
import { unknownOutcome } from './unknown-outcome.js';

/** What an idempotency key points to. */
export interface KeyEntry {
  callId: string;
  fingerprint: string;
  /** Store time after which a call without a record has died on its way in. */
  until: number;
}

/** A duplicate is told to come back after this long at most. */
const MAX_RETRY_AFTER_MS = 2_000;

/**
 * What a key means, from its entry and the record of its call. A call that was taken back unclaimed leaves its key free; one
 * that died in between stays "running" until deadline + grace and is then unknown: it never runs again silently.
 */
export function keyedCall(
  entry: KeyEntry | undefined,
  record: JournalRecord | undefined,
  fingerprint: string,
  now: number,
): KeyedCall {
  if (!entry) return { kind: 'unknown' };
  const { callId } = entry;
  if (record?.state === 'cancelled' || record?.state === 'expired') return { kind: 'unknown' };
  if (entry.fingerprint !== fingerprint) return { kind: 'mismatch', callId };
  if (record && isFinal(record.state)) {
    return { kind: 'finished', callId, outcome: record.outcome ?? unknownOutcome(callId, record.tool) };
  }
  const until = record ? record.deadlineAt + GRACE_MS : entry.until;
  if (now > until) return { kind: 'finished', callId, outcome: unknownOutcome(callId, record?.tool ?? '') };
  return { kind: 'running', callId, retryAfterMs: Math.min(MAX_RETRY_AFTER_MS, Math.max(1, until - now)) };
}
