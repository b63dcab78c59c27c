import type { ExecMessage, ExecResponse } from '@toolfleet/contracts/execution';
import { FakeClock } from '@toolfleet/testing';
import { describe, expect, it } from 'vitest';
import { JournalGuard, IdempotentOnlyGuard, type GuardedWork } from './execution-guard.js';
import { MemoryJournal } from '@toolfleet/testing/memory-journal';

const message = (fence: number, attempt = 1): ExecMessage => ({
  call_id: 'c1',
  attempt,
  fence,
  journalled: true,
  tool: 'send_mail',
  revision: 'r1',
  binding: { kind: 'builtin', toolset: 'compute', handler: 'send_mail' },
  arguments: {},
  context: { tenant_id: 'acme' },
});

const done: ExecResponse = { ok: true, output: 'sent', text: 'sent', metadata: {} };
const begins: GuardedWork = (begin) => begin().then(() => done);

describe('ExecutionGuard', () => {
  it('lets one attempt begin, with the current fence', async () => {
    const clock = new FakeClock(1_000);
    const journal = new MemoryJournal(clock);
    const deadlineAt = clock.now() + 5_000;
    const accepted = await journal.accept({
      callId: 'c1',
      tenantId: 'acme',
      tool: 'send_mail',
      deadlineAt,
      repeatable: false,
    });
    expect(accepted).toEqual({ kind: 'accepted', fence: 1 });
    const gate = new JournalGuard(journal, clock);
    const claim = (asked: ExecMessage) => gate.run(asked, begins);
    const refused = { code: 'EXECUTOR_UNAVAILABLE', details: { tool: 'send_mail', reason: 'claim_refused' } };
    await expect(claim(message(0))).rejects.toMatchObject(refused);
    await claim(message(1));
    const second = await claim(message(1, 2)).catch((error: unknown) => error);
    expect(second).toMatchObject(refused);
    expect(second, 'the attempt that has the claim may have begun').not.toHaveProperty('facts');
  });

  it('refuses without a journal and proves that nothing began', async () => {
    const gone = new Error('Redis is down');
    const fails = () => Promise.reject(gone);
    const gate = new JournalGuard({ claim: fails, finish: fails, unfinished: fails }, new FakeClock(0));
    await expect(gate.run(message(1), begins)).rejects.toMatchObject({
      code: 'EXECUTOR_UNAVAILABLE',
      details: { reason: 'journal_away' },
      facts: { begun: 'no' },
      cause: gone,
    });
    const clock = new FakeClock(0);
    const hangs = async () => {
      clock.advance(2_000);
      throw gone;
    };
    const late = new JournalGuard({ claim: hangs, finish: hangs, unfinished: hangs }, clock);
    await expect(late.run(message(1), begins)).rejects.toMatchObject({
      code: 'SERVICE_UNAVAILABLE',
      facts: { begun: 'no' },
    });
    await expect(new IdempotentOnlyGuard().run(message(1), begins)).rejects.toMatchObject({
      details: { reason: 'no_journal' },
      facts: { begun: 'no' },
    });
  });

  it('throws the refusal of a claim even when the work returns a response', async () => {
    const swallows: GuardedWork = (begin) =>
      begin().then(
        () => done,
        () => ({ ...done, ok: false }),
      );
    const gate = new IdempotentOnlyGuard();
    await expect(gate.run(message(1), swallows)).rejects.toMatchObject({ details: { reason: 'no_journal' } });
  });

  it('runs idempotent tools without a journal', async () => {
    const gate = new IdempotentOnlyGuard(({ tool }) => tool === 'calculator');
    expect(await gate.run({ ...message(1), tool: 'calculator' }, begins)).toBe(done);
    await expect(gate.run(message(1), begins)).rejects.toMatchObject({ code: 'EXECUTOR_UNAVAILABLE' });
  });
});
