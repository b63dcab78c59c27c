import {
  aRequest,
  anEngine,
  failedReply,
  hangs,
  okReply,
  over,
  ScriptedExecutor,
} from '@toolfleet/testing/engine-fixture';
import { describe, expect, test } from 'vitest';
import { toExecMessage } from '../attempt.js';
import { toCallStatus } from '../call-status.js';
import { makeExecuteCall } from '../execute-call.js';

const once = new ScriptedExecutor(() => okReply(2));
const network = { retry_policy: { kind: 'network' as const } };

describe('journal and idempotency keys', () => {
  const effect = { idempotent: false, rate_limit: 0 };
  const key = { idempotencyKey: 'k-1' };
  const resumed = { kind: 'resume' as const, acceptedAt: 0, mayHaveBegun: false };

  test('idempotent calls without a key bypass the journal', async () => {
    const { call, journal } = anEngine({}, once);
    await call();
    expect(journal.entries.size).toBe(0);
  });

  test('a call without a key is entered by its claim, or by whatever happens to it instead', async () => {
    const { call, journal, ports } = anEngine(
      effect,
      new ScriptedExecutor(
        (given) => (journal.claim(given) ? okReply('sent') : failedReply('INTERNAL')),
        () => failedReply('TOOL_ERROR', { message: 'refused before its effect' }),
      ),
    );
    ports.journal.accept = () => Promise.reject(new Error('not asked'));
    await call({ callId: 'claimed' });
    await call({ callId: 'answered' });
    const ask = { tenantId: 'acme', tool: 'adder' };
    expect(journal.entries.get('claimed')).toMatchObject({ state: 'succeeded', ask });
    expect(journal.entries.get('answered')).toMatchObject({ state: 'failed', ask });
  });

  test.each([
    ['its claim entered', {}, ['answered', 'stored']],
    ['has a key', key, ['stored', 'answered']],
  ])('the outcome of a call that %s: %s', async (_, ask, expected) => {
    const { call, clock, ports } = anEngine(effect, new ScriptedExecutor(() => okReply('sent')));
    const seen: string[] = [];
    ports.journal.finish = async () => {
      await clock.sleep(100);
      seen.push('stored');
      return true;
    };
    const answered = call(ask).then(() => seen.push('answered'));
    await over(clock, 1_000, answered);
    expect(seen).toEqual(expected);
  });

  test('its second attempt is entered before it is sent, with a higher fence', async () => {
    const { call, clock, journal } = anEngine(
      effect,
      new ScriptedExecutor(
        () => failedReply('EXECUTOR_UNAVAILABLE'),
        (given) => (journal.claim(given) ? okReply(given.fence) : failedReply('INTERNAL')),
      ),
    );
    expect(await over(clock, 2_000, call({ callId: 'c' }))).toMatchObject({ output: 2, attempts: 2 });
    expect(journal.entries.get('c')).toMatchObject({ state: 'succeeded', fence: 2 });
  });

  test('passes the fence to the executor and stores the outcome', async () => {
    const { call, journal } = anEngine(
      effect,
      new ScriptedExecutor((given) => {
        expect(given).toMatchObject({ journalled: true, fence: 1 });
        return journal.claim(given) ? okReply('sent') : failedReply('INTERNAL');
      }),
    );
    await call({ callId: 'c' });
    expect(journal.entries.get('c')).toMatchObject({ state: 'succeeded', outcome: { output: 'sent' } });
  });

  test('a tool that asks for input first is called again as the same call, and its outcome is that of the key', async () => {
    const asked = { server: 's', revision: '1', requests: {} };
    const { audit, call, journal, executor } = anEngine(
      effect,
      new ScriptedExecutor(
        (given) => {
          journal.claim(given);
          const reply = failedReply('INPUT_REQUIRED');
          return { ...reply, failure: { ...reply.failure!, facts: { input: asked } } };
        },
        (given) => (journal.claim(given) ? okReply('booked') : failedReply('INTERNAL')),
      ),
    );
    const first = call({ ...key, callId: 'c', personInput: { capabilities: {} } });
    await expect(first).rejects.toMatchObject({ code: 'INPUT_REQUIRED', facts: { input: asked } });
    expect(audit.records).toEqual([]);
    await expect(call({ ...key, callId: 'other' })).rejects.toMatchObject({ code: 'CALL_IN_PROGRESS' });
    const given = { responses: { name: 'Ann' }, revision: executor.calls[0]!.tool.revision };
    const again = { ...key, callId: 'c', personInput: { capabilities: {}, given } };
    expect(await call(again)).toMatchObject({ output: 'booked' });
    expect(await call(again)).toMatchObject({ output: 'booked', replayOf: 'c' });
    expect(await call({ ...key, callId: 'later' })).toMatchObject({ output: 'booked', replayOf: 'c' });
    expect(executor.calls).toHaveLength(2);
    expect(toExecMessage(executor.calls[1]!)).toMatchObject({ input: { given } });
    const changed = { ...executor.calls[1]!, tool: { ...executor.calls[1]!.tool, revision: 'changed' } };
    expect(toExecMessage(changed).input).toEqual({ capabilities: {} });
  });

  test('claimed and then silent: unknown outcome, in-band, not retryable, charged in full', async () => {
    const { audit, call, clock, journal, budget } = anEngine(
      { ...effect, cost_per_use_micro_usd: 100, cost_cap_micro_usd: 900 },
      new ScriptedExecutor((given) => {
        journal.claim(given);
        return hangs(given);
      }),
    );
    const result = await over(clock, 20_000, call());
    expect(result).toMatchObject({
      ok: false,
      failure: { code: 'OUTCOME_UNKNOWN', retryable: false },
      usage: { microUsd: 900 },
    });
    expect(budget.spent).toBe(900);
    // The tool was too slow; the fleet did not fail.
    expect(toCallStatus(audit.records[0]!)).toBe('tool_error');
  });

  test('silent and never claimed: withdrawn, so that no executor can begin it', async () => {
    const { call, clock, executor, journal } = anEngine(effect, new ScriptedExecutor(hangs));
    expect(await over(clock, 20_000, call({ callId: 'c' }))).toMatchObject({ failure: { code: 'ATTEMPT_TIMED_OUT' } });
    expect(journal.entries.get('c')?.state).toBe('expired');
    expect(journal.claim({ ...executor.calls[0]!, fence: 1 })).toBe(false);
  });

  test('a job that runs again after its gateway died waits for the outcome of the executor', async () => {
    const { ports, call, clock, executor } = anEngine(effect, new ScriptedExecutor(() => okReply()));
    const outcome = { ...(await call()), output: 'left by the executor' };
    let asked = 0;
    ports.journal.accept = ({ maker }) => {
      asked += 1;
      if (asked < 4) return Promise.resolve({ kind: 'claimed', state: 'claimed' });
      return Promise.resolve({ kind: 'finished', callId: 'c', outcome, maker });
    };
    const again = makeExecuteCall(ports)(aRequest(clock, { callId: 'c', mode: resumed }));
    expect(await over(clock, 5_000, again)).toMatchObject({ ok: true, output: 'left by the executor' });
    expect(executor.calls).toHaveLength(1);
  });

  test.each([
    ['reached the upstream', true, 'OUTCOME_UNKNOWN', false],
    ['never left', false, 'NETWORK_ERROR', true],
  ])('a connection that broke after the request %s', async (_, delivered, code, retryable) => {
    const { call, journal } = anEngine(
      effect,
      new ScriptedExecutor((given) => {
        journal.claim(given);
        return failedReply('NETWORK_ERROR', { message: 'broke off', facts: { delivered } });
      }),
    );
    const { failure } = await call();
    expect(failure).toMatchObject({ code, retryable, message: expect.stringContaining('broke off') });
  });

  test('an outcome that never arrives is unknown within the deadline', async () => {
    const { ports, clock } = anEngine(effect, once);
    ports.journal.accept = () => Promise.resolve({ kind: 'claimed', state: 'claimed' });
    const again = makeExecuteCall(ports)(aRequest(clock, { deadlineAt: clock.now() + 3_000, mode: resumed }));
    expect(await over(clock, 3_000, again)).toMatchObject({ failure: { code: 'OUTCOME_UNKNOWN' } });
  });

  test('nothing runs while the journal is unavailable', async () => {
    const { ports, clock, executor } = anEngine(effect, new ScriptedExecutor(() => okReply()));
    ports.journal.accept = () => Promise.reject(new Error('ECONNREFUSED'));
    const run = makeExecuteCall(ports);
    for (const ask of [key, { mode: resumed }])
      await expect(run(aRequest(clock, ask))).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
    expect(executor.calls).toHaveLength(0);
  });

  test('same key and arguments: replays the first outcome without quota and budget', async () => {
    const { call, executor, budget } = anEngine(
      { ...effect, rate_limit: 1, cost_per_use_micro_usd: 10 },
      new ScriptedExecutor(
        () => okReply('first'),
        () => okReply('second'),
      ),
    );
    await call({ callId: 'c-1', ...key });
    const replay = await call({ callId: 'c-2', ...key, rawArguments: { a: '1' } });
    expect(replay).toMatchObject({ output: 'first', replayOf: 'c-1' });
    expect(executor.calls).toHaveLength(1);
    expect(budget.spent).toBe(10);
  });

  test('replays failures, refuses other arguments with 422 and separates tenants', async () => {
    const { call, executor } = anEngine(
      effect,
      new ScriptedExecutor(() => failedReply('TOOL_ERROR', { message: 'no such order' })),
    );
    await call(key);
    expect(await call(key)).toMatchObject({ ok: false, failure: { message: 'no such order' } });
    await expect(call({ ...key, rawArguments: { a: 2 } })).rejects.toMatchObject({ code: 'IDEMPOTENCY_MISMATCH' });
    await call({ ...key, principal: { tenantId: 'other', userId: 'u', roles: [], tools: ['*'], via: 'api_key' } });
    expect(executor.calls).toHaveLength(2);
  });

  test('while running: 409 with Retry-After, or the outcome for a caller that waits', async () => {
    const { call, clock, executor } = anEngine(
      effect,
      new ScriptedExecutor(async () => {
        await clock.sleep(1_000);
        return okReply('first');
      }),
    );
    const first = call(key);
    await clock.run(100);
    await expect(call(key)).rejects.toMatchObject({ code: 'CALL_IN_PROGRESS', retryAfterMs: 1_000 });
    const waiting = call({ ...key, idempotencyWaitMs: 5_000 });
    expect(await over(clock, 2_000, waiting)).toMatchObject({ output: 'first', replayOf: expect.any(String) });
    expect(await first).toMatchObject({ output: 'first' });
    expect(executor.calls).toHaveLength(1);
  });

  test('of concurrent calls with one key one runs', async () => {
    const { call, clock, executor } = anEngine(
      effect,
      new ScriptedExecutor(async () => {
        await clock.sleep(10);
        return okReply();
      }),
    );
    const results = await over(clock, 100, Promise.allSettled([call(key), call(key), call(key)]));
    expect(executor.calls).toHaveLength(1);
    expect(results.map((result) => result.status).toSorted()).toEqual(['fulfilled', 'rejected', 'rejected']);
  });

  test('a call refused before it ran stores nothing', async () => {
    const { call } = anEngine({ ...effect, rate_limit: 1 }, new ScriptedExecutor(() => okReply()));
    await call();
    await expect(call(key)).rejects.toMatchObject({ code: 'RATE_LIMITED' });
    await expect(call({ ...key, rawArguments: { a: 5 } })).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  });

  test('a retried keyed call stores the outcome of its last attempt', async () => {
    const { call, clock, journal } = anEngine(
      network,
      new ScriptedExecutor(
        (given) => {
          journal.claim(given);
          return failedReply('NETWORK_ERROR');
        },
        () => okReply('second'),
      ),
    );
    await over(clock, 10_000, call({ callId: 'c', ...key }));
    expect(journal.entries.get('c')).toMatchObject({ state: 'succeeded', fence: 2, outcome: { output: 'second' } });
  });

  test('a job that runs again after its gateway died does not wait for itself', async () => {
    const { call, clock, journal, ports } = anEngine(effect, new ScriptedExecutor(() => okReply('sent')));
    ports.journal.find = () => Promise.resolve({ kind: 'running', callId: 'c', retryAfterMs: 2_000 });
    const again = call({ callId: 'c', ...key, idempotencyWaitMs: 5_000 });
    expect(await over(clock, 6_000, again)).toMatchObject({ output: 'sent' });
    expect(journal.entries.get('c')?.state).toBe('succeeded');
  });

  test('that a lost gateway has left goes to a caller that waits for it', async () => {
    const { call, clock, ports, executor } = anEngine(effect, new ScriptedExecutor(() => okReply('sent')));
    const { find } = ports.journal;
    const seen = [{ kind: 'running', callId: 'lost', retryAfterMs: 2_000 } as const, { kind: 'unknown' } as const];
    ports.journal.find = (...args) => {
      const next = seen.shift();
      return next ? Promise.resolve(next) : find.apply(ports.journal, args);
    };
    const waiting = call({ ...key, idempotencyWaitMs: 5_000 });
    expect(await over(clock, 6_000, waiting)).toMatchObject({ output: 'sent' });
    expect(executor.calls).toHaveLength(1);
  });

  test.each(['', 'k'.repeat(256)])('refuses a key of invalid length', async (idempotencyKey) => {
    const { call } = anEngine(effect, new ScriptedExecutor(() => okReply()));
    await expect(call({ idempotencyKey })).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
  });
});
