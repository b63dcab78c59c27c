/** What calls cost, in a running fleet: the answer, the metrics and the ledger agree, one row for each execution and none for anything else. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '@toolfleet/testing';
import { connect, headers } from 'nats';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestFleet, type Answer } from '../fleet/test-fleet.js';

const PRICE_USD = 0.001;
/** What a call of `free` reports that thinks. */
const TOKENS = 1_300;
/** A port without a listener. */
const AWAY = 'http://127.0.0.1:1';
/** `paid` and `slow` may be repeated, `paid_once` and `slow_once` may not, `free` costs nothing. Slow ones have a second. */
const TOOLS = `export default ({ defineTool, ok, ToolError }) => {
  const run = async ({ mode }, { signal }) => {
    if (mode === 'fails') throw new ToolError('TOOL_ERROR', { message: 'no such city' });
    if (mode === 'thinks') return ok({ mode }, mode, { usage: { tokens: ${TOKENS}, microUsd: 0 } });
    if (mode === 'hangs') await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    return ok({ mode }, mode, mode === 'reports' ? { metadata: { cost_usd: 0.005 } } : {});
  };
  const tool = (name, more) => defineTool({
    name, description: 'A tool with a price', category: 'data', rateLimit: 0, cacheTtlSeconds: 0,
    inputSchema: { type: 'object', properties: { mode: { type: 'string' }, n: { type: 'integer' } }, required: ['mode'] },
    handler: run, ...more,
  });
  return [
    tool('paid', { idempotent: true, costMicroUsd: 1000 }),
    tool('paid_once', { costMicroUsd: 1000 }),
    tool('slow', { idempotent: true, costMicroUsd: 1000, timeoutSeconds: 1 }),
    tool('slow_once', { costMicroUsd: 1000, timeoutSeconds: 1 }),
    tool('free', { idempotent: true }),
  ];
};`;

let fleet: TestFleet;
let plugins: string;
beforeAll(async () => {
  plugins = await mkdtemp(join(tmpdir(), 'toolfleet-plugins-'));
  await writeFile(join(plugins, 'ledger.tool.mjs'), TOOLS);
  const away = {
    url: `${AWAY}/functions`,
    func_name: 'away',
    description: 'Away',
    parameters: [],
    cost_per_use: PRICE_USD,
  };
  fleet = await TestFleet.start({
    services: {
      gateway: 1,
      registry: 1,
      budget: 1,
      records: 1,
      'builtin-executor': 1,
      'mcp-executor': 1,
      'python-sandbox': 1,
    },
    together: ['registry', 'budget', 'records', 'builtin-executor', 'mcp-executor', 'python-sandbox'],
    tools: ['paid', 'paid_once', 'slow', 'slow_once', 'free', 'away', 'execute_python', 'run_program'],
    config: { mcp_tools: { away }, budget: { tenants: { globex: { allow_cost_overrun: true } } } },
    env: { BUILTIN_PLUGINS_DIR: plugins, EGRESS_ALLOWED_ENDPOINTS: AWAY, MCP_ALLOWED_DOMAINS: '127.0.0.1' },
  });
});
afterAll(async () => {
  await fleet?.stop();
  await rm(plugins, { recursive: true, force: true });
});

interface Row {
  tool_name: string;
  user_id: string;
  cost_usd: number;
  total_tokens: number;
  real_tokens: number;
  success: number;
  provenance: string;
  kind: string;
}
function readRows(callId: string): Row[] {
  const ledger = new DatabaseSync(join(fleet.folder, 'budget.db'), { readOnly: true });
  try {
    return ledger.prepare('SELECT * FROM token_usage WHERE call_id = ?').all(callId) as unknown as Row[];
  } finally {
    ledger.close();
  }
}
async function rowOf(callId: string): Promise<Row> {
  await eventually(`call ${callId} is in the ledger`, async () => readRows(callId).length === 1);
  return readRows(callId)[0]!;
}
/** Rows are written in order, so a later row proves that an earlier call has none. */
async function expectNoRow(callId: string): Promise<void> {
  await rowOf((await fleet.call('free', { mode: 'ok' })).body.call_id);
  expect(readRows(callId)).toEqual([]);
}
async function metric(name: string, labels: string): Promise<number> {
  const { body } = await fleet.process('gateway').admin('/metrics');
  const line = body.split('\n').find((text) => text.startsWith(`${name}{`) && text.includes(labels));
  return Number(line?.split(' ').at(-1) ?? 0);
}
const executions = async (tool: string) => {
  const { body } = await fleet.process('gateway').admin('/metrics');
  const lines = body.split('\n').filter((line) => line.startsWith(`shannon_tool_executions_total{tool_name="${tool}"`));
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
};

