import type { ToolError } from '@toolfleet/contracts';
import {
  anEngine,
  aRequest,
  failedReply,
  hangs,
  okReply,
  over,
  ScriptedExecutor,
} from '@toolfleet/testing/engine-fixture';
import { describe, expect, test } from 'vitest';
import { makeExecuteCall } from '../execute-call.js';

describe('limits', () => {
  test('rate limit: refuses at once with the time of the next token', async () => {
    const { call, budget } = anEngine({ rate_limit: 2, cache_ttl_seconds: 0 }, new ScriptedExecutor(() => okReply()));
    await call();
    await call();
    await expect(call()).rejects.toMatchObject({
      code: 'RATE_LIMITED',
      message: 'Rate limit exceeded: 2/min',
      retryAfterMs: 30_000,
    });
    expect(budget.held.size).toBe(0);
  });

  test('rate limit: waits within the deadline in mode `wait` and reports the time', async () => {
    const { call, clock } = anEngine(
      { rate_limit: 2, rate_limit_mode: 'wait', cache_ttl_seconds: 0 },
      new ScriptedExecutor(() => okReply()),
    );
    await call();
    await call();
    const result = await over(clock, 30_000, call());
    expect(result).toMatchObject({ ok: true, timing: { wait_ms: 30_000 } });
  });

  test('budget: a call charged before has an unknown outcome and does not run again', async () => {
    const executor = new ScriptedExecutor(() => okReply(null));
    const { call, budget } = anEngine({ cost_cap_micro_usd: 600, cache_ttl_seconds: 0 }, executor, {});
    budget.reserve = ({ call_id: id }) => ({
      admitted: false,
      call_id: id,
      code: 'BUDGET_EXCEEDED',
      scope: `call:${id}`,
      limit: 0,
      used: 0,
    });
    const told = await call().catch((error: unknown) => error);
    expect(told).toSatisfy(
      (outcome: { code?: string; failure?: { code: string } }) =>
        (outcome.code ?? outcome.failure?.code) === 'OUTCOME_UNKNOWN',
    );
    expect(executor.calls).toHaveLength(0);
  });

  test('budget: usage settled in slices is shown and not charged again, but the price is', async () => {
    const agent = { binding: { kind: 'builtin' as const, toolset: 'agent' as const, handler: 'x' } };
    const cost = { ...agent, cost_per_use_micro_usd: 40, cache_ttl_seconds: 0 };
    for (const [usage, charged, shown] of [
      [{ tokens: 900, microUsd: 0, settled: true }, { tokens: 0, micro_usd: 40 }, 40],
      [{ tokens: 900, microUsd: 90, settled: true }, { tokens: 0, micro_usd: 0 }, 90],
      [{ tokens: 900, microUsd: 90 }, { tokens: 900, micro_usd: 40 }, 40],
    ] as const) {
      const { call, budget } = anEngine(cost, new ScriptedExecutor(() => okReply(null, { usage })));
      expect(await call()).toMatchObject({ usage: { tokens: 900, microUsd: shown } });
      expect(budget.settled).toMatchObject([{ ...charged, row: charged }]);
    }
  });

  test('budget: reserves the cap, settles the usage and refuses at the limit with the scope', async () => {
    const tool = { cost_cap_micro_usd: 600, cost_per_use_micro_usd: 100, cache_ttl_seconds: 0 };
    const { call, budget } = anEngine(
      tool,
      new ScriptedExecutor(() => okReply(null, { metadata: { cost_usd: 0.0005 } })),
      { limitMicroUsd: 1_000 },
    );
    expect(await call()).toMatchObject({ usage: { microUsd: 500 } });
    await expect(call()).rejects.toMatchObject({
      code: 'BUDGET_EXCEEDED',
      details: { scope: 'request', limit: 1_000, used: 500 },
    });
    expect([budget.spent, budget.held.size]).toEqual([500, 0]);
    expect(budget.settled[0]?.row).toMatchObject({
      tokens: 250,
      real_tokens: 0,
      micro_usd: 500,
      success: true,
      provenance: 'live',
      tool_name: 'adder',
    });
  });

  test.each<[string, ReturnType<typeof okReply>, 'settled' | 'released']>([
    ['a success', okReply(), 'settled'],
    ['a failure of the tool', failedReply('TOOL_ERROR'), 'settled'],
    ['a network failure', failedReply('NETWORK_ERROR'), 'settled'],
    ['a refusal', failedReply('RATE_LIMITED'), 'released'],
  ])('%s is %s', async (_, reply, what) => {
    const { call, budget } = anEngine(
      { cost_per_use_micro_usd: 100 },
      new ScriptedExecutor(() => reply as ReturnType<typeof okReply>),
    );
    await call().catch(() => undefined);
    expect(budget[what]).toHaveLength(1);
    expect(budget.held.size).toBe(0);
  });

  test('limits calls in flight and shares them between tenants above half', async () => {
    const { ports, clock } = anEngine({ rate_limit: 0, cache_ttl_seconds: 0 }, new ScriptedExecutor(hangs));
    const execute = makeExecuteCall({ ...ports, settings: { ...ports.settings, maxConcurrentCalls: 8 } });
    const abort = new AbortController();
    let serial = 0;
    const call = (tenantId: string) =>
      execute(
        aRequest(clock, {
          signal: abort.signal,
          rawArguments: { a: (serial += 1) },
          principal: { tenantId, userId: 'u', roles: [], tools: ['*'], via: 'api_key' },
        }),
      ).catch((error: ToolError) => error.code);
    const greedy = Array.from({ length: 6 }, () => call('greedy'));
    const modest = call('modest');
    await clock.run(1);
    expect(await call('greedy')).toBe('QUEUE_FULL'); // 7 of 8 are taken, 6 of them by this tenant
    const other = call('modest');
    await clock.run(1);
    expect(await call('third')).toBe('QUEUE_FULL');
    abort.abort();
    expect(await Promise.all([...greedy, modest, other])).toHaveLength(8);
  });

  test('limits the bytes that the results of a tenant in flight are expected to have', async () => {
    const large = okReply(null, { text: 'x'.repeat(4 * 1024 * 1024) });
    const { ports, clock } = anEngine(
      { rate_limit: 0, cache_ttl_seconds: 0 },
      new ScriptedExecutor(() => large, hangs),
    );
    const execute = makeExecuteCall(ports);
    const abort = new AbortController();
    let serial = 0;
    const call = (tenantId: string) =>
      execute(
        aRequest(clock, {
          signal: abort.signal,
          rawArguments: { a: (serial += 1) },
          principal: { tenantId, userId: 'u', roles: [], tools: ['*'], via: 'api_key' },
        }),
      ).catch((error: ToolError) => error.code);
    expect(await call('greedy')).toMatchObject({ ok: true });
    // Results of 8 MiB with their text: eight fit into 64 MiB.
    const running = Array.from({ length: 8 }, () => call('greedy'));
    await clock.run(1);
    expect(await call('greedy')).toBe('QUEUE_FULL');
    // Another tenant has not seen results of this tool.
    const others = Array.from({ length: 10 }, () => call('modest'));
    await clock.run(1);
    abort.abort();
    const ends = await Promise.all([...running, ...others]);
    expect(ends).not.toContain('QUEUE_FULL');
  });

  test('load shedding: refuses calls with less time than their tool usually takes, except for probes', async () => {
    const { call, clock, executor } = anEngine(
      { cache_ttl_seconds: 0 },
      new ScriptedExecutor(async () => {
        await clock.sleep(1_000);
        return okReply();
      }),
    );
    for (let index = 0; index < 20; index += 1) await over(clock, 1_000, call());
    const answers = [];
    for (let index = 0; index < 10; index += 1) {
      answers.push(
        await over(
          clock,
          600,
          call({ timeLeftMs: 500 }).catch((error: ToolError) => error.code),
        ),
      );
    }
    expect(answers.filter((answer) => answer === 'DEADLINE_EXCEEDED')).toHaveLength(9);
    expect(executor.calls).toHaveLength(21);
  });

  test('load shedding: another tenant, and a queued tool, are not refused because of the time of earlier calls', async () => {
    const other = { tenantId: 'globex', userId: 'bob', roles: [], tools: ['*'], via: 'api_key' as const };
    for (const [tool, principal] of [
      [{}, other],
      [{ binding: { kind: 'python' as const } }, undefined],
    ] as const) {
      const { call, clock } = anEngine(
        { ...tool, cache_ttl_seconds: 0 },
        new ScriptedExecutor(async ({ deadline }) => {
          await clock.sleep(deadline.remainingMs() < 600 ? 100 : 1_000);
          return okReply(null, { execute_ms: 1_000 });
        }),
      );
      for (let index = 0; index < 22; index += 1) await over(clock, 1_000, call());
      const fast = await over(clock, 600, call({ timeLeftMs: 500, principal: principal ?? aRequest(clock).principal }));
      expect(fast.ok).toBe(true);
    }
  });

  test('load shedding: a queued tool is refused when its calls wait longer than the time left', async () => {
    const { call } = anEngine(
      { binding: { kind: 'python' }, cache_ttl_seconds: 0 },
      new ScriptedExecutor(() => okReply(null, { execute_ms: 5, queue_ms: 800 })),
    );
    for (let index = 0; index < 22; index += 1) await call();
    await expect(call({ timeLeftMs: 500 })).rejects.toMatchObject({
      code: 'DEADLINE_EXCEEDED',
      details: { typical_ms: 800 },
    });
  });
});
