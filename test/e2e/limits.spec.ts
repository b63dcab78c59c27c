/** Limits hold over several gateways: 3,000 calls at once admit what the limit says, not one more. */
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NatsClient } from '@toolfleet/transport';
import { main } from '../../tools/fleetctl/src/main.js';
import { terminalOn } from '../../tools/fleetctl/src/terminal.js';
import { TestFleet, type Answer } from '../fleet/test-fleet.js';

const CALLS = 3_000;
const RATE = 100;
const PRICE_MICRO_USD = 1_000;

/** Tools without a price that report what they used. */
const METERED = `export default ({ defineTool, ok }) => ['thinks', 'buys'].map((name) => defineTool({
  name, description: 'Reports its usage', category: 'data', rateLimit: 0, cacheTtlSeconds: 0,
  inputSchema: { type: 'object', properties: { n: { type: 'integer' }, amount: { type: 'integer' } }, required: ['n', 'amount'] },
  handler: async ({ n, amount }) => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    const usage = name === 'thinks' ? { tokens: amount, microUsd: 0 } : { tokens: 0, microUsd: amount };
    return ok({ n }, String(n), { usage });
  },
}));`;

let fleet: TestFleet;
let plugins: string;
beforeAll(async () => {
  plugins = await mkdtemp(join(tmpdir(), 'toolfleet-plugins-'));
  await writeFile(join(plugins, 'metered.tool.mjs'), METERED);
  fleet = await TestFleet.start({
    services: { gateway: 2, registry: 1, budget: 1, 'builtin-executor': 1 },
    together: ['gateway', 'registry', 'budget'],
    tools: ['calculator', 'thinks'],
    config: {
      rate_limits: {
        tiers: {
          wide: { requests_per_minute: 1e6, requests_per_hour: 1e7, requests_per_day: 1e8 },
          narrow: { requests_per_minute: 50, requests_per_hour: 1_000, requests_per_day: 1_000 },
        },
      },
      budget: { tenants: { globex: { max_cost_per_tenant: (100 * PRICE_MICRO_USD) / 1e6 } } },
    },
    env: { BUILTIN_COSTS_MICRO_USD: `calculator=${PRICE_MICRO_USD}`, BUILTIN_PLUGINS_DIR: plugins },
  });
});
afterAll(async () => {
  await fleet?.stop();
  await rm(plugins, { recursive: true, force: true });
});

/** All calls at once over both gateways; no two are equal, so that neither cache nor coalescing answers. */
async function flood(key: string, from: number, size = CALLS): Promise<{ answers: Answer[]; seconds: number }> {
  const startedAt = performance.now();
  const answers = await Promise.all(
    Array.from({ length: size }, (_, index) =>
      fleet.call('calculator', { expression: `${from + index}+1` }, { key, gateway: index % 2 }),
    ),
  );
  return { answers, seconds: (performance.now() - startedAt) / 1_000 };
}

/** Codes of calls that did not run because budget or keys were late. */
const LATE = new Set(['BUDGET_UNAVAILABLE', 'SERVICE_UNAVAILABLE']);
/** As `flood`; calls that were `late`, on a busy machine, are made again until none is. */
async function floodUntilDecided(
  key: string,
  from: number,
  size = CALLS,
): Promise<{ answers: Answer[]; late: number }> {
  const { answers } = await flood(key, from, size);
  const decided = answers.filter(({ body }) => !LATE.has(body.code));
  const late = size - decided.length;
  if (late === 0) return { answers, late };
  const rest = await floodUntilDecided(key, from + size, late);
  return { answers: [...decided, ...rest.answers], late: late + rest.late };
}

const count = (answers: readonly Answer[], status: number) =>
  answers.filter((answer) => answer.status === status).length;

const BATCH = 7;
let calls = 0;
const nativeCall = () => ({ name: 'calculator', arguments: { expression: `${(calls += 1)} * 3` } });
const shannonCall = () => ({ tool_name: 'calculator', parameters: { expression: `${(calls += 1)} * 3` } });
const mcpCall = () => ({ jsonrpc: '2.0', id: (calls += 1), method: 'tools/call', params: nativeCall() });
const batchOf = <T>(make: () => T): T[] => Array.from({ length: BATCH }, make);