describe('the cost of a call by its outcome', () => {
  it.each<[string, () => Promise<Answer>, { code?: string; cost: number; tool: string }]>([
    ['a success: its price', () => fleet.call('paid', { mode: 'ok' }), { cost: PRICE_USD, tool: 'paid' }],
    [
      'a failure of the tool: its price',
      () => fleet.call('paid', { mode: 'fails' }),
      { code: 'TOOL_ERROR', cost: PRICE_USD, tool: 'paid' },
    ],
    [
      'a time-out: its price',
      () => fleet.call('slow', { mode: 'hangs' }, { fields: { no_retry: true } }),
      { code: 'ATTEMPT_TIMED_OUT', cost: PRICE_USD, tool: 'slow' },
    ],
    [
      'an unknown outcome: what was reserved',
      () => fleet.call('slow_once', { mode: 'hangs' }),
      { code: 'OUTCOME_UNKNOWN', cost: PRICE_USD, tool: 'slow_once' },
    ],
    ['a free tool: nothing', () => fleet.call('free', { mode: 'ok' }), { cost: 0, tool: 'free' }],
    [
      'a free tool that fails: nothing',
      () => fleet.call('free', { mode: 'fails' }),
      { code: 'TOOL_ERROR', cost: 0, tool: 'free' },
    ],
    [
      'a Python error: its price',
      () => fleet.call('execute_python', { code: '1 / 0' }),
      { code: 'SANDBOX_ERROR', cost: PRICE_USD, tool: 'execute_python' },
    ],
    [
      'a program that the sandbox refuses: nothing',
      () => fleet.call('execute_python', { code: 'import os', strictness: 'strict' }),
      { code: 'SANDBOX_POLICY', cost: 0, tool: 'execute_python' },
    ],
    [
      'an unreachable upstream: nothing',
      () => fleet.call('away', {}, { fields: { no_retry: true } }),
      { code: 'NETWORK_ERROR', cost: 0, tool: 'away' },
    ],
  ])('%s', async (_how, send, { code, cost, tool }) => {
    const costBefore = await metric('shannon_tool_cost_usd', `tool_name="${tool}"`);
    const { status, body } = await send();
    expect([status, body.metadata.code, body.usage.cost_usd]).toEqual([200, code, cost]);
    const row = await rowOf(body.call_id);
    expect(row).toMatchObject({ tool_name: tool, cost_usd: cost, success: code ? 0 : 1, kind: 'settled' });
    expect(row.total_tokens).toBe(body.usage.tokens);
    expect((await metric('shannon_tool_cost_usd', `tool_name="${tool}"`)) - costBefore).toBeCloseTo(cost, 9);
  });

  it.each<[string, () => Promise<Answer>, number]>([
    ['invalid arguments', () => fleet.call('paid', {}), 400],
    ['an unknown tool', () => fleet.call('no_such_tool', {}), 404],
  ])('%s: nothing, and no row', async (_how, send, status) => {
    const answer = await send();
    expect(answer.status).toBe(status);
    await expectNoRow(answer.body.call_id ?? '');
  });
});

