/**
 * `npm run test:containers`: builds every image by deploy/app.Dockerfile, brings docker-compose.yml up, and checks from
 * outside: every kind of call, rights and networks of each container, restarts of every part under load, and the drain.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { NatsClient } from '@toolfleet/transport';
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { unclear, verdictOf } from '../fleet/call-lanes.js';
import { EVERY_KIND, TOOLS_OF_EVERY_KIND } from '../fleet/every-kind.js';
import { steadyLoad, type AskOne } from '../fleet/steady-load.js';
import {
  composedApps,
  ComposedFleet,
  composeFile,
  pulledImages,
  WATCHERS,
  type ComposeServices,
} from './composed-fleet.js';
import { findEngine, type Engine } from './engine.js';
import { getImages, type Images } from './images.js';
import { reachedFrom, rightsOf, wrongRights } from './locked-down.js';

/** Pause of each lane between two calls, ms: a load that one container of each service carries on two slow cores. */
const PAUSE_MS = 150;
/** Bound of each image above its base, in MB. */
const SIZES_MB: Record<string, number> = {
  budget: 20,
  'builtin-executor': 20,
  gateway: 20,
  identity: 20,
  'mcp-executor': 12,
  'openapi-executor': 12,
  'python-sandbox': 45,
  records: 20,
  registry: 12,
  samples: 12,
};
const STORES = ['redis', 'nats', 'postgres'];
/** Parts without which no call of the load can be answered. */
const ON_EVERY_PATH = ['gateway', ...STORES];

/** An MCP server that is a command: one tool, `greet`. */
const GREETER = `
const say = (id, result) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result }) + '\\n');
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === 'initialize') say(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'greeter', version: '1' } });
  else if (method === 'tools/list') say(id, { tools: [{ name: 'greet', description: 'Greets by name', inputSchema: { type: 'object', properties: { name: { type: 'string' } } } }] });
  else if (method === 'tools/call') say(id, { content: [{ type: 'text', text: 'Hello ' + params.arguments.name }] });
  else if (id !== undefined) say(id, {});
});`;

let engine: Engine;
let images: Images;
let fleet: ComposedFleet;
let nats: NatsClient;
const table: Record<string, unknown>[] = [];

beforeAll(async () => {
  const found = await findEngine();
  if ('missing' in found) throw new Error(found.missing);
  engine = found;
  images = await getImages(engine, 'toolfleet-test', { pulled: pulledImages(), whole: true });
  say(`${engine.version}; base images: ${images.origin}`);
  for (const app of composedApps()) await images.build(app, { whole: true });
  fleet = await ComposedFleet.start({
    engine,
    images,
    change: forTheTest,
    config: {
      tool_settings: { '*': { rate_limit: 0 } },
      mcp_servers: { desk: { command: 'node', args: ['-e', GREETER] } },
      mcp_tools: {
        echo_function: {
          url: 'http://samples:4002/functions',
          func_name: 'echo',
          description: 'Answers what it was sent',
          parameters: [{ name: 'text', type: 'string', required: true, description: 'What to echo' }],
        },
      },
    },
  });
  await fleet.untilReady([...TOOLS_OF_EVERY_KIND, 'desk_greet']);
  const login = { url: fleet.natsUrl, user: 'acme', password: fleet.secret('NATS_TENANT_ACME_PASSWORD') };
  nats = await NatsClient.connect({ name: 'spec', ...login });
});
afterAll(async () => {
  if (table.length > 0) console.table(table); // oxlint-disable-line no-console -- the result of the run
  await nats?.close();
  await fleet?.down();
  await images?.remove();
  await engine?.close();
});

function say(line: string): void {
  console.log(`toolfleet: ${line}`); // oxlint-disable-line no-console -- facts of the run
}

/** Settings of a test: MCP servers that are commands. */
function forTheTest(services: ComposeServices): void {
  services['mcp-executor']!.environment!['TOOLFLEET_LOCAL'] = 'true';
}

