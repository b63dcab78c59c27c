import { randomUUID } from 'node:crypto';
import { failedWith, succeeded, type ErrorCode, type ExecutionFailure, type Succeeded } from '@toolfleet/contracts';
import type { Journal, JournalRequest } from '@toolfleet/journal';
import { describe, expect, test } from 'vitest';

/** Contract of every journal. */
export interface JournalUnderTest {
  journal: Journal;
  /** Wall time of the gateway, for deadlines. */
  now(): number;
}

/** A success to store. */
export function outcome(parts: Partial<Succeeded> = {}): Succeeded {
  const timing = { queue_ms: 0, wait_ms: 0, execute_ms: 1 };
  return succeeded({ output: { done: true }, text: 'done', timing, attempts: 1, ...parts });
}

const toFailure = (code: ErrorCode): ExecutionFailure => {
  return { code, errorType: 'internal_error', message: 'failed', retryable: false };
};
const UNKNOWN = failedWith(toFailure('OUTCOME_UNKNOWN'), { attempts: 1 });
const FAILED = failedWith(toFailure('TOOL_ERROR'), { attempts: 1 });

/** Contract of every adapter of the journal: claims, fences, idempotency keys, late outcomes. */
export function journalConformance(name: string, make: () => Promise<JournalUnderTest>): void {
  const ask = (subject: JournalUnderTest, parts: Partial<JournalRequest> = {}): JournalRequest => ({
    callId: randomUUID(),
    tenantId: 'acme',
    tool: 'send_email',
    deadlineAt: subject.now() + 60_000,
    repeatable: false,
    ...parts,
  });
  const keyed = { idempotencyKey: 'k', fingerprint: 'f1' };

  describe(`journal: ${name}`, () => {
    test('a claim is granted once, to the holder of the current fence', async () => {
      const subject = await make();
      const entry = ask(subject);
      expect(await subject.journal.accept(entry)).toEqual({ kind: 'accepted', fence: 1 });
      expect(await subject.journal.claim(entry.callId, 2)).toBe(false);
      const claims = await Promise.all(Array.from({ length: 50 }, () => subject.journal.claim(entry.callId, 1)));
      expect(claims.filter(Boolean)).toHaveLength(1);
      expect(await subject.journal.read(entry.callId)).toMatchObject({
        state: 'claimed',
        fence: 1,
        attempt: 1,
        tool: 'send_email',
      });
    });

    test('a call that was never accepted cannot be claimed', async () => {
      const { journal } = await make();
      expect(await journal.claim(randomUUID(), 1)).toBe(false);
      expect(await journal.finish(randomUUID(), 'current', outcome())).toBe(false);
      expect(await journal.read(randomUUID())).toBeUndefined();
    });

    test('a call that its first move enters is claimed once, and not after it was answered or withdrawn', async () => {
      const { journal, now } = await make();
      const entry = { tenantId: 'acme', tool: 'send_email', remainingMs: 60_000, deadlineAt: now() + 60_000 };
      const id = randomUUID();
      const claims = await Promise.all(Array.from({ length: 50 }, () => journal.claim(id, 1, 1, entry)));
      expect(claims.filter(Boolean)).toHaveLength(1);
      expect(await journal.read(id)).toMatchObject({ state: 'claimed', tenantId: 'acme', tool: 'send_email' });
      expect(await journal.finish(id, 'current', outcome(), entry)).toBe(true);

      const moves: ((callId: string) => Promise<unknown>)[] = [
        (callId) => journal.withdraw(callId, 'expired', entry),
        (callId) => journal.finish(callId, 'current', FAILED, entry),
        (callId) => journal.bump(callId, entry),
      ];
      const ends = await Promise.all(
        moves.map(async (move) => {
          const callId = randomUUID();
          await move(callId);
          return [await journal.claim(callId, 1, 1, entry), (await journal.read(callId))?.state];
        }),
      );
      expect(ends).toEqual([
        [false, 'expired'],
        [false, 'failed'],
        [false, 'accepted'],
      ]);
    });

    test('a claim enters no call whose time is over, nor one that lost its record after its fence was raised', async () => {
      const { journal, now } = await make();
      const entry = { tenantId: 'acme', tool: 'send_email', remainingMs: 60_000, deadlineAt: now() + 60_000 };
      const [late, raised] = [randomUUID(), randomUUID()];
      expect(await journal.claim(late, 1, 1, { ...entry, deadlineAt: now() - 10_000 })).toBe(false);
      expect(await journal.claim(raised, 2, 1, entry)).toBe(false);
      expect(await journal.read(late)).toBeUndefined();
    });

    test('raising the fence shuts out the older one, and is refused after a claim', async () => {
      const subject = await make();
      const entry = ask(subject);
      await subject.journal.accept(entry);
      expect(await subject.journal.bump(entry.callId)).toEqual({ fence: 2 });
      expect(await subject.journal.claim(entry.callId, 1)).toBe(false);
      expect(await subject.journal.claim(entry.callId, 2)).toBe(true);
      expect(await subject.journal.bump(entry.callId)).toEqual({ refused: 'claimed' });
      expect(await subject.journal.accept(entry)).toEqual({ kind: 'claimed', state: 'claimed' });
    });

    test('a repeatable call may be raised after a claim; its older fence cannot finish', async () => {
      const subject = await make();
      const entry = ask(subject, { repeatable: true });
      await subject.journal.accept(entry);
      await subject.journal.claim(entry.callId, 1, 1);
      expect(await subject.journal.bump(entry.callId)).toEqual({ fence: 2 });
      expect(await subject.journal.finish(entry.callId, 1, outcome())).toBe(false);
      expect(await subject.journal.claim(entry.callId, 2, 2)).toBe(true);
      expect(await subject.journal.finish(entry.callId, 2, outcome())).toBe(true);
      expect(await subject.journal.read(entry.callId)).toMatchObject({
        state: 'succeeded',
        attempt: 2,
        outcome: outcome(),
      });
    });

    test('the first outcome stays; only an unknown one may be replaced by what really happened', async () => {
      const subject = await make();
      const [first, second] = [ask(subject), ask(subject)];
      for (const entry of [first, second]) {
        await subject.journal.accept(entry);
        await subject.journal.claim(entry.callId, 1);
      }
      expect(await subject.journal.finish(first.callId, 'current', outcome())).toBe(true);
      expect(await subject.journal.finish(first.callId, 1, FAILED)).toBe(false);
      expect(await subject.journal.finish(second.callId, 'current', UNKNOWN)).toBe(true);
      expect(await subject.journal.finish(second.callId, 'current', UNKNOWN)).toBe(false);
      expect((await subject.journal.read(second.callId))?.state).toBe('outcome_unknown');
      expect(await subject.journal.accept(second)).toMatchObject({ kind: 'finished', outcome: UNKNOWN });
      expect(await subject.journal.finish(second.callId, 1, outcome())).toBe(true);
      expect((await subject.journal.read(second.callId))?.state).toBe('succeeded');
    });

    test('an unclaimed call can be taken back, and may enter again with a higher fence', async () => {
      const subject = await make();
      const entry = ask(subject);
      await subject.journal.accept(entry);
      expect(await subject.journal.withdraw(entry.callId, 'expired')).toBe('expired');
      expect(await subject.journal.claim(entry.callId, 1)).toBe(false);
      expect(await subject.journal.accept(entry)).toEqual({ kind: 'accepted', fence: 2 });
      await subject.journal.claim(entry.callId, 2);
      expect(await subject.journal.withdraw(entry.callId, 'cancelled')).toBe('claimed');
      expect(await subject.journal.withdraw(randomUUID(), 'cancelled')).toBeUndefined();
    });

    test('overdue records end without anybody writing: unclaimed expired, claimed unknown', async () => {
      const subject = await make();
      const overdue = subject.now() - 6_000;
      const [unclaimed, late] = [
        ask(subject, { deadlineAt: overdue }),
        ask(subject, { deadlineAt: subject.now() - 4_500 }),
      ];
      await subject.journal.accept(unclaimed);
      expect((await subject.journal.read(unclaimed.callId))?.state).toBe('expired');
      expect(await subject.journal.claim(unclaimed.callId, 1)).toBe(false);
      await subject.journal.accept(late);
      expect(await subject.journal.claim(late.callId, 1)).toBe(true);
      await expect.poll(async () => (await subject.journal.read(late.callId))?.state).toBe('outcome_unknown');
      expect(await subject.journal.finish(late.callId, 1, outcome())).toBe(true);
    });

    test('of many callers with one key, one is accepted and the others learn its call', async () => {
      const subject = await make();
      const key = { idempotencyKey: randomUUID(), fingerprint: 'f1' };
      const answers = await Promise.all(Array.from({ length: 20 }, () => subject.journal.accept(ask(subject, key))));
      expect(answers.filter((answer) => answer.kind === 'accepted')).toHaveLength(1);
      expect(answers.filter((answer) => answer.kind === 'running')).toHaveLength(19);
    });

    test('a key replays the outcome, refuses other arguments, and belongs to its tenant', async () => {
      const subject = await make();
      const key = { ...keyed, idempotencyKey: randomUUID() };
      const entry = ask(subject, key);
      expect(await subject.journal.find('acme', key.idempotencyKey, 'f1')).toEqual({ kind: 'unknown' });
      await subject.journal.accept(entry);
      expect(await subject.journal.find('acme', key.idempotencyKey, 'f1')).toMatchObject({
        kind: 'running',
        callId: entry.callId,
      });
      expect(await subject.journal.find('acme', key.idempotencyKey, 'f2')).toEqual({
        kind: 'mismatch',
        callId: entry.callId,
      });
      expect(await subject.journal.find('other', key.idempotencyKey, 'f1')).toEqual({ kind: 'unknown' });
      await subject.journal.claim(entry.callId, 1);
      await subject.journal.finish(entry.callId, 'current', outcome());
      expect(await subject.journal.find('acme', key.idempotencyKey, 'f1')).toEqual({
        kind: 'finished',
        callId: entry.callId,
        outcome: outcome(),
      });
      expect(await subject.journal.accept(ask(subject, key))).toMatchObject({ kind: 'finished', callId: entry.callId });
    });

    test('a call that was taken back leaves its key free', async () => {
      const subject = await make();
      const key = { ...keyed, idempotencyKey: randomUUID() };
      const entry = ask(subject, key);
      await subject.journal.accept(entry);
      await subject.journal.withdraw(entry.callId, 'expired');
      expect(await subject.journal.find('acme', key.idempotencyKey, 'other')).toEqual({ kind: 'unknown' });
      expect(await subject.journal.accept(ask(subject, { ...key, fingerprint: 'other' }))).toEqual({
        kind: 'accepted',
        fence: 1,
      });
    });

    test('a call that may have begun, without a record: its outcome is unknown and no executor may claim it', async () => {
      const subject = await make();
      const key = { idempotencyKey: randomUUID(), fingerprint: 'f1' };
      const lost = ask(subject, { ...key, mayHaveBegun: true });
      expect(await subject.journal.accept(lost)).toEqual({ kind: 'claimed', state: 'outcome_unknown' });
      expect(await subject.journal.claim(lost.callId, 1)).toBe(false);
      expect(await subject.journal.accept({ ...lost, mayHaveBegun: false })).toMatchObject({
        state: 'outcome_unknown',
      });
      expect(await subject.journal.find('acme', key.idempotencyKey, 'f1')).toMatchObject({
        kind: 'finished',
        outcome: { failure: { code: 'OUTCOME_UNKNOWN' } },
      });
      const known = ask(subject);
      await subject.journal.accept(known);
      expect(await subject.journal.accept({ ...known, mayHaveBegun: true })).toEqual({ kind: 'accepted', fence: 2 });
      const repeatable = ask(subject, { repeatable: true, mayHaveBegun: true });
      expect(await subject.journal.accept(repeatable)).toEqual({ kind: 'accepted', fence: 1 });
    });

    test('the key of a call that died after its claim replays "unknown", never a second run', async () => {
      const subject = await make();
      const key = { ...keyed, idempotencyKey: randomUUID() };
      const entry = ask(subject, { ...key, deadlineAt: subject.now() - 4_500 });
      await subject.journal.accept(entry);
      await subject.journal.claim(entry.callId, 1);
      await expect
        .poll(() => subject.journal.accept(ask(subject, key)))
        .toMatchObject({ kind: 'finished', outcome: { failure: { code: 'OUTCOME_UNKNOWN' } } });
    });
  });
}
