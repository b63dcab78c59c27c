import type { CallResult } from '@toolfleet/contracts';
import { anEngine, failedReply, okReply, over, ScriptedExecutor } from '@toolfleet/testing/engine-fixture';
import { describe, expect, test } from 'vitest';
import { makeExecuteCall } from '../execute-call.js';
import type { Guard, GuardedCall } from '../guard.js';
import { Meter, type GuardOutcome } from '../ports.js';
import { aRequest } from '@toolfleet/testing/engine-fixture';

const guard = (parts: Partial<Guard>): Guard => ({
  name: 'house',
  timeoutMs: 100,
  failsOpen: false,
  watches: () => true,
  ...parts,
});

function guarded(
  guards: Guard[],
  executor = new ScriptedExecutor(() => okReply('a secret', { text: 'a secret' })),
  tool = {},
) {
  const counted: [string, GuardOutcome][] = [];
  class Counting extends Meter {
    override guarded(name: string, verdict: GuardOutcome): void {
      counted.push([name, verdict]);
    }
  }
  const engine = anEngine({ cost_per_use_micro_usd: 10, ...tool }, executor);
  const execute = makeExecuteCall({ ...engine.ports, guards, meter: new Counting() });
  const call = (parts: Parameters<typeof aRequest>[1] = {}) => execute(aRequest(engine.clock, parts));
  return { ...engine, call, counted };
}

const hiding = guard({ onResult: () => ({ change: { output: 'hidden', text: 'hidden' } }) });

describe('a guard after the policy', () => {
  test('sees a copy of every call with coerced arguments, and refuses it before anything is reserved', async () => {
    const seen: GuardedCall[] = [];
    const { call, executor, budget, audit, counted } = guarded([
      guard({
        onCall: (one) => {
          seen.push(structuredClone(one));
          one.arguments.a = 99;
          return one.tenant_id === 'acme' ? undefined : { deny: 'not theirs' };
        },
      }),
    ]);
    await call({ rawArguments: { a: '5' } });
    expect(seen[0]).toMatchObject({
      tenant_id: 'acme',
      user_id: 'ann',
      tool: 'adder',
      arguments: { a: 5, b: 1 },
      attempt: 1,
    });
    expect(executor.calls[0]?.arguments).toEqual({ a: 5, b: 1 });
    const principal = { ...executor.calls[0]!.request.principal, tenantId: 'other' };
    await expect(call({ principal })).rejects.toMatchObject({
      code: 'POLICY_DENIED',
      message: "Guard 'house' refuses 'adder': not theirs",
      details: { guard: 'house', reasons: ['not theirs'] },
    });
    expect([executor.calls.length, budget.held.size]).toEqual([1, 0]);
    expect(audit.records.at(-1)).toMatchObject({ ok: false, code: 'POLICY_DENIED' });
    expect(counted).toEqual([['house', 'denied']]);
  });

  test('also stands before a dry run, and before a call is accepted for later', async () => {
    const { call } = guarded([guard({ onCall: () => ({ deny: 'closed today' }) })]);
    for (const kind of ['dry', 'admit'] as const)
      await expect(call({ mode: { kind } })).rejects.toMatchObject({ code: 'POLICY_DENIED' });
  });

  test.each([
    ['throws', () => Promise.reject(new Error('down'))],
    ['does not answer', () => new Promise<never>(() => {})],
  ])('that %s refuses calls when it fails closed, and lets them pass when it fails open', async (_, onCall) => {
    const closed = guarded([guard({ onCall })]);
    await expect(over(closed.clock, 200, closed.call())).rejects.toMatchObject({ code: 'POLICY_DENIED' });
    const open = guarded([guard({ onCall, failsOpen: true })]);
    expect(await over(open.clock, 200, open.call())).toMatchObject({ ok: true });
    expect([closed.counted, open.counted]).toEqual([[['house', 'failed_closed']], [['house', 'failed_open']]]);
  });

  test('does not see calls of tools that it does not watch', async () => {
    const { call } = guarded([guard({ watches: ({ name }) => name !== 'adder', onCall: () => ({ deny: 'no' }) })]);
    expect(await call()).toMatchObject({ ok: true });
  });
});