describe('a reported cost above the price', () => {
  it('is charged up to the reservation, the same in answer, metric and row', async () => {
    const before = await metric('shannon_tool_cost_usd', 'tool_name="paid"');
    const { body } = await fleet.call('paid', { mode: 'reports' });
    expect(body).toMatchObject({
      usage: { cost_usd: PRICE_USD },
      metadata: { cost_usd: PRICE_USD, reported_cost_usd: 0.005 },
    });
    expect(await rowOf(body.call_id)).toMatchObject({ cost_usd: PRICE_USD });
    expect((await metric('shannon_tool_cost_usd', 'tool_name="paid"')) - before).toBeCloseTo(PRICE_USD, 9);
  });

  it('is charged in full, and marked, for a tenant that allows overruns', async () => {
    const { body } = await fleet.call('paid', { mode: 'reports' }, { key: fleet.keys['globex']! });
    expect(body).toMatchObject({ usage: { cost_usd: 0.005 }, metadata: { cost_usd: 0.005, cost_overrun_usd: 0.004 } });
    expect(await rowOf(body.call_id)).toMatchObject({ cost_usd: 0.005 });
  });
});

it('is summed by key and source, forecast and billed: exact, for all tenants or the own one', async () => {
  const { body } = await fleet.call('paid', { mode: 'ok' });
  const { body: other } = await fleet.call('paid', { mode: 'reports' }, { key: fleet.keys['globex']! });
  await Promise.all([body, other].map(({ call_id: id }) => rowOf(id)));
  const ask = async (path: string, key?: string) => (await fleet.ask({ path, key })).body;
  const usage = await ask('/api/v1/usage?group_by=key,source,tool', fleet.adminKey);
  const keyIds = new Set(((await ask('/api/v1/keys', fleet.adminKey)) as { id: string }[]).map(({ id }) => id));
  const paid = (usage.rows as { tool_name: string; key_id: string; source: string }[]).filter(
    (row) => row.tool_name === 'paid',
  );
  expect(paid.length).toBeGreaterThan(0);
  for (const row of paid) expect([keyIds.has(row.key_id), row.source]).toEqual([true, 'plugin/plugin.compute']);
  const budgets = await ask('/api/v1/budgets', fleet.adminKey);
  const used = (usage.rows as { tokens: number }[]).reduce((sum, row) => sum + row.tokens, 0);
  expect((budgets.budgets as { spent_tokens: number }[])[0]?.spent_tokens).toBe(used);
  const own = await ask('/api/v1/billing', fleet.adminKey);
  const all = await ask('/api/v1/billing', fleet.operatorKey);
  const tenants = (bill: typeof own) => new Set((bill.rows as { tenant_id: string }[]).map((row) => row.tenant_id));
  expect([tenants(own).size, tenants(all).has('globex')]).toEqual([1, true]);
  const ledger = new DatabaseSync(join(fleet.folder, 'budget.db'), { readOnly: true });
  const { sum } = ledger.prepare('SELECT sum(micro_usd) AS sum FROM token_usage').get() as { sum: number };
  ledger.close();
  expect([all.micro_usd, all.cost_usd]).toEqual([sum, (sum / 1e6).toFixed(6)]);
  const csv = await fleet.ask({ path: '/api/v1/billing?format=csv&tenant_id=globex', key: fleet.operatorKey });
  expect(csv.text).toMatch(
    /^tenant_id,day,tool_name,source,calls,tokens,micro_usd,cost_usd\r\nglobex,[\d-]+,paid,plugin\/plugin.compute,\d+,\d+,\d+,0.0\d\d000\r\n$/,
  );
  const month = await ask('/api/v1/usage/forecast?group_by=tenant', fleet.operatorKey);
  expect(month).toMatchObject({ observed_days: 1 });
  const globex = (month.rows as { tenant_id: string; spent_usd: number; forecast_usd: number }[]).find(
    (row) => row.tenant_id === 'globex',
  )!;
  expect(globex.spent_usd).toBeGreaterThanOrEqual(0.005);
  expect(globex.forecast_usd).toBeGreaterThanOrEqual(globex.spent_usd);
  expect((await fleet.ask({ path: '/api/v1/billing', key: fleet.keys['globex']! })).status).toBe(403);
  expect(
    (await fleet.ask({ path: '/api/v1/billing?from=2026-01-01&to=2026-12-01', key: fleet.adminKey })).body.error,
  ).toContain('1 to 92 days');
});

