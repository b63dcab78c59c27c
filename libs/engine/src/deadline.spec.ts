import { ToolError } from '@toolfleet/contracts';
import type { ExecResponse } from '@toolfleet/contracts/execution';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
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
import type { Call } from './call.js';
import { makeExecuteCall } from './execute-call.js';

const once = new ScriptedExecutor(() => okReply(2));
describe('deadline and attempt timeout', () => {
  test('an attempt ends at its timeout, in-band', async () => {
    const { call, clock } = anEngine({ timeout_seconds: 2 }, new ScriptedExecutor(hangs));
    const result = await over(clock, 2_000, call());
    expect(result.failure).toMatchObject({
      code: 'ATTEMPT_TIMED_OUT',
      errorType: 'timeout',
      message: "Tool 'adder' timed out after 2000ms",
    });
  });

  test.each<[Partial<RegisteredTool>, number]>([
    [{ timeout_seconds: 7 }, 7_000],
    [{ name: 'search_hotels' }, 10_000],
    [{ name: 'create_order' }, 30_000],
    [{ binding: { kind: 'mcp', server: 's', transport: 'streamable-http', url: 'http://x', remoteName: 'r' } }, 30_000],
    [
      {
        binding: { kind: 'python' },
        input_schema: { type: 'object', properties: { a: {}, strictness: { enum: ['strict'], default: 'strict' } } },
      },
      5_000,
    ],
    [{ binding: { kind: 'python' } }, 10_000],
    [{ binding: { kind: 'python' }, timeout_seconds: 600 }, 60_000],
    [{}, 15_000],
  ])('%j gets %i ms', async (tool, timeoutMs) => {
    const { call, executor } = anEngine(tool, new ScriptedExecutor(() => okReply()));
    await call({ toolName: tool.name ?? 'adder' });
    expect(executor.calls[0]?.timeoutMs).toBe(timeoutMs);
  });

  test('a deadline that passes during an attempt is in-band, before any attempt it is 504', async () => {
    const during = anEngine({}, new ScriptedExecutor(hangs));
    expect(await over(during.clock, 1_000, during.call({ timeLeftMs: 1_000 }))).toMatchObject({
      failure: { code: 'ATTEMPT_TIMED_OUT' },
    });
    const before = anEngine({ rate_limit: 1, rate_limit_mode: 'wait' }, new ScriptedExecutor(() => okReply()));
    await before.call({ rawArguments: { a: 1 } });
    const waiting = before.call({ rawArguments: { a: 2 }, timeLeftMs: 59_000 });
    await expect(waiting).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  });

  test('a step that ignores its signal delays the caller by at most 250 ms', async () => {
    const { ports, clock } = anEngine({}, once);
    const catalog = Object.assign(Object.create(ports.catalog), { resolve: () => new Promise(() => {}) });
    const stuck = makeExecuteCall({ ...ports, catalog });
    await expect(over(clock, 1_250, stuck(aRequest(clock, { timeLeftMs: 1_000 })))).rejects.toMatchObject({
      code: 'DEADLINE_EXCEEDED',
    });
    const deaf = anEngine({}, new ScriptedExecutor(() => new Promise(() => {})));
    expect(await over(deaf.clock, 1_000, deaf.call({ timeLeftMs: 1_000 }))).toMatchObject({
      failure: { code: 'ATTEMPT_TIMED_OUT' },
    });
    const failing = anEngine({ idempotent: true }, new ScriptedExecutor(hangs));
    failing.ports.cache.getStale = () => new Promise(() => {});
    expect(await over(failing.clock, 1_250, failing.call({ timeLeftMs: 1_000 }))).toMatchObject({
      failure: { code: 'ATTEMPT_TIMED_OUT', message: "Tool 'adder' timed out after 1000ms" },
      attempts: 1,
    });
  });

  test('a caller that cancels stops the work at once', async () => {
    const { call, executor, clock, budget } = anEngine({}, new ScriptedExecutor(hangs));
    const abort = new AbortController();
    const done = call({ signal: abort.signal });
    await clock.run(10);
    abort.abort();
    expect(await done).toMatchObject({ ok: false, failure: { code: 'CANCELLED' } });
    expect(executor.calls[0]?.signal.aborted).toBe(true);
    expect(clock.pending).toBe(0);
    expect(budget.held.size).toBe(0);
  });

  test.each([
    ['idempotent', true],
    ['with effects, when its executor reports that everything has stopped', false],
  ])('a cancelled call that is %s reports and is charged what it used until then', async (_, idempotent) => {
    const stopped = failedReply('CANCELLED', { facts: { begun: 'ended' } });
    const reply = { ...stopped, output: ['half'], usage: { tokens: 300, microUsd: 70 } };
    const lastWord = (call: Call) =>
      new Promise<ExecResponse>((resolve) => call.signal.addEventListener('abort', () => resolve(reply)));
    const { call, clock, budget } = anEngine({ idempotent }, new ScriptedExecutor(lastWord));
    const abort = new AbortController();
    const done = call({ signal: abort.signal });
    await clock.run(10);
    abort.abort(new ToolError('CANCELLED'));
    expect(await done).toMatchObject({
      attempts: 1,
      output: ['half'],
      usage: { tokens: 300, microUsd: 70 },
      failure: { code: 'CANCELLED' },
    });
    expect(budget.settled).toMatchObject([{ tokens: 300, micro_usd: 70 }]);
  });

  test('a cancelled call waits a second for the last response of its executor', async () => {
    const { call, clock } = anEngine({}, new ScriptedExecutor(() => new Promise(() => {})));
    const abort = new AbortController();
    const done = call({ signal: abort.signal });
    await clock.run(10);
    abort.abort(new ToolError('CANCELLED'));
    expect(await over(clock, 1_000, done)).toMatchObject({ failure: { code: 'CANCELLED' } });
  });
});
