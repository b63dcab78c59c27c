import { ToolError } from '@toolfleet/contracts';
import { CATALOGUE, type ErrorCode } from '@toolfleet/contracts';
import { anEngine, failedReply, okReply, over, ScriptedExecutor } from '@toolfleet/testing/engine-fixture';
import { describe, expect, test } from 'vitest';

const PRICE = 100;
const CAP = 600;
const CHARGED = { nothing: 0, cost: PRICE, reservation: CAP };
const priced = { cost_per_use_micro_usd: PRICE, cost_cap_micro_usd: CAP, cache_ttl_seconds: 0 };
const codes = Object.keys(CATALOGUE) as ErrorCode[];

describe('the charge of a failed call', () => {
  test.each(
    codes.filter((code) => CATALOGUE[code].origin === 'execution').map((code) => [code, CATALOGUE[code].charge]),
  )('%s costs %s, in the answer, the metrics and its row', async (code, charge) => {
    const engine = anEngine(priced, new ScriptedExecutor(() => failedReply(code)));
    const microUsd = CHARGED[charge];
    expect(await engine.call()).toMatchObject({ ok: false, usage: { microUsd } });
    expect(engine.budget.settled).toMatchObject([
      { micro_usd: microUsd, row: { micro_usd: microUsd, success: false } },
    ]);
    expect(engine.audit.records).toMatchObject([{ microUsd }]);
  });

  test.each(codes.filter((code) => CATALOGUE[code].origin === 'request'))(
    '%s is a refusal without a row',
    async (code) => {
      const engine = anEngine(priced, new ScriptedExecutor(() => failedReply(code)));
      await expect(over(engine.clock, 10_000, engine.call())).rejects.toMatchObject({ code });
      expect([engine.budget.settled, engine.budget.held.size]).toEqual([[], 0]);
    },
  );

  test('no detail of a failure decides what it costs', async () => {
    const claims = { started: false, begun: 'no', delivered: false, target: 'chosen_by_caller', cause: 'executor' };
    const engine = anEngine(priced, new ScriptedExecutor(() => failedReply('TOOL_ERROR', { details: claims })));
    expect(await engine.call()).toMatchObject({ usage: { microUsd: PRICE } });
    expect(engine.budget.settled).toMatchObject([{ micro_usd: PRICE }]);
    expect(engine.audit.records).toMatchObject([{ isExecutorFault: false }]);
  });

  test('a free tool that fails has its own row', async () => {
    const engine = anEngine({ cache_ttl_seconds: 0 }, new ScriptedExecutor(() => failedReply('TOOL_ERROR')));
    await engine.call();
    expect(engine.budget.settled).toMatchObject([
      { micro_usd: 0, row: { success: false, tokens: 100, real_tokens: 0, provenance: 'live' } },
    ]);
  });

  test('a substitute is free and has a row that names its origin', async () => {
    const stub = { ...priced, stub_data: 'n/a' };
    const engine = anEngine(stub, new ScriptedExecutor(() => failedReply('NETWORK_ERROR')));
    expect(await engine.call()).toMatchObject({ ok: true, provenance: 'stub', usage: { microUsd: 0 } });
    expect(engine.budget.settled).toMatchObject([{ micro_usd: 0, row: { provenance: 'stub', tokens: 0 } }]);
  });
});

