import { failedWith, ToolError } from '@toolfleet/contracts';
import { toFailure } from '@toolfleet/contracts/execution';
import { SystemClock } from '@toolfleet/resilience';
import { outcome } from '@toolfleet/testing/conformance/journal';
import { startRedis, type RedisServer } from '@toolfleet/testing';
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { GRACE_MS, isFinal, type Journal, type JournalEntry, type JournalRecord } from './journal.js';
import { RedisJournal } from './redis-journal.js';
import {
  awaitingInput,
  claimed,
  finishedWith,
  MemoryJournal,
  opened,
  raised,
  reopened,
  seenAt,
  withdrawn,
  type Move,
} from '@toolfleet/testing/memory-journal';

type Step =
  | { kind: 'claim'; fence: number }
  | { kind: 'raise' }
  | { kind: 'reopen' }
  | { kind: 'ask'; ms: number }
  | { kind: 'finish'; fence: number | 'current'; how: 'ok' | 'failed' | 'unknown' }
  | { kind: 'withdraw'; as: 'cancelled' | 'expired' }
  | { kind: 'wait'; ms: number };

const fence = fc.integer({ min: 1, max: 4 });
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('claim' as const), fence }),
  fc.record({ kind: fc.constant('raise' as const) }),
  fc.record({ kind: fc.constant('reopen' as const) }),
  fc.record({ kind: fc.constant('ask' as const), ms: fc.constantFrom(500, 20_000) }),
  fc.record({
    kind: fc.constant('finish' as const),
    fence: fc.oneof(fence, fc.constant('current' as const)),
    how: fc.constantFrom('ok' as const, 'failed' as const, 'unknown' as const),
  }),
  fc.record({ kind: fc.constant('withdraw' as const), as: fc.constantFrom('cancelled' as const, 'expired' as const) }),
  fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(1, 900, 1_100, GRACE_MS, 20_000) }),
);

const results = {
  ok: outcome(),
  failed: failedWith(toFailure(new ToolError('TOOL_ERROR'))),
  unknown: failedWith(toFailure(new ToolError('OUTCOME_UNKNOWN'))),
};

function apply(record: JournalRecord, doing: Step, now: number): Move {
  switch (doing.kind) {
    case 'claim':
      return claimed(record, doing.fence, 1, now);
    case 'raise':
      return raised(record, now);
    case 'reopen':
      return reopened(record, now);
    case 'ask':
      return awaitingInput(record, now + doing.ms);
    case 'finish':
      return finishedWith(record, doing.fence, results[doing.how], now);
    case 'withdraw':
      return withdrawn(record, doing.as, now);
    case 'wait':
      return { ok: true, record };
  }
}

test('in any order of moves: one claim of a call that may run once, final states stay, fences only rise', () => {
  fc.assert(
    fc.property(fc.boolean(), fc.array(step, { maxLength: 30 }), (repeatable, steps) => {
      let now = 1_000;
      let record = opened({ callId: 'c', tenantId: 't', tool: 'x', repeatable, deadlineAt: 2_000 }, now);
      let claims = 0;
      for (const doing of steps) {
        if (doing.kind === 'wait') now += doing.ms;
        const before = record;
        const shown = seenAt(before, now).state;
        const move = apply(before, doing, now);
        if (move.ok) record = move.record;
        if (move.ok && doing.kind === 'claim') claims += 1;
        // Its tool did not run.
        if (move.ok && doing.kind === 'ask') claims = 0;
        expect(record.fence).toBeGreaterThanOrEqual(before.fence);
        if (before.state === 'succeeded' || before.state === 'failed') expect(record).toEqual(before);
        if (shown === 'outcome_unknown' && move.ok && doing.kind !== 'wait')
          expect(['finish', 'ask']).toContain(doing.kind);
        if (doing.kind === 'finish' && move.ok && doing.fence !== 'current') expect(doing.fence).toBe(before.fence);
        if (doing.kind === 'withdraw' && move.ok) expect(shown).toBe('accepted');
      }
      if (!repeatable) expect(claims).toBeLessThanOrEqual(1);
      expect(isFinal(seenAt(record, record.deadlineAt + 1 + GRACE_MS).state)).toBe(true);
    }),
    { numRuns: 5_000 },
  );
});

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const way = fc.constantFrom('accepted' as const, 'accepted, repeatable' as const, 'by its first move' as const);

test('the Lua scripts make the same moves as the model, also of calls that their first move enters', async () => {
  const clock = new SystemClock();
  const redis = new RedisJournal(server.client(), clock);
  let serial = 0;
  await fc.assert(
    fc.asyncProperty(way, fc.array(step, { maxLength: 15 }), async (entered, steps) => {
      const memory = new MemoryJournal(clock);
      serial += 1;
      const deadlineAt = clock.now() + 60_000;
      const repeatable = entered === 'accepted, repeatable';
      const ask = { callId: `p${serial}`, tenantId: 't', tool: 'x', repeatable, deadlineAt };
      const entry = entered === 'by its first move' ? { ...ask, remainingMs: 60_000 } : undefined;
      const run = async (journal: Journal) => {
        const seen: unknown[] = entry ? [] : [await journal.accept(ask)];
        let claims = 0;
        for (const doing of steps) {
          const done = await act(journal, ask.callId, doing, () => journal.accept(ask), entry);
          if (doing.kind === 'claim' && done === true) claims += 1;
          if (doing.kind === 'ask' && done === true) claims = 0;
          seen.push(done);
        }
        if (!repeatable) expect(claims).toBeLessThanOrEqual(1);
        const record = await journal.read(ask.callId);
        return [...seen, record?.state, record?.fence, record?.attempt, record?.tool, record?.outcome];
      };
      expect(await run(redis)).toEqual(await run(memory));
    }),
    { numRuns: 450 },
  );
});

function act(
  journal: Journal,
  callId: string,
  doing: Step,
  reopen: () => Promise<unknown>,
  entry?: JournalEntry,
): Promise<unknown> {
  switch (doing.kind) {
    case 'claim':
      return journal.claim(callId, doing.fence, 1, entry);
    case 'raise':
      return journal.bump(callId, entry);
    case 'reopen':
      return reopen();
    case 'ask':
      return journal.awaitInput(callId, doing.ms);
    case 'finish':
      return journal.finish(callId, doing.fence, results[doing.how], entry);
    case 'withdraw':
      return journal.withdraw(callId, doing.as, entry);
    case 'wait':
      return Promise.resolve();
  }
}