describe('a guard before each attempt', () => {
  const again = { idempotent: true, retry_policy: { kind: 'custom', max_attempts: 3, base_delay_ms: 0 } } as const;

  test('refuses the first one like a call', async () => {
    const { call, executor, budget } = guarded([guard({ onAttempt: () => ({ deny: 'not now' }) })]);
    await expect(call()).rejects.toMatchObject({ code: 'POLICY_DENIED' });
    expect([executor.calls.length, budget.spent]).toEqual([0, 0]);
  });

  test('ends a call whose first attempt failed', async () => {
    const failing = new ScriptedExecutor(() => failedReply('NETWORK_ERROR'));
    const { call, clock, executor } = guarded(
      [guard({ onAttempt: ({ attempt }) => (attempt > 1 ? { deny: 'once is enough' } : undefined) })],
      failing,
      again,
    );
    expect(await over(clock, 10_000, call())).toMatchObject({ ok: false, failure: { code: 'RESULT_WITHHELD' } });
    expect(executor.calls).toHaveLength(1);
  });
});

describe('a guard of results', () => {
  test('changes them before they are cached, and is named in the metadata', async () => {
    let asked = 0;
    const { call, executor, counted } = guarded([
      guard({
        onResult: (_, { output }) => (asked++, { change: { output: `${output as string} hidden`, text: 'hidden' } }),
      }),
    ]);
    const first = await call();
    expect(first).toMatchObject({ output: 'a secret hidden', text: 'hidden', metadata: { guards: ['house'] } });
    expect(await call()).toMatchObject({ output: 'a secret hidden', provenance: 'cache' });
    expect([executor.calls.length, asked]).toEqual([1, 1]);
    expect(counted).toEqual([['house', 'changed']]);
  });

  test('each see what the ones before them made of it', async () => {
    const { call } = guarded([
      hiding,
      guard({ name: 'second', onResult: (_, { text }) => ({ change: { text: `${text}!` } }) }),
    ]);
    expect(await call()).toMatchObject({ text: 'hidden!', metadata: { guards: ['house', 'second'] } });
  });

  test('see replays too, which the journal has as the executor stored them', async () => {
    const { call } = guarded([hiding], undefined, { idempotent: false });
    const key = { idempotencyKey: 'k', rawArguments: { a: 1 } };
    const answers: CallResult[] = [await call(key), await call(key)];
    expect(answers.map(({ output }) => output)).toEqual(['hidden', 'hidden']);
    expect(answers[1]?.replayOf).toBeDefined();
  });

  test.each([
    ['denies', () => ({ deny: 'too much' })],
    ['fails', () => Promise.reject(new Error('down'))],
  ])('withhold a result when one %s: the call ran, costs its price, and shows nothing', async (_, onResult) => {
    const { call, budget } = guarded([guard({ onResult })]);
    const result = await call();
    expect(result).toMatchObject({ ok: false, output: null, failure: { code: 'RESULT_WITHHELD', retryable: false } });
    expect(JSON.parse(result.text)).toMatchObject({ tool: 'adder', message: expect.stringContaining('withholds') });
    expect(JSON.stringify(result)).not.toContain('a secret');
    expect(budget.spent).toBe(10);
  });

  test('hide the words of a failure and not that its effect may have happened', async () => {
    const executor = new ScriptedExecutor(() => failedReply('OUTCOME_UNKNOWN', { message: 'a secret' }));
    const { call } = guarded([guard({ onResult: () => ({ deny: 'too much' }) })], executor);
    const result = await call();
    expect(result.failure).toMatchObject({ code: 'OUTCOME_UNKNOWN' });
    expect(JSON.stringify(result)).not.toContain('a secret');
  });

  test('are asked about the usage of a call that was cancelled, so that it is settled', async () => {
    const stop = new AbortController();
    const executor = new ScriptedExecutor(() => {
      stop.abort();
      return failedReply('TOOL_ERROR');
    });
    const { call, budget } = guarded([guard({ onResult: async () => undefined })], executor);
    await call({ signal: stop.signal });
    expect(budget.settled).toHaveLength(1);
  });
});
