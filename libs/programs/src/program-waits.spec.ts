import { ToolError, type RequiredApproval } from '@toolfleet/contracts';
import type { Call, ProgramQuestion } from '@toolfleet/engine';
import { eventually, FakeClock } from '@toolfleet/testing';
import { expect, it } from 'vitest';
import { ProgramWaits } from './program-waits.js';

const REQUIRED: RequiredApproval = {
  questions: ['Save it?'],
  revision: 'r1',
  fingerprint: 'f1',
  by: 'program',
  call: { tool: 'save', arguments: { text: 'x' }, microUsd: 0 },
};

/** A program with one call that waits, and a store of approvals that is unavailable for the first attempts. */
function waiting(failures: number, ranMs = 0) {
  const clock = new FakeClock();
  const asked: ProgramQuestion[] = [];
  const call = {
    callId: 'call-1',
    arguments: {},
    signal: new AbortController().signal,
    deadline: { remainingMs: () => 60_000 },
    request: { mode: { kind: 'resume', acceptedAt: clock.now() - ranMs } },
  } as unknown as Call;
  const approvals = {
    askForProgram: async (question: ProgramQuestion) => {
      asked.push(question);
      if (asked.length <= failures) throw new ToolError('SERVICE_UNAVAILABLE');
      return { id: 'a1' };
    },
  };
  const waits = new ProgramWaits({ call, approvals, clock, plan: undefined }, undefined);
  waits.take(1, REQUIRED, { digest: 'd', shown: 'save' });
  const answered = waits.ask(() => []);
  /** Lets the time pass until the question is answered. */
  const end = async () => {
    let isOver = false;
    void answered.then(() => (isOver = true));
    await eventually('people are asked', async () => {
      clock.advance(500);
      return isOver;
    });
    return answered;
  };
  return { waits, asked, end };
}

it('a store of approvals that restarts costs a program nothing: it is asked the same question again', async () => {
  const { waits, asked, end } = waiting(5);
  expect(await end()).toEqual([]);
  expect(waits.given(1)).toMatchObject({ id: 'a1', fingerprint: 'f1' });
  expect(asked).toHaveLength(6);
  expect(new Set(asked.map(({ digest }) => digest)).size).toBe(1);
});

it('a store that stays away refuses the calls, and no further ones wait for it', async () => {
  const { waits, asked, end } = waiting(Infinity);
  expect(await end()).toMatchObject([{ n: 1, tool: 'save', code: 'SERVICE_UNAVAILABLE' }]);
  expect(asked.length).toBeGreaterThan(20);
  expect(() => waits.take(2, REQUIRED, { digest: 'd', shown: 'save' })).toThrow(
    expect.objectContaining({ code: 'SERVICE_UNAVAILABLE' }),
  );
});

it('no people are asked by a program that began about a day ago: its calls may be forgotten before they answer', async () => {
  const { asked, end } = waiting(0, 24 * 3_600_000);
  expect(await end()).toMatchObject([{ n: 1, tool: 'save', code: 'APPROVAL_EXPIRED' }]);
  expect(asked).toEqual([]);
});