it('a tenant is created with a key and a budget, listed, and shown to its administrator', async () => {
  const create = (body: object, key = fleet.operatorKey) => fleet.ask({ path: '/api/v1/tenants', body, key });
  const made = await create({ tenant_id: 'initech', tier: 'wide', limit_usd: PRICE_USD, period: 'total' });
  expect(made).toMatchObject({
    status: 201,
    body: { key: { tenant_id: 'initech', roles: ['admin'] }, budget: { scope: 'tenant/total', limit_usd: PRICE_USD } },
  });
  const { token } = made.body;
  expect((await fleet.call('paid', { mode: 'ok' }, { key: token })).status).toBe(200);
  const refused = await fleet.call('paid', { mode: 'ok' }, { key: token });
  expect(refused.body).toMatchObject({ code: 'BUDGET_EXCEEDED', details: { scope: 'tenant/total' } });
  await expect
    .poll(async () => (await fleet.ask({ path: '/api/v1/tenants/initech', key: token })).body)
    .toMatchObject({ keys: 1, administrators: 1, tiers: ['wide'], spent_usd: PRICE_USD });
  const { body: all } = await fleet.ask({ path: '/api/v1/tenants', key: fleet.operatorKey });
  expect(all.map(({ tenant_id: id }: { tenant_id: string }) => id)).toEqual(
    expect.arrayContaining(['acme', 'globex', 'initech']),
  );
  const status = async (path: string, key: string) => (await fleet.ask({ path, key })).status;
  expect(await status('/api/v1/tenants', token)).toBe(403);
  expect(await status('/api/v1/tenants/globex', token)).toBe(403);
  expect(await status('/api/v1/tenants/nobody', fleet.operatorKey)).toBe(404);
  expect((await create({ tenant_id: 'initech' })).body.error).toContain("'initech' exists: it has 1 API keys");
  expect((await create({ tenant_id: 'local' })).body.error).toContain('reserved');
  expect((await create({ tenant_id: 'hooli', tier: 'huge' })).body.error).toContain('tier must be one of');
  expect((await create({ tenant_id: 'hooli' }, token)).status).toBe(403);
});

it('a call that a service makes for a user is in that user’s name, in the ledger, the log and the recent calls', async () => {
  const connection = await connect({ servers: fleet.nats.url });
  const sent = headers();
  sent.set('Authorization', `Bearer ${fleet.adminKey}`);
  const message = JSON.stringify({ name: 'free', arguments: { mode: 'ok' }, user_id: 'ann' });
  const reply = await connection.request('tool.call', message, { headers: sent, timeout: 20_000 });
  await connection.close();
  const { call_id: callId } = reply.json<{ call_id: string }>();
  expect(await rowOf(callId)).toMatchObject({ user_id: 'ann' });
  const lines = () => fleet.process('gateway').log().split('\n');
  const logged = () => lines().find((text) => text.includes(callId) && text.includes('finished'));
  await eventually('the call is logged', async () => logged() !== undefined);
  expect(JSON.parse(logged()!)).toMatchObject({ user_id: 'ann', key_id: expect.any(String) });
  await eventually('the call is listed', async () => {
    const { body } = await fleet.ask({ path: '/api/v1/calls', key: fleet.operatorKey });
    return (body.calls as { call_id: string; user_id: string }[]).some(
      (call) => call.call_id === callId && call.user_id === 'ann',
    );
  });
});

it('a replay shows the usage of the first answer, marked, and has no row', async () => {
  const fields = { idempotency_key: 'the-key' };
  const first = await fleet.call('paid_once', { mode: 'ok' }, { fields });
  const cost = await metric('shannon_tool_cost_usd', 'tool_name="paid_once"');
  const again = await fleet.call('paid_once', { mode: 'ok' }, { fields });
  expect(again.body.usage).toEqual({ ...first.body.usage, replayed: true });
  expect(first.body.usage).toEqual({ tokens: 500, cost_usd: PRICE_USD });
  expect(await rowOf(first.body.call_id)).toMatchObject({ cost_usd: PRICE_USD, total_tokens: 500 });
  expect(await metric('shannon_tool_cost_usd', 'tool_name="paid_once"')).toBe(cost);
});

