/** Rules that are tested with recorded calls, on a real store. */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Principal } from '@toolfleet/contracts';
import type { FinishedCall } from '@toolfleet/contracts/records';
import type { KeptBody } from '@toolfleet/contracts/resources';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { ServedToolset } from '@toolfleet/contracts/toolset';
import { ToolError } from '@toolfleet/contracts';
import { ToolsetView } from '@toolfleet/catalog';
import { sqliteDialect } from '@toolfleet/database';
import { FakeClock } from '@toolfleet/testing';
import { afterAll, beforeEach, expect, it } from 'vitest';
import { RecordedCallStore } from '../../../apps/records/src/call-store.js';
import { RuleTests } from './rule-tests.js';

const folder = mkdtempSync(join(tmpdir(), 'toolfleet-rules-'));
afterAll(() => rmSync(folder, { recursive: true }));

const NOON = Date.UTC(2026, 10, 21, 12);
const clock = new FakeClock(NOON + 60_000);
const OPERATOR = { tenantId: 'operator', userId: 'op', roles: ['operator'], tools: ['*'], via: 'api_key' } as const;
const ADMIN = { ...OPERATOR, tenantId: 'acme', userId: 'ada', roles: ['admin'] } as const;

let store: RecordedCallStore;
let tests: RuleTests;
let opened = 0;
const bodies = new Map<string, KeptBody>();

const tool = (name: string, more: Partial<RegisteredTool> = {}): RegisteredTool => ({
  name,
  version: '1.0.0',
  description: name,
  category: 'data',
  input_schema: { type: 'object', properties: { n: { type: 'integer', default: 5 } } },
  binding: { kind: 'builtin', toolset: 'compute', handler: name },
  source: { kind: 'builtin', name: 'builtin.compute' },
  revision: 'r1',
  available: true,
  ...more,
});
const TOOLS = [
  tool('sum', { tags: ['math'], cost_per_use_micro_usd: 400_000 }),
  tool('write'),
  tool('slow', { rate_limit_mode: 'wait' }),
];
const OLD: ServedToolset = {
  ...{ name: 'support', tenant: 'acme', version: 1, approved: {}, quarantined: [] },
  spec: { overrides: { sum: { name: 'add' } } },
};

beforeEach(async () => {
  store = new RecordedCallStore(sqliteDialect(join(folder, `${(opened += 1)}.db`)));
  await store.open();
  bodies.clear();
  tests = new RuleTests(
    { facts: (query) => store.facts(query) },
    { get: async (name) => TOOLS.find((one) => one.name === name) ?? null },
    {
      view: async (_, { version }) => {
        if (version !== 1) throw new ToolError('NOT_FOUND', { message: 'No toolset' });
        return new ToolsetView(OLD);
      },
    },
    { one: async (_, id) => ({ call_id: id, tenant_id: 'acme', user_id: 'ann' }) as never },
    {
      read: async (_, { call_id: id }) => {
        const body = bodies.get(id);
        if (!body) throw new ToolError('NOT_FOUND', { message: 'not kept' });
        return { body, readings: [] };
      },
    },
    clock,
  );
});

let made = 0;
const call = (more: Partial<FinishedCall> = {}): FinishedCall => ({
  call_id: `call-${(made += 1)}`,
  ended_at: NOON + made,
  tenant_id: 'acme',
  user_id: 'ann',
  via: 'api_key',
  roles: [],
  tool: 'sum',
  source: 'builtin/builtin.compute',
  entry_point: 'http',
  origin: 'public',
  status: 'success',
  outcomes: { transport: 'delivered', protocol: 'ok', tool: 'ok' },
  attempts: 1,
  duration_ms: 0,
  stages: { admit_ms: 0, wait_ms: 0, queue_ms: 0, execute_ms: 0, rest_ms: 0 },
  micro_usd: 400_000,
  tokens: 0,
  ...more,
});
const refused = (code: FinishedCall['code'], more: Partial<FinishedCall> = {}): FinishedCall =>
  call({
    status: 'refused',
    code,
    outcomes: { transport: 'not_sent', protocol: 'none', tool: 'none' },
    micro_usd: 0,
    ...more,
  });
const times = (count: number, make: (index: number) => FinishedCall) =>
  Array.from({ length: count }, (_, i) => make(i));
const record = (...calls: FinishedCall[]) => store.append(randomUUID(), calls, NOON + 1_000);
const policy = (rules: string) => ({ policy: { files: [{ name: 'tools.rego', text: `package tools\n${rules}` }] } });
const run = (test: Parameters<RuleTests['run']>[1], caller: Principal = OPERATOR) =>
  tests.run(caller, { from: NOON - 1_000, ...test });

it('counts what a policy would have refused, asked and let through, and what it cannot know', async () => {
  await record(
    ...times(5, () => call()),
    call({ tool: 'write' }),
    call({ tool: 'write', roles: ['admin'] }),
    call({ tool: 'write', roles: undefined }),
    refused('POLICY_DENIED'),
    refused('POLICY_DENIED', { tool: 'write' }),
    refused('ARGUMENTS_INVALID'),
    refused('DEADLINE_EXCEEDED'),
    call({ tool: 'slow' }),
  );
  const rules = `deny contains "admins only" if { input.tool == "write"; not "admin" in input.user.roles }
ask contains "Wait?" if input.tool == "slow"`;
  expect(await run(policy(rules))).toMatchObject({
    ...{ rule: 'policy', is_partial: false, calls: 12, not_reached: 1 },
    ...{ refused: 1, still_refused: 1, admitted: 1, asked: 1, undecidable: 2 },
    reasons: [
      { reason: 'admins only', calls: 2 },
      { reason: 'Wait?', calls: 1 },
    ],
    unrecorded: [
      { fact: 'how far the call got', calls: 1 },
      { fact: 'user.roles', calls: 1 },
    ],
    examples: expect.arrayContaining([expect.objectContaining({ verdict: 'refused', tool: 'write', user_id: 'ann' })]),
  });
});

