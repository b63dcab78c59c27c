import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type {
  BudgetLimits,
  BudgetLimitsReply,
  BudgetReserveReply,
  BudgetSet,
  BudgetSetReply,
  BudgetUsageReply,
  LimitState,
  ReserveRequest,
  SettleRequest,
  UsageRow,
} from '@toolfleet/contracts/budget';
import type { FleetEvent } from '@toolfleet/contracts/events';
import { eventReportSubject } from '@toolfleet/contracts/subjects';
import { SystemClock } from '@toolfleet/resilience';
import { loadConfig, type ServiceHost, type LifecycleComponent, ServiceFaults } from '@toolfleet/service';
import { createLogger, createMetrics } from '@toolfleet/telemetry';
import { eventually, startNats, startRedis, type NatsServer, type RedisServer } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { budgetConfig } from './budget.config.js';
import { budgetComponents } from './wiring.js';

const scopes = { tenant_id: 'acme', request_id: 'r1', agent_id: 'planner' };
const ask = (callId: string, microUsd: number, more: Partial<ReserveRequest> = {}): ReserveRequest => ({
  call_id: callId,
  scopes,
  micro_usd: microUsd,
  tokens: 0,
  lease_ms: 60_000,
  user_id: 'ann',
  tool_name: 'web_search',
  ...more,
});
const settlement = (callId: string, microUsd: number, tokens = 0): SettleRequest & { row: UsageRow } => ({
  call_id: callId,
  scopes,
  micro_usd: microUsd,
  tokens,
  row: {
    call_id: callId,
    tenant_id: 'acme',
    user_id: 'ann',
    tool_name: 'web_search',
    agent_id: 'planner',
    request_id: 'r1',
    tokens: tokens || 100,
    real_tokens: tokens,
    micro_usd: microUsd,
    success: true,
    provenance: 'live',
    at: 1_790_000_000_000,
  },
});