describe('requests that are not executions', () => {
  const recentIds = async () => {
    const { body } = await fleet.ask({ path: '/api/v1/calls', key: fleet.operatorKey });
    return (body.calls as { call_id: string }[]).map(({ call_id: id }) => id);
  };
  const logLines = (callId: string) =>
    fleet
      .process('gateway')
      .log()
      .split('\n')
      .filter((line) => line.includes(callId) && line.includes('finished'));

  it('a dry run: no row, no metric, no recent call, and its own line in the log', async () => {
    const before = await executions('paid');
    const dry = await fleet.call('paid', { mode: 'ok' }, { fields: { dry_run: true } });
    const real = await fleet.call('paid', { mode: 'ok' });
    await eventually('the real call is shown', async () => (await recentIds()).includes(real.body.call_id));
    expect(await recentIds()).not.toContain(dry.body.call_id);
    expect(await executions('paid')).toBe(before + 1);
    await eventually('the dry run is logged', async () => logLines(dry.body.call_id).length > 0);
    expect(logLines(dry.body.call_id)).toEqual([expect.stringContaining('"dry run finished"')]);
    await expectNoRow(dry.body.call_id);
  });

  it('the admission of an asynchronous call: its execution is counted and logged once', async () => {
    const before = await executions('paid');
    const { body } = await fleet.call('paid', { mode: 'ok' }, { fields: { mode: 'async' } });
    await eventually('the call ended', async () => {
      const { body: call } = await fleet.ask({ path: `/api/v1/calls/${body.call_id}` });
      return call.status === 'succeeded';
    });
    expect(await rowOf(body.call_id)).toMatchObject({ cost_usd: PRICE_USD });
    expect(await executions('paid')).toBe(before + 1);
    await eventually('the call is logged', async () => logLines(body.call_id).length > 0);
    expect(logLines(body.call_id)).toEqual([expect.stringContaining('"entry_point":"queue"')]);
    await eventually('the call is shown', async () => (await recentIds()).includes(body.call_id));
    expect((await recentIds()).filter((id) => id === body.call_id)).toHaveLength(1);
  });

  it('an asynchronous call that is refused at once is recorded as refused', async () => {
    const before = await metric('shannon_tool_executions_total', 'tool_name="paid",status="refused"');
    const { status } = await fleet.call('paid', {}, { fields: { mode: 'async' } });
    expect(status).toBe(400);
    expect(await metric('shannon_tool_executions_total', 'tool_name="paid",status="refused"')).toBe(before + 1);
  });
});

it('the calls of a program exceed the limit of its agent by one call at most', async () => {
  const code = 'result = gather(*[tools.free(mode="thinks", n=n) for n in range(8)], return_errors=True)';
  const { body } = await fleet.call('run_program', { code }, { fields: { agent_id: 'thinker' } });
  expect(body.success, body.error).toBe(true);
  const ledger = new DatabaseSync(join(fleet.folder, 'budget.db'), { readOnly: true });
  const query = ledger.prepare("SELECT sum(real_tokens) AS tokens FROM token_usage WHERE caller_agent_id = 'thinker'");
  await expect.poll(() => query.get()).toMatchObject({ tokens: 4 * TOKENS });
  // The limit is 5,000, and no row follows.
  await rowOf((await fleet.call('free', { mode: 'ok' })).body.call_id);
  expect(query.get()).toMatchObject({ tokens: 4 * TOKENS });
  ledger.close();
});

