import { anEngine, failedReply, okReply, ScriptedExecutor } from '@toolfleet/testing/engine-fixture';
import { describe, expect, test } from 'vitest';

const network = { retry_policy: { kind: 'network' as const } };

describe('breaker and fallback', () => {
  const down = () => failedReply('NETWORK_ERROR');

  test('opens per tool at half of 20 calls; refusals are 503 and neither retried nor charged', async () => {
    const { call, executor, budget, clock } = anEngine(
      { ...network, retry_policy: { kind: 'none' } },
      new ScriptedExecutor(down),
    );
    for (let index = 0; index < 20; index += 1) await call();
    await expect(call()).rejects.toMatchObject({
      code: 'BREAKER_OPEN',
      message: 'Circuit breaker open for adder (too many failures)',
    });
    expect(executor.calls).toHaveLength(20);
    expect([budget.spent, budget.held.size, clock.pending]).toEqual([0, 0, 1]); // the one timer turns the windows
  });

  test('errors about the input do not open it', async () => {
    const { call } = anEngine({}, new ScriptedExecutor(() => failedReply('TOOL_ERROR')));
    for (let index = 0; index < 40; index += 1) expect(await call()).toMatchObject({ failure: { code: 'TOOL_ERROR' } });
  });

  test('replaces a failure with a stale result, marked with its age and the failure', async () => {
    const { call, clock, audit } = anEngine({}, new ScriptedExecutor(() => okReply('old'), down));
    await call();
    clock.advance(600_000);
    expect(await call()).toMatchObject({
      ok: true,
      output: 'old',
      provenance: 'stale_cache',
      usage: { microUsd: 0 },
      metadata: { fallback: 'stale_cache', cache_age_ms: 600_000 },
      replaced: { code: 'NETWORK_ERROR' },
    });
    expect(await call()).toMatchObject({ text: expect.stringMatching(/^Not a live result: .* 10 min ago\. done$/) });
    expect(audit.records[1]).toMatchObject({ ok: true, provenance: 'stale_cache' });
    clock.advance(1_800_000);
    expect(await call()).toMatchObject({ ok: false });
  });

  test('replaces a failure with the stub and a disclaimer', async () => {
    const { call } = anEngine({ stub_data: { hotels: [] } }, new ScriptedExecutor(down));
    const result = await call();
    expect(result).toMatchObject({
      ok: true,
      output: { hotels: [] },
      provenance: 'stub',
      metadata: { fallback: 'stub_data' },
    });
    expect(result.text).toContain('not a live result');
  });

  test('else explains the failure as JSON', async () => {
    const { call } = anEngine(
      {},
      new ScriptedExecutor(() => failedReply('NETWORK_ERROR', { message: 'a "quoted"\nreason' })),
    );
    const result = await call();
    expect(result).toMatchObject({ ok: false, metadata: { fallback: 'graceful_error' } });
    expect(JSON.parse(result.text)).toEqual({
      error: 'network_error',
      tool: 'adder',
      message: 'a "quoted"\nreason',
      suggestion: 'The upstream is unreachable; retry later.',
    });
  });

  test('explains what a tool itself reports, without a mark', async () => {
    const { call } = anEngine({}, new ScriptedExecutor(() => failedReply('TOOL_ERROR', { message: 'no such page' })));
    const result = await call();
    expect(JSON.parse(result.text)).toMatchObject({ message: 'no such page' });
    expect(result.metadata).not.toHaveProperty('fallback');
  });

  test('GRACEFUL_ERROR_AS_SUCCESS shows explained failures as successes', async () => {
    const engine = anEngine({ cost_per_use_micro_usd: 100 }, new ScriptedExecutor(down), { asSuccess: true });
    for (const asked of [1, 2]) {
      const result = await engine.call();
      expect(result).toMatchObject({ ok: true, metadata: { fallback: 'graceful_error', code: 'NETWORK_ERROR' } });
      expect(JSON.parse(result.text)).toMatchObject({ error: 'network_error' });
      expect(engine.executor.calls, 'no failure is cached').toHaveLength(asked);
    }
    expect(engine.audit.records).toMatchObject([{ ok: false, code: 'NETWORK_ERROR' }, { ok: false }]);
    expect(engine.budget.settled).toMatchObject([{ row: { success: false } }, { row: { success: false } }]);
  });

  test.each<[string, () => ReturnType<typeof okReply>]>([
    ['what the tool itself answered', () => failedReply('TOOL_ERROR')],
    ['a 404', () => failedReply('UPSTREAM_ERROR', { retryable: false, details: { status: 404 } })],
  ])('never replaces %s', async (_, reply) => {
    const { call, clock } = anEngine({ stub_data: 'stub' }, new ScriptedExecutor(() => okReply('old'), reply));
    await call();
    clock.advance(600_000);
    expect(await call()).toMatchObject({ ok: false, provenance: 'live' });
  });

  test('never replaces invalid arguments, rate limits and budgets', async () => {
    const { call, clock } = anEngine({ stub_data: 'stub', rate_limit: 1 }, new ScriptedExecutor(() => okReply('old')));
    await call();
    clock.advance(310_000);
    await call();
    await expect(call({ rawArguments: { a: 'x' } })).rejects.toMatchObject({ code: 'ARGUMENTS_INVALID' });
    await expect(call({ rawArguments: { a: 9 } })).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  });
});