describe('the share of a call in the limits of its key', () => {
  const MCP = { accept: 'application/json, text/event-stream' };
  let nats: NatsClient;
  let keys = 0;
  beforeAll(async () => {
    nats = await NatsClient.connect({ url: fleet.nats.url, name: 'limits' });
  });
  afterAll(() => nats?.close());

  const newKey = async (): Promise<string> => {
    const body = { client: `counted-${(keys += 1)}`, tier: 'narrow', tenant_id: 'acme' };
    const { status, body: issued } = await fleet.ask({ path: '/api/v1/keys', body, key: fleet.operatorKey });
    expect(status).toBe(201);
    return issued.token;
  };
  /** What is left of the hour; asking also counts as a request. */
  const left = async (key: string): Promise<number> =>
    Number((await fleet.ask({ path: '/api/v1/me', key })).headers.get('x-ratelimit-remaining-hour'));
  const overNats = (key: string, subject: string, body: object): Promise<unknown> =>
    nats.request(subject, body, { timeoutMs: 20_000, headers: { Authorization: `Bearer ${key}` } });

  it.each<[string, number, (key: string) => Promise<unknown>]>([
    ['HTTP', 1, (key) => fleet.call('calculator', nativeCall().arguments, { key })],
    [
      'HTTP, asynchronous',
      1,
      (key) => fleet.call('calculator', nativeCall().arguments, { key, fields: { mode: 'async' } }),
    ],
    [
      'HTTP, a batch',
      BATCH,
      (key) => fleet.ask({ path: '/api/v1/tools/batch-execute', body: batchOf(nativeCall), key }),
    ],
    ['Shannon’s path', 1, (key) => fleet.ask({ path: '/tools/execute', body: shannonCall(), key })],
    [
      'Shannon’s path, a batch',
      BATCH,
      (key) => fleet.ask({ path: '/tools/batch-execute', body: batchOf(shannonCall), key }),
    ],
    ['MCP', 1, (key) => fleet.ask({ path: '/mcp', body: mcpCall(), key, headers: MCP })],
    ['MCP, a JSON-RPC batch', BATCH, (key) => fleet.ask({ path: '/mcp', body: batchOf(mcpCall), key, headers: MCP })],
    ['NATS', 1, (key) => overNats(key, 'tool.call', nativeCall())],
    ['NATS, a batch', BATCH, (key) => overNats(key, 'tool.batch', { calls: batchOf(nativeCall) })],
  ])('over %s: %i', async (_what, expected, send) => {
    const key = await newKey();
    const before = await left(key);
    await send(key);
    expect(before - (await left(key)) - 1).toBe(expected);
  });

  it('a batch that does not fit is refused as a whole, on every entry point', async () => {
    const tooMany = { length: 90 };
    const key = await newKey();
    const refused = await fleet.ask({
      path: '/api/v1/tools/batch-execute',
      body: Array.from(tooMany, nativeCall),
      key,
    });
    expect(refused.status).toBe(429);
    expect(refused.body).toMatchObject({ code: 'RATE_LIMITED', details: { window: 'minute', limit: 50, calls: 90 } });
    expect(
      (await fleet.ask({ path: '/tools/batch-execute', body: Array.from(tooMany, shannonCall), key })).status,
    ).toBe(429);
    expect((await fleet.ask({ path: '/mcp', body: Array.from(tooMany, mcpCall), key, headers: MCP })).status).toBe(429);
    await expect(overNats(key, 'tool.batch', { calls: Array.from(tooMany, nativeCall) })).rejects.toMatchObject({
      code: 'RATE_LIMITED',
    });
    expect((await fleet.call('calculator', nativeCall().arguments, { key })).status).toBe(200);
  });
});

describe('an id with a control character', () => {
  const ID = 'a\u0000b';
  const FIELDS = ['session_id', 'request_id', 'agent_id', 'task_id', 'idempotency_key'];

  it.each(FIELDS)('as %s is refused on every entry point', async (field) => {
    const key = fleet.keys['acme']!;
    const single = await fleet.call('calculator', { expression: '1' }, { key, fields: { [field]: ID } });
    expect([single.status, single.body.code]).toEqual([400, 'REQUEST_INVALID']);
    const batch = { calls: [nativeCall()], [field]: ID };
    expect((await fleet.ask({ path: '/api/v1/tools/batch-execute', body: batch, key })).status).toBe(400);
    const nats = await NatsClient.connect({ url: fleet.nats.url, name: 'ids' });
    await expect(
      nats.request('tool.call', { ...nativeCall(), [field]: ID }, { headers: { Authorization: `Bearer ${key}` } }),
    ).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
    await nats.close();
    const { text } = await fleet.ask({
      path: '/mcp',
      body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { ...nativeCall(), _meta: { [field]: ID } } },
      headers: { accept: 'application/json, text/event-stream' },
      key,
    });
    expect(text).toMatch(/"code":-32602.*control characters/);
  });

  it('in a path, and in the session of Shannon’s path', async () => {
    expect((await fleet.ask({ path: '/api/v1/calls/a%00b' })).status).toBe(400);
    const body = { ...shannonCall(), session_context: { session_id: ID } };
    expect((await fleet.ask({ path: '/tools/execute', body })).status).toBe(400);
  });
});