it('a call that its gateway refused after it stood still for ten seconds is not charged', async () => {
  await fleet.call('paid', { mode: 'ok' });
  const leases = fleet.redis.client();
  await eventually('no call is reserved', async () => (await leases.hlen('{b:acme}:leases')) === 0);
  const [gateway, services] = [fleet.process('gateway'), fleet.process('budget')];
  const nats = await connect({ servers: fleet.nats.url });
  const asking = nats.subscribe('budget.reserve', { max: 1 });
  await nats.flush();
  services.pause();
  const answer = fleet.call('paid', { mode: 'ok', n: 1 }, { fields: { timeout_ms: 2_000 } });
  for await (const _ of asking) gateway.pause();
  services.resume();
  await eventually('the call is reserved', async () => (await leases.hlen('{b:acme}:leases')) === 1);
  const [callId = ''] = await leases.hkeys('{b:acme}:leases');
  await sleep(10_000);
  gateway.resume();
  expect(['BUDGET_UNAVAILABLE', 'DEADLINE_EXCEEDED']).toContain((await answer).body.code);
  await eventually('the call is released', async () => (await leases.hlen('{b:acme}:leases')) === 0);
  await expectNoRow(callId);
  await nats.close();
});

it('a lease that expires has a row with the tool and the user of its call', async () => {
  const fields = { timeout_ms: 3_000, agent_id: 'lost' };
  await fleet.call('free', { mode: 'thinks', n: 9 }, { fields });
  const asked = ['paid', 'free'].map((tool) => fleet.call(tool, { mode: 'hangs' }, { fields }).catch(() => undefined));
  const leases = fleet.redis.client();
  await eventually('the calls are reserved', async () => (await leases.hlen('{b:acme}:leases')) === 2);
  const callIds = await leases.hkeys('{b:acme}:leases');
  await fleet.kill('gateway');
  await Promise.all(asked);
  const rows = await Promise.all(callIds.map(rowOf));
  // A tool without a price is charged what it is known to report.
  const lost = { kind: 'expired', provenance: 'unknown' };
  expect(rows.toSorted((a, b) => a.cost_usd - b.cost_usd)).toMatchObject([
    { ...lost, tool_name: 'free', cost_usd: 0, real_tokens: TOKENS },
    { ...lost, tool_name: 'paid', cost_usd: PRICE_USD },
  ]);
  for (const { user_id: user } of rows) expect(user).not.toBe('unknown');
});

describe('without an executor', () => {
  let lonely: TestFleet;
  beforeAll(async () => {
    lonely = await TestFleet.start({
      services: { gateway: 1, registry: 1, budget: 1, 'builtin-executor': 1 },
      together: ['gateway', 'registry', 'budget'],
      tools: ['paid', 'execute_python'],
      env: { BUILTIN_PLUGINS_DIR: plugins, GATEWAY_CALL_TIMEOUT_MS: '2000' },
    });
    await lonely.kill('builtin-executor');
  });
  afterAll(() => lonely?.stop());

  it.each<[string, string, object, number, string]>([
    ['on NATS', 'paid', { mode: 'ok' }, 502, 'EXECUTOR_UNAVAILABLE'],
    ['in a queue until the deadline', 'execute_python', { code: '1' }, 504, 'DEADLINE_EXCEEDED'],
  ])('%s, a call costs nothing', async (_where, tool, args, status, code) => {
    const tenant = async () =>
      (await lonely.ask({ path: '/api/v1/budgets' })).body.budgets.find(
        ({ scope }: { scope: string }) => scope === 'tenant',
      );
    const rows = async () => (await lonely.ask({ path: '/api/v1/usage' })).body.rows;
    // On a busy machine a job may still be in the queue when its call has to be answered: then nothing is known of it, and it is paid.
    const attempt = async () => {
      await expect.poll(tenant).toMatchObject({ held_usd: 0 });
      return { spent: (await tenant()).spent_usd, rows: await rows(), answer: await lonely.call(tool, args) };
    };
    let ended = await attempt();
    for (let tries = 1; ended.answer.status === 200 && tries < 3; tries += 1) ended = await attempt();
    expect([ended.answer.status, ended.answer.body.code]).toEqual([status, code]);
    await expect.poll(tenant).toMatchObject({ spent_usd: ended.spent, held_usd: 0 });
    expect(await rows()).toEqual(ended.rows);
  });
});
