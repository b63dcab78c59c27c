import { CATALOGUE, ToolError, type ErrorCode } from '@toolfleet/contracts';
import { anEngine, failedReply, hangs, okReply, over, ScriptedExecutor } from '@toolfleet/testing/engine-fixture';
import { expect, test, vi } from 'vitest';
import { isDeadlineShortened } from '../attempt.js';
import { failed } from '../result.js';
import { judge } from './breaker.js';

const upstream = (status: number, retryable: boolean) => {
  const result = failed(new ToolError('UPSTREAM_ERROR', { facts: { status } }));
  return { ...result, failure: { ...result.failure!, retryable } };
};

test.each([
  [500, 'failure'],
  [503, 'failure'],
  [408, 'failure'],
  [429, 'failure'],
  [400, 'success'],
  [404, 'success'],
  [422, 'success'],
])('an upstream that answers %i counts as %s', (status, judgement) => {
  expect(judge(upstream(status, status >= 500 || status === 408 || status === 429))).toBe(judgement);
});

test('an upstream error without a status counts if it is retryable', () => {
  const { facts: _status, ...failure } = upstream(0, true).failure;
  const result = { ...failed(new ToolError('UPSTREAM_ERROR')), failure };
  expect(judge(result)).toBe('failure');
  expect(judge({ ...result, failure: { ...failure, retryable: false } })).toBe('success');
});

test('every other failure is a success, a failure or ignored', () => {
  const by: Record<string, ErrorCode[]> = { success: [], failure: [], ignored: [] };
  for (const code of Object.keys(CATALOGUE) as ErrorCode[]) {
    if (CATALOGUE[code].origin === 'execution' && code !== 'UPSTREAM_ERROR')
      by[judge(failed(new ToolError(code)))]!.push(code);
  }
  expect(by).toEqual({
    failure: ['ATTEMPT_TIMED_OUT', 'NETWORK_ERROR', 'WORKER_LOST'],
    ignored: ['CANCELLED', 'OUTCOME_UNKNOWN'],
    success: expect.arrayContaining(['TOOL_ERROR', 'SANDBOX_ERROR', 'EGRESS_REFUSED']) as ErrorCode[],
  });
});

test('failures of a target that the caller chose are ignored', () => {
  for (const code of ['NETWORK_ERROR', 'ATTEMPT_TIMED_OUT', 'UPSTREAM_ERROR'] as const) {
    const facts = { blame: 'caller', ...(code === 'UPSTREAM_ERROR' ? { status: 500 } : {}) } as const;
    expect(judge(failed(new ToolError(code, { facts })))).toBe('ignored');
  }
});

test('an executor that is not running does not open the breaker', async () => {
  const gone = new ToolError('EXECUTOR_UNAVAILABLE', { facts: { begun: 'no', noResponders: true } });
  expect(judge(failed(gone))).toBe('ignored');
  expect(judge(failed(new ToolError('EXECUTOR_UNAVAILABLE', { facts: { begun: 'no' } })))).toBe('failure');
});

const WINDOW = 20;
const stateAfterTimeouts = async (given: { timeoutMs?: number; timeLeftMs?: number }, kind?: 'python') => {
  const tool = kind ? { binding: { kind }, idempotent: false } : { timeout_seconds: 2, idempotent: false };
  const { call, clock, ports, executor } = anEngine(tool, new ScriptedExecutor(hangs));
  await Promise.all(
    Array.from({ length: WINDOW }, (_, index) => over(clock, 2_000, call({ rawArguments: { a: index }, ...given }))),
  );
  expect(executor.calls).toHaveLength(WINDOW);
  return { state: ports.breakers.getState('adder'), executor };
};

test('a tool that uses up its own time opens its breaker', async () => {
  expect((await stateAfterTimeouts({})).state).toBe('open');
});

test.each([
  ['timeout_ms', { timeoutMs: 100 }, undefined],
  ['a deadline', { timeLeftMs: 1_000 }, undefined],
  ['the code of a sandbox run', { timeLeftMs: 1_000 }, 'python' as const],
])('time-outs caused by %s do not open the breaker', async (_, given, kind) => {
  const { state, executor } = await stateAfterTimeouts(given, kind);
  expect(state).toBe('closed');
  expect(isDeadlineShortened(executor.calls[0]!)).toBe(true);
});

test.each([
  ['an executor that acknowledged nothing', true, { cause: 'executor' }],
  ['a tool that took too long', false, {}],
])('a refusal names the cause of the failures: %s', async (_, isUnacknowledged, cause) => {
  const silent = new ScriptedExecutor((call) => {
    call.active.isUnacknowledged = isUnacknowledged;
    return hangs(call);
  });
  const { call, clock, ports } = anEngine({ timeout_seconds: 2, idempotent: false }, silent);
  const finished = vi.spyOn(ports.meter, 'finished');
  await Promise.all(
    Array.from({ length: WINDOW }, (_lane, index) => over(clock, 2_000, call({ rawArguments: { a: index } }))),
  );
  await expect(call()).rejects.toMatchObject({ code: 'BREAKER_OPEN', details: { tool: 'adder', ...cause } });
  expect(finished.mock.calls.map(([{ isExecutorFault }]) => isExecutorFault)).toEqual(
    Array.from({ length: WINDOW + 1 }, () => isUnacknowledged),
  );
});

const THREE_ATTEMPTS = { kind: 'custom', max_attempts: 3, base_delay_ms: 0, multiplier: 1 } as const;
const callBy = (tenantId: string) => ({
  principal: { tenantId, userId: 'u', roles: [], tools: ['*'], via: 'api_key' as const },
});

test('counts calls, not attempts, and opens per tenant until a second tenant agrees', async () => {
  let isDown = true;
  const executor = new ScriptedExecutor(() => (isDown ? failedReply('NETWORK_ERROR') : okReply()));
  const { call, clock, ports } = anEngine({ retry_policy: THREE_ATTEMPTS, cache_ttl_seconds: 0 }, executor);
  const failing = async (tenant: string, count: number) => {
    for (let index = 0; index < count; index += 1)
      await over(clock, 10, call({ ...callBy(tenant), rawArguments: { a: index } }));
  };
  await failing('one', WINDOW - 1);
  expect(executor.calls.length).toBeGreaterThan(WINDOW);
  expect(ports.breakers.getState('adder')).toBe('closed');
  await failing('one', 1);
  expect(ports.breakers.getState('adder', 'one')).toBe('open');
  isDown = false;
  expect(await call(callBy('two'))).toMatchObject({ ok: true });
  await expect(call(callBy('one'))).rejects.toMatchObject({ code: 'BREAKER_OPEN' });
  isDown = true;
  await failing('two', WINDOW - 1); // and the successful call
  isDown = false;
  await expect(call(callBy('three'))).rejects.toMatchObject({ code: 'BREAKER_OPEN' });
});