it('decides call by call where a policy asks for the time, and reads kept arguments on request', async () => {
  const [late, large, unkept] = [call({ ended_at: NOON + 500 }), call(), call()];
  await record(call(), late, large, unkept);
  const time = `deny contains "late" if time.now_ns() >= ${NOON + 500}000000`;
  expect(await run(policy(time))).toMatchObject({ calls: 4, refused: 1, examples: [{ call_id: late.call_id }] });
  for (const { call_id: id } of [late, large]) bodies.set(id, { arguments: id === late.call_id ? {} : { n: '9' } });
  const size = policy('deny contains "large" if input.arguments.n > 7');
  const unread = {
    ...{ refused: 0, undecidable: 4, unrecorded: [{ fact: 'arguments', calls: 4 }] },
    notes: expect.arrayContaining([expect.stringContaining('--read-arguments')]),
  };
  expect(await run(size)).toMatchObject(unread);
  expect(await run({ ...size, read_arguments: true })).toMatchObject({
    ...{ refused: 1, undecidable: 2 },
    examples: [{ call_id: large.call_id, verdict: 'refused' }, {}, {}],
    notes: expect.arrayContaining([expect.stringContaining('call_bodies')]),
  });
});

it('fills a bucket for each tenant in the order in which calls began', async () => {
  const burst = (tenant_id: string) => times(4, (index) => call({ tenant_id, ended_at: NOON + index }));
  // Recorded in another order.
  await record(
    ...burst('acme').toReversed(),
    ...burst('globex').slice(2),
    refused('RATE_LIMITED', { ended_at: NOON + 40_000 }),
  );
  await record(call({ provenance: 'cache', outcomes: { transport: 'not_sent', protocol: 'none', tool: 'none' } }));
  const result = await run({ rate_limit: { tool: 'sum', per_minute: 3 } });
  expect(result).toMatchObject({ calls: 7, refused: 1, admitted: 1, not_reached: 1 });
  expect(result.reasons).toEqual([{ reason: 'more than 3 calls a minute of a tenant', calls: 1 }]);
  expect(await run({ rate_limit: { tool: 'sum', per_minute: 0 } })).toMatchObject({ refused: 0, admitted: 1 });
  await record(...times(2, () => call({ tool: 'slow' })));
  expect(await run({ rate_limit: { tool: 'slow', per_minute: 1 } })).toMatchObject({ refused: 0, undecidable: 1 });
});

it('spends a budget in the order of calls, with what was spent in its period before', async () => {
  await record(
    call({ ended_at: NOON - 3_600_000 }),
    ...times(4, (index) => call({ ended_at: NOON + index })),
    call({ user_id: 'bob' }),
    refused('BUDGET_EXCEEDED', { ended_at: NOON - 1 }),
    call({ tool: 'gone', ended_at: NOON + 10 }),
  );
  const budget = { subject: 'user', id: 'ann', limit_usd: 1.6, period: 'day' } as const;
  expect(await run({ budget }, ADMIN)).toMatchObject({
    ...{ rule: 'budget', calls: 6, refused: 2, admitted: 1, undecidable: 0 },
    reasons: [{ reason: 'more than 1.6 USD', calls: 2 }],
    from: new Date(NOON - 1_000).toISOString(),
  });
  expect(await run({ budget: { ...budget, limit_usd: 100 } }, ADMIN)).toMatchObject({ refused: 0, undecidable: 1 });
  expect(await run({ budget: { subject: 'tenant', limit_usd: 1.6, period: 'day' } }, ADMIN)).toMatchObject({
    refused: 3,
  });
});

it('selects tools for calls by the name that their callers used', async () => {
  const through = { toolset: 'support@1' };
  await record(
    ...times(3, () => call(through)),
    call({ ...through, tool: 'write' }),
    call({ toolset: 'support@9' }),
    call(),
  );
  await record(call({ ...through, tool: 'gone' }), refused('TOOL_NOT_FOUND', { source: undefined, ...through }));
  const toolset = { name: 'support', spec: { include: { tags: ['math'] }, overrides: { sum: { name: 'add' } } } };
  expect(await run({ toolset }, ADMIN)).toMatchObject({
    ...{ calls: 6, not_reached: 1, refused: 1, undecidable: 2 },
    reasons: [{ reason: 'write is not in support', calls: 1 }],
  });
  const renamed = await run({ toolset: { name: 'support', spec: {} } }, ADMIN);
  expect(renamed.reasons).toEqual([{ reason: 'add is sum in support', calls: 3 }]);
  expect(await run({ toolset: { name: 'new', spec: {} }, user_id: 'ann' }, ADMIN)).toMatchObject({ calls: 7 });
});

it('refuses what is not one rule, and policies of administrators', async () => {
  await expect(run({})).rejects.toThrow('Send exactly one of policy, rate_limit, toolset, budget');
  await expect(run(policy('deny := if'))).rejects.toThrow(/The policy cannot be loaded: tools.rego:2/);
  await expect(run(policy('deny := false'), ADMIN)).rejects.toMatchObject({ code: 'PERMISSION_DENIED' });
  await expect(run({ rate_limit: { tool: 'sum', per_minute: 1 }, tenant_id: 'globex' }, ADMIN)).rejects.toMatchObject({
    code: 'PERMISSION_DENIED',
  });
});
