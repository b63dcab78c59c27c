import { ToolError } from '@toolfleet/contracts';
import { toCallResult, type ExecMessage, type ExecResponse } from '@toolfleet/contracts/execution';
import { FakeClock } from '@toolfleet/testing';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { MemoryJournal } from '@toolfleet/testing/memory-journal';
import { JournalGuard, LATE_MS, STORE_AGAIN } from './execution-guard.js';
import { unknownOutcome } from './journal.js';

const sent: ExecResponse = { ok: true, output: 'sent', text: 'sent', metadata: {} };
let clock: FakeClock;
let journal: MemoryJournal;
let gate: JournalGuard;

/** Enters a call with an effect, and answers the message an executor gets. */
async function entered(callId: string, journalled = true): Promise<ExecMessage> {
  const ask = { callId, tenantId: 'acme', tool: 'send_mail', deadlineAt: clock.now() + 5_000, repeatable: false };
  if (journalled) await journal.accept(ask);
  return {
    call_id: callId,
    attempt: 1,
    fence: 1,
    journalled,
    tool: 'send_mail',
    revision: 'r1',
    binding: { kind: 'builtin', toolset: 'compute', handler: 'send_mail' },
    arguments: {},
    context: { tenant_id: 'acme' },
  };
}

beforeEach(() => {
  clock = new FakeClock(1_000);
  journal = new MemoryJournal(clock);
  gate = new JournalGuard(journal, clock);
});

describe('outcomes that no gateway stored', () => {
  it('are stored by the executor after a delay', async () => {
    await gate.run(await entered('c'), (begin) => begin().then(() => sent));
    await clock.run(LATE_MS - 1);
    expect(await journal.read('c')).toMatchObject({ state: 'claimed' });
    await clock.run(1);
    expect(await journal.read('c')).toMatchObject({ state: 'succeeded', outcome: { output: 'sent', attempts: 1 } });
  });

  it('replace an unknown outcome but not a known one', async () => {
    const [late, known] = [await entered('late'), await entered('known')];
    await gate.run(late, async (begin) => {
      await begin();
      await journal.finish('late', 'current', unknownOutcome('late', 'send_mail'));
      return sent;
    });
    await gate.run(known, (begin) => begin().then(() => sent));
    await journal.finish('known', 'current', toCallResult({ ...sent, output: 'from the gateway' }, 1));
    await clock.run(LATE_MS);
    expect(await journal.read('late')).toMatchObject({ state: 'succeeded' });
    expect(await journal.read('known')).toMatchObject({ outcome: { output: 'from the gateway' } });
  });

  it('are sent to the journal only where they are missing', async () => {
    const ids = Array.from({ length: 20 }, (_, index) => `c${index}`);
    for (const id of ids) await gate.run(await entered(id), (begin) => begin().then(() => sent));
    for (const id of ids.slice(1)) await journal.finish(id, 'current', toCallResult(sent, 1));
    const finish = vi.spyOn(journal, 'finish');
    await clock.run(LATE_MS);
    expect(finish.mock.calls.map(([callId]) => callId)).toEqual(['c0']);
  });

  it('include failures, except those that leave the outcome open', async () => {
    const failing = (code: 'TOOL_ERROR' | 'CANCELLED') => async (begin: () => Promise<void>) => {
      await begin();
      throw new ToolError(code, { message: 'no such address' });
    };
    await expect(gate.run(await entered('failed'), failing('TOOL_ERROR'))).rejects.toThrow('no such address');
    await expect(gate.run(await entered('open'), failing('CANCELLED'))).rejects.toThrow();
    await clock.run(LATE_MS);
    expect(await journal.read('failed')).toMatchObject({
      state: 'failed',
      outcome: { failure: { code: 'TOOL_ERROR' } },
    });
    expect(await journal.read('open')).toMatchObject({ state: 'claimed' });
  });

  it('exclude work that never began or needs no journal', async () => {
    await gate.run(await entered('idle'), () => Promise.resolve(sent));
    await gate.run(await entered('free', false), (begin) => begin().then(() => sent));
    await gate.drain();
    expect(await journal.read('idle')).toMatchObject({ state: 'accepted' });
    expect(await journal.read('free')).toBeUndefined();
  });

  it('wait for a journal that is unavailable, for a minute', async () => {
    const unfinished = vi.spyOn(journal, 'unfinished').mockRejectedValue(new Error('away'));
    const finish = vi.spyOn(journal, 'finish').mockRejectedValueOnce(new Error('away'));
    await gate.run(await entered('c'), (begin) => begin().then(() => sent));
    await clock.run(LATE_MS + 3 * STORE_AGAIN.everyMs);
    expect(await journal.read('c')).toMatchObject({ state: 'claimed' });
    unfinished.mockRestore();
    await clock.run(2 * STORE_AGAIN.everyMs);
    expect(finish).toHaveBeenCalledTimes(2);
    expect(await journal.read('c')).toMatchObject({ state: 'succeeded' });

    await gate.run(await entered('late'), (begin) => begin().then(() => sent));
    const away = vi.spyOn(journal, 'unfinished').mockRejectedValue(new Error('away'));
    await clock.run(LATE_MS + STORE_AGAIN.withinMs);
    const asked = away.mock.calls.length;
    await clock.run(STORE_AGAIN.withinMs);
    expect(away).toHaveBeenCalledTimes(asked);
  });

  it('are stored at once when the executor stops', async () => {
    await gate.run(await entered('c'), (begin) => begin().then(() => sent));
    await gate.drain();
    expect(await journal.read('c')).toMatchObject({ state: 'succeeded' });
  });
});
