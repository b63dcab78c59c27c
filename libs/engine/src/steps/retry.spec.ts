import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { RETRIED_CLASSES } from '@toolfleet/contracts/tool-settings';
import { anEngine, failedReply, hangs, okReply, over, ScriptedExecutor } from '@toolfleet/testing/engine-fixture';
import { describe, expect, test } from 'vitest';

const network = { retry_policy: { kind: 'network' as const } };

const on = (...classes: (typeof RETRIED_CLASSES)[number][]): Partial<RegisteredTool> => ({
  retry_policy: { kind: 'custom', max_attempts: 2, base_delay_ms: 1, multiplier: 1, on: classes },
});
const upstreamIsDown = () => failedReply('UPSTREAM_ERROR', { retryable: true, details: { status: 503 } });

describe('retry', () => {
  const flaky = () =>
    new ScriptedExecutor(
      () => failedReply('NETWORK_ERROR'),
      () => failedReply('NETWORK_ERROR'),
      () => okReply('third'),
    );

  test('an idempotent tool with policy `network` gets three attempts, jittered and logged', async () => {
    const { call, clock, audit, executor } = anEngine(network, flaky());
    const result = await over(clock, 10_000, call());
    expect(result).toMatchObject({ ok: true, output: 'third', attempts: 3 });
    expect(executor.calls.map((attempt) => attempt.attempt)).toEqual([1, 2, 3]);
    expect(audit.retries).toHaveLength(2);
    expect(audit.retries[0]?.delayMs).toBeLessThanOrEqual(1_000);
    expect(result.timing.wait_ms).toBe(audit.retries.reduce((sum, retry) => sum + retry.delayMs, 0));
  });

  test('retries an attempt that timed out, after aborting its signal', async () => {
    const { call, clock, executor } = anEngine(
      { ...network, timeout_seconds: 2 },
      new ScriptedExecutor(hangs, () => okReply('second')),
    );
    expect(await over(clock, 10_000, call())).toMatchObject({ output: 'second', attempts: 2 });
    expect(executor.calls[0]?.signal.aborted).toBe(true);
  });

  test('reports the number of attempts when all failed and keeps the error class', async () => {
    const { call, clock } = anEngine(network, new ScriptedExecutor(() => failedReply('NETWORK_ERROR')));
    const result = await over(clock, 60_000, call());
    expect(result).toMatchObject({
      ok: false,
      attempts: 3,
      failure: { code: 'NETWORK_ERROR', errorType: 'network_error' },
    });
    expect(result.failure?.message).toMatch(/^All 3 attempts failed: /);
  });

  test.each<[string, Partial<RegisteredTool>, () => ReturnType<typeof failedReply>, number]>([
    ['a builtin without a policy', {}, () => failedReply('NETWORK_ERROR'), 1],
    [
      'a tool with effects, whatever it declares',
      { idempotent: false, ...network },
      () => failedReply('NETWORK_ERROR'),
      1,
    ],
    ['an answer that would be the same', network, () => failedReply('TOOL_ERROR'), 1],
    ['a 4xx', network, () => failedReply('UPSTREAM_ERROR', { retryable: false, details: { status: 404 } }), 1],
    ['a refusal by our own guard', network, () => failedReply('EGRESS_REFUSED'), 1],
    [
      'any error, where the policy says idempotent',
      { retry_policy: { kind: 'idempotent' } },
      () => failedReply('TOOL_ERROR'),
      2,
    ],
    [
      'an idempotent OpenAPI tool without a policy',
      {
        binding: {
          kind: 'openapi',
          collection: 'c',
          baseUrl: 'http://x',
          operationId: 'o',
          method: 'GET',
          path: '/',
          plan: {},
        },
      },
      () => failedReply('UPSTREAM_ERROR', { retryable: true, details: { status: 503 } }),
      3,
    ],
    [
      'custom figures',
      { retry_policy: { kind: 'custom', max_attempts: 5, base_delay_ms: 1, multiplier: 1 } },
      () => failedReply('ATTEMPT_TIMED_OUT'),
      5,
    ],
    ['network_error of a policy, which includes upstream_error', on('network_error'), upstreamIsDown, 2],
    [
      'internal_error of a policy, which includes execution_error',
      on('internal_error'),
      () => failedReply('TOOL_ERROR'),
      2,
    ],
    ['a class that the policy does not name', on('timeout'), upstreamIsDown, 1],
  ])('%s', async (_, tool, reply, attempts) => {
    const { call, clock, executor } = anEngine(tool, new ScriptedExecutor(reply));
    await over(clock, 60_000, call({}));
    expect(executor.calls).toHaveLength(attempts);
  });

  test.each([
    ['mcp', 1],
    ['mcp', 4],
    ['openapi', 1],
    ['openapi', 4],
  ] as const)('%s tools without a policy get the attempts the operator sets: %i', async (kind, attempts) => {
    const binding =
      kind === 'mcp'
        ? { kind, server: 's', transport: 'streamable-http' as const, url: 'http://x', remoteName: 'r' }
        : { kind, collection: 'c', baseUrl: 'http://x', operationId: 'o', method: 'GET', path: '/', plan: {} };
    const settings = { attempts: { mcp: 2, openapi: 2, [kind]: attempts } };
    const run = async (tool: Partial<RegisteredTool>, code: 'NETWORK_ERROR' | 'EXECUTOR_UNAVAILABLE') => {
      const reply = () => failedReply(code, code === 'NETWORK_ERROR' ? {} : { facts: { begun: 'no' } });
      const { call, clock, executor } = anEngine({ binding, ...tool }, new ScriptedExecutor(reply), { settings });
      await over(
        clock,
        120_000,
        call().catch(() => undefined),
      );
      return executor.calls.length;
    };
    expect(await run({}, 'NETWORK_ERROR')).toBe(attempts);
    expect(await run(network, 'NETWORK_ERROR')).toBe(3); // what the tool declares, counts
    expect(await run({ idempotent: false }, 'NETWORK_ERROR')).toBe(1);
    expect(await run({ idempotent: false }, 'EXECUTOR_UNAVAILABLE')).toBe(2); // it never began
  });

  test('respects no_retry and the deadline', async () => {
    const forced = anEngine(network, flaky());
    await over(forced.clock, 10_000, forced.call({ noRetry: true }));
    expect(forced.executor.calls).toHaveLength(1);
    const late = anEngine(network, new ScriptedExecutor(() => failedReply('NETWORK_ERROR', { retryAfterMs: 30_000 })));
    expect(await late.call({ timeLeftMs: 20_000 })).toMatchObject({ attempts: 1, failure: { code: 'NETWORK_ERROR' } });
  });

  test.each([
    ['that never reached an executor', 'EXECUTOR_UNAVAILABLE'],
    ['that a late executor refused', 'QUEUE_FULL'],
  ] as const)('an attempt %s is sent again for every tool', async (_, code) => {
    const unavailable = () => failedReply(code, { facts: { begun: 'no' } });
    const { call, clock } = anEngine({ idempotent: false }, new ScriptedExecutor(unavailable, () => okReply('second')));
    expect(await over(clock, 5_000, call())).toMatchObject({ ok: true, output: 'second', attempts: 2 });
  });

  test('an attempt whose executor found the journal hanging is not sent again', async () => {
    const hung = new ScriptedExecutor(() => failedReply('SERVICE_UNAVAILABLE', { facts: { begun: 'no' } }));
    const { call, clock, executor } = anEngine({ idempotent: false }, hung);
    const refused = call().catch((error: unknown) => error);
    expect(await over(clock, 5_000, refused)).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
    expect(executor.calls).toHaveLength(1);
  });

  test('does not retry an executor that is full', async () => {
    const busy = new ScriptedExecutor(() => failedReply('QUEUE_FULL'));
    const { call, clock, executor } = anEngine({ idempotent: false }, busy);
    const refused = call().catch((error: unknown) => error);
    expect(await over(clock, 5_000, refused)).toMatchObject({ code: 'QUEUE_FULL' });
    expect(executor.calls).toHaveLength(1);
  });
});