describe('a cost that the tool reports above its reservation', () => {
  const reports = () => new ScriptedExecutor(() => okReply(null, { metadata: { cost_usd: 0.002 } }));

  test('is charged up to the reservation, the same everywhere, and shown', async () => {
    const engine = anEngine(priced, reports());
    expect(await engine.call()).toMatchObject({
      usage: { microUsd: CAP },
      metadata: { cost_usd: 0.0006, reported_cost_usd: 0.002 },
    });
    expect(engine.budget.settled).toMatchObject([{ micro_usd: CAP, row: { micro_usd: CAP, tokens: 300 } }]);
    expect(engine.audit.records).toMatchObject([{ microUsd: CAP }]);
  });

  test('is charged in full where the tenant may overrun, and the overrun is shown', async () => {
    const engine = anEngine(priced, reports());
    engine.budget.mayOverrun = true;
    expect(await engine.call()).toMatchObject({
      usage: { microUsd: 2_000 },
      metadata: { cost_usd: 0.002, cost_overrun_usd: 0.0014 },
    });
    expect(engine.budget.settled).toMatchObject([{ micro_usd: 2_000, row: { micro_usd: 2_000 } }]);
  });

  test('is charged as reported for a tool without a price, which reserves nothing', async () => {
    const engine = anEngine({ cache_ttl_seconds: 0 }, reports());
    expect(await engine.call()).toMatchObject({ usage: { microUsd: 2_000 } });
  });
});

test('a reservation names the tool and the user, for the row of a lease that expires', async () => {
  const engine = anEngine(priced, new ScriptedExecutor(() => okReply()));
  await engine.call();
  expect(engine.budget.reserved).toMatchObject([{ tool_name: 'adder', user_id: 'ann', micro_usd: CAP }]);
});

test('a replay shows the charge of the first call, marked, and is not charged', async () => {
  const engine = anEngine(priced, new ScriptedExecutor(() => okReply('first')));
  const request = { idempotencyKey: 'k' };
  const first = await engine.call({ ...request, callId: 'c-1' });
  const again = await engine.call({ ...request, callId: 'c-2' });
  expect(first).toMatchObject({ usage: { microUsd: PRICE } });
  expect(again).toMatchObject({ usage: { microUsd: PRICE }, replayOf: 'c-1' });
  expect(engine.budget.settled).toHaveLength(1);
  expect(engine.audit.records.map(({ microUsd }) => microUsd)).toEqual([PRICE, 0]);
});

test('dry runs are in the audit log only; admission is recorded only when it refuses', async () => {
  const engine = anEngine(priced, new ScriptedExecutor(() => okReply()));
  const metered: unknown[] = [];
  engine.ports.meter.finished = (record) => void metered.push(record.code);
  await engine.call({ mode: { kind: 'dry' } });
  expect([engine.audit.records.length, metered]).toEqual([1, []]);
  await engine.call({ mode: { kind: 'admit' } });
  expect([engine.audit.records.length, metered]).toEqual([1, []]);
  await expect(engine.call({ mode: { kind: 'admit' }, rawArguments: {} })).rejects.toMatchObject({
    code: 'ARGUMENTS_INVALID',
  });
  expect([engine.audit.records.length, metered]).toEqual([2, ['ARGUMENTS_INVALID']]);
});

test('a refusal that a person is asked about is not recorded; the end of the call is', async () => {
  const engine = anEngine(priced, new ScriptedExecutor(() => okReply()));
  engine.ports.policy.decide = () => ({ allowed: true, ask: ['Sure?'] });
  const asked = { code: 'APPROVAL_REQUIRED', details: { questions: ['Sure?'] } };
  await expect(engine.call({ approval: { asks: true } })).rejects.toMatchObject(asked);
  expect(engine.audit.records).toEqual([]);
  await expect(
    engine.call({ mode: { kind: 'refused', reason: new ToolError('APPROVAL_DECLINED') } }),
  ).rejects.toThrow();
  await expect(engine.call()).rejects.toMatchObject(asked);
  expect(engine.audit.records.map(({ code }) => code)).toEqual(['APPROVAL_DECLINED', 'APPROVAL_REQUIRED']);
});

test('metadata of a tool cannot pass for what the engine says of a result', async () => {
  const forged = { idempotent_replay: true, replayed_call_id: 'FORGED', from_cache: true, replaced_code: 'INTERNAL' };
  const engine = anEngine(priced, new ScriptedExecutor(() => okReply(null, { metadata: { ...forged, source: 'x' } })));
  const result = await engine.call();
  expect(result.replayOf).toBeUndefined();
  expect(result.metadata).toEqual({ source: 'x' });
  expect(engine.budget.settled).toMatchObject([{ micro_usd: PRICE }]);
});