describe('images', () => {
  it('are as small as their table says', async () => {
    for (const app of composedApps()) {
      const megabytes = (await images.ownBytes(app)) / 1e6;
      table.push({ image: app, 'MB above its base': Number(megabytes.toFixed(1)), bound: SIZES_MB[app]! });
      expect({ app, isSmall: megabytes < SIZES_MB[app]! }).toEqual({ app, isSmall: true });
    }
  });

  it('have a health check that passes', async () => {
    const { services } = composeFile();
    const own = Object.keys(services).filter((name) => services[name]!.build && name !== 'samples');
    await Promise.all([...own, ...STORES].map((name) => fleet.untilHealthy(name)));
  });
});

describe('containers', () => {
  it('have the expected users, capabilities and mounts', async () => {
    const wrong: string[] = [];
    // The watchers' images have no shell.
    const names = Object.keys(fleet.services).filter((each) => !WATCHERS.includes(each));
    const seen = await Promise.all(names.map(async (name) => [name, await rightsOf(fleet, name)] as const));
    for (const [name, rights] of seen) {
      table.push({ container: name, ...rights, writable: rights.writable.join(' ') });
      wrong.push(...wrongRights(name, rights));
    }
    expect(wrong).toEqual([]);
  });

  it('reach what their class needs', async () => {
    expect(await reachedFrom(fleet, 'python-sandbox')).toEqual(['redis:6379']);
    const ofWeb = await reachedFrom(fleet, 'builtin-web');
    expect(ofWeb).toContain('nats:4222');
    expect(ofWeb.filter((each) => /^(?:redis|postgres|python-sandbox):/.test(each))).toEqual([]);
    expect((await reachedFrom(fleet, 'gateway')).filter((each) => /^(?:postgres|python-sandbox):/.test(each))).toEqual(
      [],
    );
  });

  it('show the metrics of the sandbox to the network of Prometheus', async () => {
    const script = `fetch('http://sandbox-metrics:9464/metrics').then((r) => r.text()).then(console.log)`;
    expect(await fleet.exec('samples', 'node', '-e', script)).toContain('toolfleet_build_info');
  });
});

describe('calls', () => {
  it.each(EVERY_KIND)('%s', (_what, run) =>
    run({
      fleet,
      nats,
      subjectOf: (verb) => `tool.${verb}.acme`,
      samples: { api: 'http://samples:4001', mcp: 'http://samples:4002' },
    }),
  );

  it('a tool of an MCP server that is a command', async () => {
    const answer = await fleet.call('desk_greet', { name: 'Ada' });
    expect([answer.status, answer.text]).toEqual([200, expect.stringContaining('Hello Ada')]);
  });

  it('Python with files', async () => {
    const code = 'sum(int(line) for line in files["numbers.txt"].split())';
    const answer = await fleet.call('execute_python', { code, files: { 'numbers.txt': '20\n22' } });
    expect(answer, answer.text).toMatchObject({ status: 200, body: { output: { value: 42 } } });
  });

  it('a batch', async () => {
    const one = (expression: string) => ({ name: 'calculator', arguments: { expression } });
    const { status, text } = await fleet.ask({
      path: '/api/v1/tools/batch-execute',
      body: { calls: [one('6*7'), one('40+2')] },
    });
    // A result is JSON text in the JSON of its record.
    expect([status, text.match(/\\"result\\":42/g)?.length]).toEqual([200, 2]);
  });

  it('the console, its sign-in and the records of calls', async () => {
    expect((await fleet.ask({ path: '/console', key: null })).text).toContain('toolfleet console');
    const { body: made } = await fleet.call('calculator', { expression: '2*21' });
    await eventually(
      'the call is recorded',
      async () => (await fleet.ask({ path: '/api/v1/calls?limit=500' })).text.includes(made.call_id),
      { everyMs: 250 },
    );
    // Identity answers: without a provider in the configuration file no user signs in.
    expect((await fleet.ask({ path: '/api/v1/sessions' })).status).toBe(200);
  });
});