describe('3,000 calls at once over two gateways', () => {
  it('reach a gateway that is late to accept their connections', async () => {
    const system = Number(await readFile('/proc/sys/net/core/somaxconn', 'utf8').catch(() => 0));
    const size = Math.min(CALLS / 2, system);
    const { port } = new URL(fleet.url());
    const gateway = fleet.process('gateway');
    gateway.pause();
    try {
      const sockets = Array.from({ length: size }, () => connect(Number(port), '127.0.0.1'));
      // A connection that finds no place is reset or waits for the gateway.
      await Promise.all(sockets.map((socket) => once(socket, 'connect')));
      for (const socket of sockets) socket.destroy();
    } finally {
      gateway.resume();
    }
  });

  it('spend a budget for 100 calls exactly', async () => {
    const { answers, late } = await floodUntilDecided(fleet.keys['globex']!, 0);
    const [succeeded, refused] = [count(answers, 200), answers.filter(({ status }) => status === 402)];
    const others = answers.filter(({ status }) => status !== 200 && status !== 402);
    expect(others.slice(0, 3).map(({ text }) => text)).toEqual([]);
    expect(answers).toHaveLength(CALLS);
    // The share of a late answer may be held until its lease ends.
    expect(succeeded).toBeLessThanOrEqual(100);
    expect(succeeded).toBeGreaterThanOrEqual(100 - late);
    expect(new Set(refused.map(({ body }) => body.code))).toEqual(new Set(['BUDGET_EXCEEDED']));

    // Answers of tools with a price do not wait for their settlement. What was reserved for a late answer is held until its release has
    // arrived, and charged if that is lost.
    const tenant = async () => {
      const { body } = await fleet.ask({ path: '/api/v1/budgets?tenant_id=globex', key: fleet.operatorKey });
      return body.budgets.find((budget: { scope: string }) => budget.scope === 'tenant');
    };
    await expect
      .poll(tenant, { timeout: 120_000 })
      .toMatchObject({ limit_usd: 0.1, spent_usd: (succeeded * PRICE_MICRO_USD) / 1e6, held_usd: 0 });
  });

  it('spend the budget of a key for 100 calls exactly, besides calls that ran before, and say which budget refuses', async () => {
    const newKey = { client: 'budgeted', tier: 'wide', tenant_id: 'acme' };
    const { body: key } = await fleet.ask({ path: '/api/v1/keys', body: newKey, key: fleet.operatorKey });
    const price = PRICE_MICRO_USD / 1e6;
    expect((await flood(key.token, 1e6, 10)).answers.map(({ status }) => status)).toEqual(
      Array.from({ length: 10 }, () => 200),
    );
    const ofKey = async () => {
      const { body } = await fleet.ask({ path: '/api/v1/usage?group_by=key', key: fleet.adminKey });
      return body.rows.find((row: { key_id: string }) => row.key_id === key.id)?.cost_usd;
    };
    await expect.poll(ofKey).toBeCloseTo(10 * price, 9);
    const budget = { subject: 'key', id: key.id, period: 'month', limit_usd: 110 * price };
    const set = await fleet.ask({ path: '/api/v1/budgets', method: 'PUT', body: budget, key: fleet.adminKey });
    expect(set).toMatchObject({ status: 200, body: { subject_id: key.id, limit_usd: 0.11, spent_usd: 0.01 } });
    const [{ answers, late }, other] = await Promise.all([
      floodUntilDecided(key.token, 2e6, 600),
      floodUntilDecided(fleet.keys['acme']!, 3e6, 30),
    ]);
    expect(count(other.answers, 200)).toBe(30);
    const succeeded = count(answers, 200);
    expect(succeeded).toBeLessThanOrEqual(100);
    expect(succeeded).toBeGreaterThanOrEqual(100 - late);
    const refused = answers.find(({ status }) => status === 402)!;
    const month = new Date().toISOString().slice(0, '2026-11'.length);
    expect(refused.body).toMatchObject({
      code: 'BUDGET_EXCEEDED',
      error: expect.stringContaining(`Budget exceeded for key ${key.id} in ${month}: `),
      details: { scope: `key/${month}:${key.id}`, limit: 110_000, resets_at: expect.stringMatching(/-01T00:00:00/) },
    });
    const own = await fleet.ask({ path: '/api/v1/budgets', key: key.token });
    expect(own.body.budgets).toContainEqual(expect.objectContaining({ subject: 'key', subject_id: key.id }));
    expect((await fleet.ask({ path: '/api/v1/budgets', method: 'PUT', body: budget, key: key.token })).status).toBe(
      403,
    );
    const path = `/api/v1/budgets?subject=key&id=${key.id}`;
    expect((await fleet.ask({ path, method: 'DELETE', key: fleet.adminKey })).status).toBe(204);
    expect((await flood(key.token, 4e6, 1)).answers[0]!.status).toBe(200);
  });

  /** Floods with the key of a new tenant with a full bucket. */
  const floodBucket = async (
    tenant: string,
    options: {
      size?: number;
      prepare?: (key: string) => Promise<unknown>;
      /** Runs alongside the flood until `isEnough`: the flood is over, or a gateway has decided without Redis. */
      meanwhile?: (isEnough: () => boolean) => Promise<void>;
    } = {},
  ) => {
    const key = await fleet.ask({
      path: '/api/v1/keys',
      body: { client: 'flood', tier: 'wide', tenant_id: tenant },
      key: fleet.operatorKey,
    });
    const { size = CALLS, prepare, meanwhile } = options;
    await prepare?.(key.body.token);
    let [isOver, local] = [false, false];
    const watch = async (): Promise<void> => {
      while (!isOver) {
        local ||= await decidedLocally();
        await sleep(500);
      }
    };
    // On a busy machine the flood lasts longer than the metric shows a decision.
    const alongside = [watch(), meanwhile?.(() => isOver || local)];
    const { answers, seconds } = await flood(key.body.token, (calls += CALLS), size).finally(() => (isOver = true));
    await Promise.all(alongside);
    // The budget is asked after the limiter; it may be late on a busy machine, and is while Redis does not answer.
    const isAdmitted = ({ status, body }: Answer) => status === 200 || body?.code === 'BUDGET_UNAVAILABLE';
    const admitted = answers.filter(isAdmitted).length;
    // Without Redis a key cannot be verified again, and a busy machine may need longer for a flood than a verification lasts.
    const isUnverified = ({ body }: Answer) => meanwhile !== undefined && body?.code === 'SERVICE_UNAVAILABLE';
    const others = answers.filter((answer) => answer.status !== 429 && !isAdmitted(answer) && !isUnverified(answer));
    expect(others.map(({ status, text }) => `${status} ${text}`)).toEqual([]);
    return {
      answers,
      admitted,
      refilled: Math.ceil((seconds * RATE) / 60),
      decidedLocally: local || (await decidedLocally()),
    };
  };
  /** Whether a gateway has decided without Redis in the last 15 s. */
  const decidedLocally = async (): Promise<boolean> => {
    const metrics = await Promise.all([0, 1].map((index) => fleet.process('gateway', index).admin('/metrics')));
    return metrics.some(({ body }) => /^toolfleet_limiter_fallback 1$/m.test(body));
  };

  it(`get through a limit of ${RATE} a minute as often as it says, and what refills meanwhile`, async () => {
    // The limit is part of the definition: another executor announces the tool with it.
    await fleet.terminate('builtin-executor');
    await fleet.launch('builtin-executor', { CALCULATOR_RATE_LIMIT: String(RATE) });
    for (const gateway of [0, 1]) {
      const metadata = () => fleet.ask({ path: '/tools/calculator/metadata', gateway });
      await expect.poll(async () => (await metadata()).body.rate_limit).toBe(RATE);
    }

    // A gateway that waits for Redis for more than 100 ms, as on a busy machine, decides with its share of the limit. Tokens that
    // Redis granted meanwhile are lost. Such a flood cannot show that the shared limit is exact, so a smaller one follows.
    for (let round = 1; ; round += 1) {
      const size = Math.max(5 * RATE, CALLS / round);
      const { answers, admitted, refilled, decidedLocally: local } = await floodBucket(`exact-${round}`, { size });
      if (local && round < 10) {
        expect(admitted).toBeLessThanOrEqual(2 * (RATE + refilled));
        await expect.poll(decidedLocally, { interval: 500 }).toBe(false);
        continue;
      }
      expect(local, 'Redis was too slow for a gateway in every flood').toBe(false);
      expect(admitted).toBeGreaterThanOrEqual(RATE);
      expect(admitted).toBeLessThanOrEqual(RATE + refilled);
      const refused = answers.find(({ status }) => status === 429)!;
      expect(refused.body).toMatchObject({ code: 'RATE_LIMITED' });
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
      return;
    }
  });

  it('are limited to the share of each gateway while Redis does not answer, which a metric shows', async () => {
    const redis = fleet.redis.client();
    try {
      for (let round = 1; ; round += 1) {
        const {
          admitted,
          refilled,
          decidedLocally: local,
        } = await floodBucket(`shares-${round}`, {
          prepare: async (key) => {
            // The gateways then know the key, and a connection of the limiter waits.
            for (const gateway of [0, 1]) await fleet.call('calculator', { expression: '1' }, { key, gateway });
          },
          // One pause may be over before a busy machine has sent the first calls. The next command waits for its end.
          meanwhile: async (isEnough) => {
            while (!isEnough()) await redis.call('CLIENT', 'PAUSE', '1500', 'ALL');
          },
        });
        // What Redis grants between the pauses, and the shares.
        expect(admitted).toBeLessThanOrEqual(2 * (RATE + refilled));
        if (local) {
          expect(admitted).toBeGreaterThan(0);
          return;
        }
        // A busy machine may send so late that no gateway knows the key any more.
        expect(round, 'no gateway decided without Redis in any flood').toBeLessThan(10);
        await redis.ping(); // returns when the last pause has ended
      }
    } finally {
      await redis.quit();
    }
  });
});

