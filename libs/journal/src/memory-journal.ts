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
import { keyedCall, type KeyEntry } from './keyed-call.js';
import {
  claimed,
  finishedWith,
  GRACE_MS,
  opened,
  raised,
  reopened,
  seenAt,
  withdrawn,
  type JournalRecord,
  type Move,
} from './states.js';

/** Journal of one process: for tests and for running without Redis. Forgets with the process. */
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
    return Promise.resolve(this.#look(keyOf(tenantId, idempotencyKey), fingerprint));
  }

  override accept(ask: JournalRequest): Promise<Acceptance> {
    this.#forget();
    const now = this.clock.now();
    const key = ask.idempotencyKey === undefined ? undefined : keyOf(ask.tenantId, ask.idempotencyKey);
    const holder = key === undefined ? undefined : this.#keys.get(key);
    if (key !== undefined && holder?.callId !== ask.callId) {
      const known = this.#look(key, ask.fingerprint ?? '');
      if (known.kind !== 'unknown') return Promise.resolve(known);
    }
    const existing = this.#records.get(ask.callId);
    const move: Move = existing ? reopened(existing.record, now) : { ok: true, record: opened(ask, now) };
    if (!move.ok) return Promise.resolve(this.#again(ask.callId, move.state));
    if (key !== undefined) {
      this.#keys.set(key, { callId: ask.callId, fingerprint: ask.fingerprint ?? '', until: ask.deadlineAt + GRACE_MS });
    }
    const keepMs = key === undefined ? this.retention.otherMs : this.retention.keyedMs;
    this.#records.set(ask.callId, { record: move.record, key, forgetAt: Math.max(now, ask.deadlineAt) + keepMs });
    const { state, fence } = move.record;
    return Promise.resolve(state === 'accepted' ? { kind: 'accepted', fence } : { kind: 'claimed', state });
  }

  override claim(callId: string, fence: number, attempt = 1): Promise<boolean> {
    const moved = this.#move(callId, (record, now) => claimed(record, fence, attempt, now));
    return Promise.resolve(moved?.ok === true);
  }

  override bump(callId: string): Promise<{ fence: number } | { refused: CallState }> {
    const moved = this.#move(callId, raised);
    if (moved?.ok) return Promise.resolve({ fence: moved.record.fence });
    return Promise.resolve({ refused: moved?.state ?? 'expired' });
  }

  override finish(callId: string, fence: number | 'current', outcome: CallResult): Promise<boolean> {
    return Promise.resolve(this.#move(callId, (record, now) => finishedWith(record, fence, outcome, now))?.ok === true);
  }

  override withdraw(callId: string, as: 'cancelled' | 'expired'): Promise<CallState | undefined> {
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
    return keyedCall(entry, record && seenAt(record, now), fingerprint, now);
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

function keyOf(tenantId: string, idempotencyKey: string): string {
  return JSON.stringify([tenantId, idempotencyKey]);
}