describe('a restart under load', () => {
  const settled = async (ask: () => ReturnType<ComposedFleet['call']>, isRight: (output: any) => boolean) => {
    await sleep(PAUSE_MS);
    const { status, body, text } = await ask();
    if (status === 200 && isRight(body.output)) return undefined;
    return verdictOf(body?.code ?? body?.metadata?.code, text);
  };
  const askers: AskOne[] = [
    (number) =>
      settled(
        () => fleet.call('calculator', { expression: `${number}+0.5` }),
        (output) => output?.result === number + 0.5,
      ),
    (number) =>
      settled(
        () => fleet.call('execute_python', { code: `${number} * 2` }),
        (output) => output?.value === number * 2,
      ),
    (number) =>
      settled(
        () => fleet.call('sample_add', { a: number, b: 1 }),
        (output) => output?.sum === number + 1,
      ),
    () =>
      settled(
        () => fleet.call('parcels_getParcel', { parcel_id: 'P-1001' }),
        (output) => output !== undefined,
      ),
  ];
  const parts = Object.keys(composeFile().services).filter(
    (name) => ![...WATCHERS, 'samples', 'sandbox-metrics'].includes(name),
  );
  const drills = [
    ...[...STORES, ...parts.filter((name) => !STORES.includes(name))].map((name) => [name, 'restarted'] as const),
    ...STORES.map((name) => [name, 'killed'] as const),
  ];

  it.each(drills)('of %s, %s', async (service, how) => {
    const load = steadyLoad(askers, 1);
    try {
      await load.flows(4);
      const from = performance.now();
      if (how === 'killed') {
        await fleet.kill(service);
        await eventually('it has ended', async () => !(await fleet.inspect(service)).State.Running, { everyMs: 100 });
        await fleet.startAgain(service);
      } else await fleet.restart(service);
      await fleet.untilHealthy(service);
      await load.flows(12);
      const seconds = Number(((performance.now() - from) / 1_000).toFixed(1));
      const codes = [...new Set(load.failures.map((each) => each.slice(0, 40)))].join(', ');
      table.push({ drill: `${service} ${how}`, answered: load.right(), failed: load.failures.length, codes, seconds });
    } finally {
      await load.stop();
    }
    // A gateway that is unavailable cannot answer: its callers see the connection refused.
    const answered = load.failures.filter((each) => service !== 'gateway' || !/no answer/.test(each));
    expect(unclear(answered)).toEqual([]);
    if (!ON_EVERY_PATH.includes(service)) expect(load.right()).toBeGreaterThan(load.failures.length);
    for (const key of [fleet.adminKey, fleet.operatorKey])
      expect((await fleet.ask({ path: '/api/v1/me', key })).status).toBe(200);
  });

  it('keeps idempotency keys and accepted jobs when Redis is killed', async () => {
    const headers = { 'idempotency-key': `kept-${process.pid}` };
    const save = () => fleet.call('sample_save_note', { text: 'kept' }, { headers });
    const first = await save();
    expect(first.status, first.text).toBe(200);
    const jobs = await Promise.all(
      Array.from({ length: 6 }, (_, number) =>
        fleet.call('execute_python', { code: `sum(range(10 ** 6)) * 0 + ${number}` }, { fields: { mode: 'async' } }),
      ),
    );
    // Writes of the last second may be lost with the machine, not with the process.
    await fleet.kill('redis');
    await fleet.startAgain('redis');
    await fleet.untilHealthy('redis');
    for (const { body } of jobs) {
      const path = `/api/v1/calls/${String(body.call_id)}`;
      await eventually('the job has succeeded', async () => (await fleet.ask({ path })).body?.status === 'succeeded', {
        everyMs: 250,
      });
    }
    expect((await save()).body.call_id).toBe(first.body.call_id);
  });
});

describe('the drain', () => {
  it.each(['python-sandbox', 'gateway', 'registry', 'mcp-executor'])(
    '%s answers the calls under way, then ends with 0',
    async (service) => {
      const tool = service === 'mcp-executor' ? 'sample_count_slowly' : 'execute_python';
      const args =
        tool === 'execute_python' ? { code: 'for i in range(6 * 10 ** 6): pass\nresult = 42' } : { steps: 8 };
      const calls = [1, 2].map(() => fleet.call(tool, args));
      await sleep(1_000);
      expect(await fleet.stop(service)).toBe(0);
      for (const { status, text } of await Promise.all(calls)) expect([status, text]).toEqual([200, text]);
      await fleet.startAgain(service);
      await fleet.untilHealthy(service);
    },
  );
});