describe('usage that tools report after they ran', () => {
  const CALLERS = 16;
  let tenants = 0;
  let nats: NatsClient;
  beforeAll(async () => {
    nats = await NatsClient.connect({ url: fleet.nats.url, name: 'metered' });
  });
  afterAll(() => nats?.close());

  /** A key of a new tenant, where nothing is known of any tool. */
  const newTenant = async (roles: string[] = []): Promise<{ tenant: string; id: string; token: string }> => {
    const tenant = `metered-${(tenants += 1)}`;
    const body = { client: 'metered', tier: 'wide', tenant_id: tenant, roles };
    const { body: key } = await fleet.ask({ path: '/api/v1/keys', body, key: fleet.operatorKey });
    return { tenant, id: key.id, token: key.token };
  };
  const setBudget = async (tenant: string, budget: object): Promise<void> => {
    const body = { tenant_id: tenant, period: 'total', ...budget };
    const set = await fleet.ask({ path: '/api/v1/budgets', method: 'PUT', body, key: fleet.operatorKey });
    expect(set.status, set.text).toBe(200);
  };
  /** Calls in lanes over both gateways; the answers of those that ran. */
  const callInLanes = async (
    { tool, key, size }: { tool: string; key: string; size: number },
    amountOf: (n: number) => number,
    fields: object,
  ): Promise<Answer[]> => {
    const ran: Answer[] = [];
    let next = 0;
    const lane = async (): Promise<void> => {
      for (let n = (next += 1); n <= size; n = next += 1) {
        const answer = await fleet.call(tool, { n, amount: amountOf(n) }, { key, gateway: n % 2, fields });
        if (answer.status === 200) ran.push(answer);
        else if (answer.body.code !== 'BUDGET_UNAVAILABLE') expect(answer.status, answer.text).toBe(402);
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, lane));
    return ran;
  };

  const always = (amount: number) => () => amount;
  /** Grows, shrinks and grows again: most calls cost less than one before them. */
  const waves = (amount: number) => (n: number) => Math.ceil((amount * (1 + ((n * 7) % 13))) / 13);

  it.each<
    [
      string,
      {
        tool: string;
        limit: number;
        size: number;
        amountOf: (n: number) => number;
        budget?: 'key' | 'tenant';
        fields?: object;
      },
    ]
  >([
    [
      'tokens of an agent',
      { tool: 'thinks', limit: 5_000, size: 1_000, amountOf: always(1_300), fields: { agent_id: 'a' } },
    ],
    [
      'tokens of a task',
      { tool: 'thinks', limit: 20_000, size: 300, amountOf: waves(1_300), fields: { task_id: 't' } },
    ],
    [
      'tokens of a named request',
      { tool: 'thinks', limit: 10_000, size: 200, amountOf: always(900), fields: { request_id: 'r' } },
    ],
    ['money of a tenant', { tool: 'buys', limit: 8_000, size: 1_000, amountOf: always(4_000), budget: 'tenant' }],
    ['money of a key', { tool: 'buys', limit: 90_000, size: 200, amountOf: waves(4_000), budget: 'key' }],
    ['tokens of a key', { tool: 'thinks', limit: 3_000, size: 100, amountOf: always(5_000), budget: 'key' }],
  ])(
    '16 callers exceed %s by no more than the largest call',
    async (_what, { tool, limit, size, amountOf, budget, fields = {} }) => {
      const { tenant, id, token } = await newTenant();
      const limits = tool === 'buys' ? { limit_usd: limit / 1e6 } : { limit_tokens: limit };
      if (budget) await setBudget(tenant, { subject: budget, id: budget === 'key' ? id : undefined, ...limits });
      const ran = await callInLanes({ tool, key: token, size }, amountOf, fields);
      const amounts = ran.map(({ body }) =>
        tool === 'buys' ? Math.round(body.usage.cost_usd * 1e6) : body.usage.tokens,
      );
      const spent = amounts.reduce((sum: number, amount: number) => sum + amount, 0);
      expect(spent).toBeGreaterThanOrEqual(limit);
      expect(spent).toBeLessThan(limit + Math.max(...amounts));
    },
  );

  const AMOUNT = 1_300;
  const LIMIT = 3_000;
  const args = () => ({ n: (calls += 1), amount: AMOUNT });
  const overNats = (key: string, subject: string, body: object): Promise<unknown> =>
    nats
      .request(subject, body, { timeoutMs: 60_000, headers: { Authorization: `Bearer ${key}` } })
      .catch(() => undefined);
  const thinks = () => ({ name: 'thinks', arguments: args() });

  it.each<[string, (key: string) => Promise<unknown>]>([
    [
      'HTTP',
      (key) => Promise.all(Array.from({ length: 8 }, (_, n) => fleet.call('thinks', args(), { key, gateway: n % 2 }))),
    ],
    [
      'a batch',
      (key) => fleet.ask({ path: '/api/v1/tools/batch-execute', body: Array.from({ length: 8 }, thinks), key }),
    ],
    [
      'MCP',
      (key) =>
        Promise.all(
          Array.from({ length: 8 }, () =>
            fleet.ask({
              path: '/mcp',
              body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: thinks() },
              headers: { accept: 'application/json, text/event-stream' },
              key,
            }),
          ),
        ),
    ],
    ['NATS', (key) => Promise.all(Array.from({ length: 8 }, () => overNats(key, 'tool.call', thinks())))],
    ['NATS, a batch', (key) => overNats(key, 'tool.batch', { calls: Array.from({ length: 8 }, thinks) })],
    [
      'HTTP, asynchronous',
      async (key) => {
        const fields = { mode: 'async' };
        const accepted = await Promise.all(
          Array.from({ length: 8 }, (_, n) => fleet.call('thinks', args(), { key, gateway: n % 2, fields })),
        );
        for (const { body } of accepted) {
          const state = async () => (await fleet.ask({ path: `/api/v1/calls/${body.call_id}`, key })).body.status;
          await expect.poll(state).toMatch(/succeeded|failed/);
        }
      },
    ],
  ])('eight calls at once over %s exceed a limit by one call at most', async (_what, send) => {
    const { tenant, id, token } = await newTenant();
    await setBudget(tenant, { subject: 'key', id, limit_tokens: LIMIT });
    await send(token);
    const { body } = await fleet.ask({ path: '/api/v1/budgets', key: token });
    const ofKey = body.budgets.find(({ subject }: { subject?: string }) => subject === 'key');
    expect(ofKey).toMatchObject({ spent_tokens: 3 * AMOUNT, held_tokens: 0 });
  });
});

it('the audit log of a gateway is one chain, from its start to its end, with every call of the floods', async () => {
  const gateway = fleet.process('gateway', 1);
  expect(await fleet.terminate('gateway', 1)).toBe(0);
  const file = join(fleet.folder, 'gateway.log');
  await writeFile(file, gateway.log());
  let out = '';
  const terminal = terminalOn({
    out: (text) => void (out += text),
    error: () => undefined,
    readInput: async () => '',
  });
  expect(await main(['audit', 'verify', file, '--json'], terminal)).toBe(0);
  const { chains } = JSON.parse(out) as { chains: { lines: number; ended: boolean }[] };
  expect(chains).toMatchObject([{ ended: true }]);
  expect(chains[0]!.lines).toBeGreaterThan(CALLS / 2);
});
