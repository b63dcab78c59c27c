import type { ExecMessage } from '@toolfleet/contracts';
import { FakeClock } from '@toolfleet/testing';
import { describe, expect, it } from 'vitest';
import { JournalGate, RepeatableOnlyGate } from './effect-gate.js';
import { MemoryJournal } from './memory-journal.js';

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

describe('the gate before an effect', () => {
  it('opens once per call, and only for the current fence', async () => {
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
    const gate = new JournalGate(journal);
    const refused = { code: 'EXECUTOR_UNAVAILABLE', details: { tool: 'send_mail', reason: 'claim_refused' } };
    await expect(gate.claim(message(0))).rejects.toMatchObject(refused);
    await gate.claim(message(1));
    const second = await gate.claim(message(1, 2)).catch((error: unknown) => error);
    expect(second).toMatchObject(refused);
    expect(second, 'whoever has the claim may have begun').not.toHaveProperty('details.started');
  });

  it('stays closed without a journal, with the proof that nothing began', async () => {
    const gone = new Error('Redis is away');
    const gate = new JournalGate({ claim: () => Promise.reject(gone) });
    await expect(gate.claim(message(1))).rejects.toMatchObject({
      code: 'EXECUTOR_UNAVAILABLE',
      details: { reason: 'journal_away', started: false },
      cause: gone,
    });
    await expect(new RepeatableOnlyGate().claim(message(1))).rejects.toMatchObject({
      details: { reason: 'no_journal', started: false },
    });
  });

  it('lets repeatable tools through where there is no journal', async () => {
    const gate = new RepeatableOnlyGate(({ tool }) => tool === 'calculator');
    await gate.claim({ ...message(1), tool: 'calculator' });
    await expect(gate.claim(message(1))).rejects.toMatchObject({ code: 'EXECUTOR_UNAVAILABLE' });
  });
});