/** The service over real brokers, its parts started as a process would. */
describe('budget service', () => {
  let nats: NatsServer;
  let redis: RedisServer;
  let client: NatsClient;
  let folder: string;
  let parts: LifecycleComponent[] = [];
  let reached: FleetEvent[] = [];

  const start = async (env: Record<string, string> = {}): Promise<void> => {
    const { settings } = loadConfig(budgetConfig, {
      ENVIRONMENT: 'test',
      NATS_URL: nats.url,
      REDIS_URL: redis.url,
      DATABASE_DIR: folder,
      BUDGET_UPKEEP_MS: '20',
      STORE_TIMEOUT_MS: '400',
      ...env,
    });
    const host = {
      service: 'budget',
      logger: createLogger({ service: 'budget', level: 'silent' }),
      clock: new SystemClock(),
      metrics: createMetrics({ version: '0', revision: 'test' }),
      draining: new AbortController().signal,
      faults: new ServiceFaults(new SystemClock()),
      announce: () => undefined,
      onSecretChange: () => undefined,
    } satisfies ServiceHost;
    parts = budgetComponents(settings, host);
    for (const part of parts) await part.start?.();
  };
  /** Settings with a limit in USD for each tenant. */
  const tenantLimit = (usd: number): Record<string, string> => {
    const file = join(folder, `limit-${usd}.yaml`);
    writeFileSync(file, `budget: { defaults: { max_cost_per_tenant: ${usd} } }\n`);
    return { TOOLFLEET_CONFIG: file };
  };
  const stop = async (): Promise<void> => {
    const reversed = parts.toReversed();
    parts = [];
    for (const part of reversed) await part.drain?.();
    for (const part of reversed) await part.stop?.();
  };
  const reserve = async (...asks: ReserveRequest[]) =>
    (await client.request<BudgetReserveReply>('budget.reserve', { asks }, { timeoutMs: 2_000 })).answers;
  const settle = (...settlements: SettleRequest[]) =>
    client.request('budget.settle', { settlements }, { timeoutMs: 2_000 });
  const usage = async (groupBy: string[]) =>
    (await client.request<BudgetUsageReply>('budget.usage', { tenant_id: 'acme', group_by: groupBy })).rows;
  const limits = async () => (await client.request<BudgetLimitsReply>('budget.limits', { scopes })).limits;

  beforeAll(async () => {
    nats = await startNats();
    client = await NatsClient.connect({ url: nats.url, name: 'test' });
    // The service records, as far as the budget knows it.
    client.link.subscribe(eventReportSubject('budget'), (message) => {
      reached.push(...(JSON.parse(Buffer.from(message.data).toString()) as { events: FleetEvent[] }).events);
      client.publish(message.reply, { stored: 1 });
    });
  });
  beforeEach(async () => {
    redis = await startRedis({ appendOnly: true });
    folder = mkdtempSync(join(tmpdir(), 'toolfleet-budget-'));
    reached = [];
  });
  afterEach(async () => {
    await stop();
    await redis.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  afterAll(async () => {
    await client.close();
    await nats.stop();
  });

  it('leases, charges once, writes the ledger once, and tells when a limit passes 80 %', async () => {
    await start({ MAX_COST_PER_REQUEST: '0.001' });
    expect(await reserve(ask('a', 600), ask('b', 600), ask('c', 2_000))).toEqual([
      { admitted: true, call_id: 'a' },
      { admitted: false, call_id: 'b', code: 'BUDGET_EXCEEDED', scope: 'request:r1', limit: 1_000, used: 600 },
      { admitted: false, call_id: 'c', code: 'BUDGET_EXCEEDED', scope: 'request:r1', limit: 1_000, used: 0 },
    ]);
    expect(await settle(settlement('a', 500, 4_100))).toEqual({ settled: 1 });
    expect(await settle(settlement('a', 500, 4_100))).toEqual({ settled: 0 });
    await reserve(ask('d', 400));
    await settle(settlement('d', 400));
    await eventually('the ledger has both', async () => (await usage([]))[0]?.calls === 2);
    expect(await usage(['tool', 'agent'])).toEqual([
      { tool_name: 'web_search', agent_id: 'planner', calls: 2, tokens: 4_100, micro_usd: 900 },
    ]);
    expect(
      (await limits()).map(({ scope, spent_micro_usd, held_micro_usd }) => [
        scope.split(':')[0],
        spent_micro_usd,
        held_micro_usd,
      ]),
    ).toEqual([
      ['tenant', 900, 0],
      ['day', 900, 0],
      ['request', 900, 0],
      ['agent', 900, 0],
    ]);
    await eventually('an event', async () => reached.length > 0);
    expect(reached.map(({ kind, tenant_id, data }) => [kind, tenant_id, data])).toEqual([
      [
        'budget.reached',
        'acme',
        { scope: 'agent:planner', percent: '80', currency: 'tokens', limit: 5_000, spent: 4_100 },
      ],
    ]);
  });

  it('spends from the budgets of a tenant, a user and a key, which count what was spent before', async () => {
    await start();
    const byKey = (callId: string, microUsd: number, key_id: string) => ask(callId, microUsd, { key_id });
    const paidWith = (callId: string, microUsd: number, key_id: string): SettleRequest => {
      const one = settlement(callId, microUsd);
      return { ...one, row: { ...one.row, key_id } };
    };
    const name = { tenant_id: 'acme', subject: 'user', id: 'ann', period: 'month' } as const;
    const set = async (more: Partial<BudgetSet>): Promise<LimitState> => {
      const message: BudgetSet = { ...name, limit_micro_usd: 1_000, limit_tokens: null, changed_by: 'ops', ...more };
      return (await client.request<BudgetSetReply>('budget.set', message)).budget;
    };
    await reserve(byKey('a', 400, 'k1'));
    await settle(paidWith('a', 400, 'k1'));
    await eventually('the ledger has it', async () => (await usage([]))[0]?.calls === 1);
    const month = new Date().toISOString().slice(0, '2026-11'.length);
    expect(await set({})).toMatchObject({
      scope: `user/${month}:ann`,
      budget: { subject: 'user', id: 'ann', period: 'month' },
      limit_micro_usd: 1_000,
      spent_micro_usd: 400,
    });
    expect(await set({ subject: 'key', id: 'k1', period: 'total', limit_micro_usd: 500 })).toMatchObject({
      scope: 'key/total:k1',
      spent_micro_usd: 400,
    });
    expect(await set({ subject: 'key', id: 'k2', period: 'day', limit_tokens: 5 })).toMatchObject({ spent_tokens: 0 });
    expect(await reserve(byKey('b', 101, 'k1'), byKey('c', 601, 'k2'), byKey('d', 600, 'k2'))).toEqual([
      { admitted: false, call_id: 'b', code: 'BUDGET_EXCEEDED', scope: 'key/total:k1', limit: 500, used: 400 },
      { admitted: false, call_id: 'c', code: 'BUDGET_EXCEEDED', scope: `user/${month}:ann`, limit: 1_000, used: 400 },
      { admitted: true, call_id: 'd' },
    ]);
    expect(await reserve(ask('e', 9_000, { user_id: 'bob', key_id: 'k3' }))).toMatchObject([{ admitted: true }]);
    await settle(paidWith('d', 500, 'k2'));
    // A shared lease spends from the budgets of its user and key, so it must be apart by both.
    const lease = (id: string, more: Partial<ReserveRequest>) => ask(`lease:${id}`, 10_000, more);
    const both = ['user', 'key'] as const;
    expect(
      await reserve(
        lease('1', { shared: { least_micro_usd: 1 } }),
        lease('2', { shared: { least_micro_usd: 1, separate_by: both }, key_id: 'k4' }),
      ),
    ).toMatchObject([
      { admitted: false, scope: 'share', separate_by: both },
      { admitted: true, lease: { micro_usd: 1 }, separate_by: both },
    ]);
    // A month that Redis forgot comes back from the ledger, and a removed budget limits nothing any more.
    await stop();
    await redis.client().flushall();
    await start();
    const shown = async (budgets: BudgetLimits['budgets']) =>
      (await client.request<BudgetLimitsReply>('budget.limits', { scopes, budgets })).limits
        .filter(({ budget }) => budget)
        .map(({ scope, spent_micro_usd: spent }) => [scope, spent]);
    await eventually('it counts again', async () => (await shown('*')).some(([, spent]) => spent === 900));
    expect(await shown({ user_id: 'ann', key_id: 'k1' })).toEqual([
      [`user/${month}:ann`, 900],
      ['key/total:k1', 400],
    ]);
    expect(await shown({ user_id: 'bob' })).toEqual([]);
    expect(await client.request('budget.remove', name)).toEqual({ removed: true });
    expect(await client.request('budget.remove', name)).toEqual({ removed: false });
    expect(await reserve(byKey('f', 9_000, 'k3'))).toMatchObject([{ admitted: true }]);
    const purge = { tenant_id: 'acme', dry_run: false, pseudonym: 'purged-11111111', user_id: 'zoe', key_ids: ['k1'] };
    expect(await client.request('budget.purge', purge)).toMatchObject({ counts: { set_budgets: 1 } });
    expect((await shown('*')).map(([scope]) => scope)).toEqual([expect.stringMatching(/^key\/[\d-]+:k2$/)]);
  });

  it('refuses a malformed ask alone', async () => {
    await start();
    const answers = await reserve(
      ask('a', 1),
      ask('b', -1),
      ask('c', 1, { scopes: { ...scopes, agent_id: 'x\u001fy' } }),
      ask('d', 1),
    );
    expect(answers.map((answer) => [answer.call_id, answer.admitted || answer.scope])).toEqual([
      ['a', true],
      ['b', 'invalid:micro_usd'],
      ['c', 'invalid:scopes.agent_id'],
      ['d', true],
    ]);
    const bad = { ...settlement('a', 1), row: { ...settlement('a', 1).row, tenant_id: 'other' } };
    expect(await settle(bad, settlement('d', 1))).toEqual({
      settled: 1,
      refused: [{ call_id: 'a', field: 'row.tenant_id' }],
    });
    await expect(client.request('budget.reserve', { nothing: 1 })).rejects.toMatchObject({
      code: 'REQUEST_INVALID',
    });
    await expect(usage(['moon'])).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
  });

  it('charges an unsettled call in full and records it', async () => {
    await start();
    await reserve(ask('lost', 700, { lease_ms: 50 }));
    await eventually('the lease is charged', async () => (await usage([]))[0]?.calls === 1);
    expect(await usage(['tool', 'user'])).toEqual([
      { tool_name: 'web_search', user_id: 'ann', calls: 1, tokens: 0, micro_usd: 700 },
    ]);
    expect((await limits())[0]).toMatchObject({ spent_micro_usd: 700, held_micro_usd: 0 });
    expect(await settle(settlement('lost', 1))).toEqual({ settled: 0 });
  });

  it('fails closed while Redis hangs, and gives back what is granted too late and released', async () => {
    await start();
    await reserve(ask('a', 1));
    redis.pause();
    // More calls than one script run takes: the last ones are asked for when the release has arrived.
    const many = Array.from({ length: 300 }, (_, index) => ask(`many${index}`, 2));
    const answers = await reserve(ask('b', 100_000), ...many);
    expect(new Set(answers.map((answer) => (answer.admitted ? '' : answer.code)))).toEqual(
      new Set(['BUDGET_UNAVAILABLE']),
    );
    await expect(settle(settlement('a', 1))).rejects.toMatchObject({ code: 'BUDGET_UNAVAILABLE' });
    const releases = answers.map(({ call_id }) => ({ call_id, scopes }));
    await expect(client.request('budget.release', { releases })).rejects.toMatchObject({
      code: 'BUDGET_UNAVAILABLE',
    });
    redis.resume();
    // The settlement and the release that were on their way arrive.
    await eventually('nothing is held', async () => {
      const [tenant] = await limits().catch(() => []);
      return tenant?.held_micro_usd === 0 && tenant.spent_micro_usd === 1;
    });
    expect((await reserve(ask('d', 1)))[0]?.admitted).toBe(true);
  });

  it('keeps a lease that a repeated request was answered with, after the first one was late', async () => {
    await start({ MAX_COST_PER_REQUEST: '0.001' });
    await reserve(ask('a', 1));
    redis.pause();
    expect(await reserve(ask('b', 600))).toMatchObject([{ code: 'BUDGET_UNAVAILABLE' }]);
    const again = reserve(ask('b', 600));
    // Gives the request a chance to wait in Redis next to the first one. The outcome is the same if it comes later.
    await new Promise((resolve) => setTimeout(resolve, 50));
    redis.resume();
    expect(await again).toEqual([{ admitted: true, call_id: 'b' }]);
    // All that the first request left behind has been done when a later request is answered.
    await reserve(ask('c', 1, { scopes: { tenant_id: 'acme', request_id: 'other' } }));
    expect(await reserve(ask('d', 600))).toMatchObject([{ admitted: false, scope: 'request:r1', used: 601 }]);
  });

  it('fails closed while Redis is gone, and goes on with what was acknowledged', async () => {
    await start(tenantLimit(0.001));
    await reserve(ask('a', 600));
    // While a slow fsync runs, Redis holds writes back in memory (appendfsync everysec): wait until they are in the file.
    const info = redis.client();
    await eventually('the lease is in the file', async () =>
      /aof_buffer_length:0\r/.test(await info.info('persistence')),
    );
    await redis.kill();
    expect((await reserve(ask('b', 1)))[0]).toMatchObject({
      admitted: false,
      code: 'BUDGET_UNAVAILABLE',
      scope: 'store',
    });
    await redis.restart();
    await eventually('Redis is back', async () => (await reserve(ask('b', 1)))[0]?.admitted === true);
    expect((await reserve(ask('c', 600)))[0]).toMatchObject({ admitted: false, scope: 'tenant', used: 601 });
  });

  it('rebuilds a lost gate from the ledger', async () => {
    await start(tenantLimit(0.001));
    await reserve(ask('a', 600));
    await settle(settlement('a', 600));
    await eventually('the ledger has it', async () => (await usage([]))[0]?.calls === 1);
    await redis.flush();
    expect((await reserve(ask('b', 600)))[0]).toMatchObject({
      admitted: false,
      scope: 'tenant',
      limit: 1_000,
      used: 600,
    });
    expect((await reserve(ask('b', 400)))[0]?.admitted).toBe(true);
  });

  it('raises a gate that was restored from an older copy to what the ledger says', async () => {
    await start(tenantLimit(0.001));
    await reserve(ask('a', 100));
    await settle(settlement('a', 100));
    await eventually('the ledger has it', async () => (await usage([]))[0]?.calls === 1);
    const copy = await redis.client().dumpBuffer('{b:acme}:scopes');
    await reserve(ask('b', 600));
    await settle(settlement('b', 600));
    await eventually('the ledger has both', async () => (await usage([]))[0]?.calls === 2);
    await stop();
    await redis.client().restore('{b:acme}:scopes', 0, copy, 'REPLACE');
    await start(tenantLimit(0.001));
    await eventually('the gate knows what was spent', async () => {
      // Too much in either case: an ask that was admitted by the old counters would hold a lease.
      const [answer] = await reserve(ask('c', 950));
      return answer?.admitted === false && answer.used === 700;
    });
    expect((await reserve(ask('e', 400)))[0]).toMatchObject({ admitted: false, used: 700 });
    expect((await reserve(ask('d', 300)))[0]?.admitted).toBe(true);
  });

  it('leaves nothing in the outbox when it is stopped, and loses nothing over a restart', async () => {
    await start({ BUDGET_UPKEEP_MS: '60000' });
    await reserve(ask('a', 10), ask('b', 20));
    await settle(settlement('a', 10));
    await stop();
    await start();
    expect((await usage([]))[0]).toMatchObject({ calls: 1, micro_usd: 10 });
    await settle(settlement('b', 20));
    await eventually('the ledger has both', async () => (await usage([]))[0]?.micro_usd === 30);
  });

  it('grants shared leases, counts them as held, and applies a lowered limit to the next one', async () => {
    const shared = (id: string, more: Partial<ReserveRequest> = {}) =>
      ask(`lease:${id}`, 5_000, {
        scopes: { ...scopes, request_id: `lease:${id}` },
        shared: { least_micro_usd: 2 },
        ...more,
      });
    await start({ ...tenantLimit(0.1), TOKEN_BUDGET_PER_AGENT: '1000', MAX_COST_PER_REQUEST: '0.02' });
    expect(await reserve(shared('1', { tokens: 50 }), ask('lease:2', 1), shared('3', { call_id: 'x' }))).toMatchObject([
      {
        admitted: true,
        lease: { micro_usd: 1_000, tokens: 10, limits_tokens: true, call_limit_micro_usd: 20_000 },
      },
      { admitted: false, scope: 'invalid:call_id' },
      { admitted: false, scope: 'invalid:call_id' },
    ]);
    expect((await limits())[0]).toMatchObject({ held_micro_usd: 1_000, held_tokens: 10, spent_micro_usd: 0 });
    const lease = { id: 'lease:1', micro_usd: 300, tokens: 0 };
    const bad = { ...settlement('b', 1), lease: { ...lease, id: 'b' } };
    expect(await settle({ ...settlement('a', 300), lease }, bad)).toEqual({
      settled: 1,
      refused: [{ call_id: 'b', field: 'lease.id' }],
    });
    expect((await limits())[0]).toMatchObject({ held_micro_usd: 700, spent_micro_usd: 300 });
    await stop();
    await start(tenantLimit(0.00099));
    expect((await reserve(shared('4')))[0]).toMatchObject({ admitted: false });
    expect((await reserve(ask('c', 1)))[0]).toMatchObject({ admitted: false, used: 1_000, used_by_leases: 700 });
    const { row: _row, ...rest } = settlement('lease:1', 0);
    await settle({ ...rest, lease: { ...lease, micro_usd: 700 } });
    expect((await limits())[0]).toMatchObject({ held_micro_usd: 0, held_tokens: 10 });
    expect((await reserve(ask('c', 690), ask('d', 1)))[1]).toMatchObject({ admitted: false, used: 990 });
  });

  it('takes limits of single tenants from the configuration file', async () => {
    const file = join(folder, 'fleet.yaml');
    writeFileSync(file, 'budget:\n  tenants:\n    acme: { max_cost_per_day: 0.0001, max_cost_per_request: null }\n');
    await start({ TOOLFLEET_CONFIG: file });
    expect((await reserve(ask('a', 101)))[0]).toMatchObject({ admitted: false, limit: 100 });
    expect((await reserve(ask('a', 101)))[0]).toMatchObject({
      scope: expect.stringMatching(/^day:\d{4}-\d\d-\d\d$|^day$/),
    });
    const other = { ...scopes, tenant_id: 'zeta' };
    expect((await reserve(ask('b', 101, { scopes: other })))[0]?.admitted).toBe(true);
  });
});
