/**
 * Real MCP clients of both protocol revisions on two gateways behind a load balancer: every kind of tool is listed and called. One
 * gateway is killed midway: no call fails but those it had in work, and each of these gets an error. Then many users answer questions of
 * many servers at the same time, with kills: no answer reaches another user. A task of a server outlives the executor that follows it.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { eventually, startRoundRobin, type RoundRobin } from '@toolfleet/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { askUsers, startAskingSources, type AskingSources } from '../fleet/asked-users.js';
import { modernRequest } from '../fleet/mcp-tasks.js';
import { startSampleServices, type SampleServices } from '../fleet/sample-services.js';
import { startTaskMcpServer, type TaskMcpServer } from '../fleet/task-mcp-server.js';
import { ofEach, TestFleet } from '../fleet/test-fleet.js';

/** One of each kind; `n` makes every call a new one for all caches. */
const KINDS: readonly (readonly [tool: string, args: (n: number) => Record<string, unknown>])[] = [
  ['calculator', (n) => ({ expression: `${n}+1` })],
  ['sample_add', (n) => ({ a: n, b: 1 })],
  ['echo_function', (n) => ({ text: `call ${n}` })],
  ['parcels_getParcel', () => ({ parcel_id: 'P-1001' })],
  ['execute_python', (n) => ({ code: `result = ${n} + 1` })],
];
const ALL = process.env['FAILURE_SEEDS'] === 'all';
/** Users, the servers that ask them, and the gateways that are killed meanwhile. */
const ASKED = ALL
  ? { users: 1_000, sources: 20, kills: 6, lanes: 200, spreadMs: 4_000 }
  : { users: 40, sources: 4, kills: 1, lanes: 40, spreadMs: 1_500 };
const SEED = Number(process.env['FAILURE_SEED'] ?? 7);
const BEFORE = 60;
const AFTER = 60;
const LANES = 6;

let samples: SampleServices;
let asking: AskingSources;
let baking: TaskMcpServer;
let fleet: TestFleet;
let robin: RoundRobin;
const clients: Client[] = [];

beforeAll(async () => {
  [samples, asking, baking] = await Promise.all([
    startSampleServices(),
    startAskingSources(ASKED.sources),
    startTaskMcpServer(),
  ]);
  const { mcp_servers: servers } = samples.config as { mcp_servers: object };
  fleet = await TestFleet.start({
    services: { ...ofEach(1), gateway: 2, identity: 0 },
    config: {
      ...samples.config,
      mcp_servers: { ...servers, ...asking.entries, oven: { url: `${baking.origin}/mcp` } },
    },
    env: {
      ...samples.env,
      EGRESS_ALLOWED_ENDPOINTS: [samples.env['EGRESS_ALLOWED_ENDPOINTS'], baking.origin, ...asking.origins].join(','),
      GATEWAY_ASYNC_TIMEOUT_MS: '60000',
      GATEWAY_ASYNC_CONCURRENCY: '200',
    },
    tools: [...KINDS.map(([tool]) => tool), 'oven_bake', ...Object.keys(asking.entries).map((name) => `${name}_ask`)],
  });
  robin = await startRoundRobin([port(0), port(1)]);
  for (const mode of ['auto', 'legacy'] as const) {
    const client = new Client({ name: 'replicas', version: '1' }, { versionNegotiation: { mode } });
    const requestInit = { headers: { Authorization: `Bearer ${fleet.adminKey}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(`${robin.url}/mcp`), { requestInit }));
    clients.push(client);
  }
});
afterAll(async () => {
  for (const client of clients) await client.close();
  await robin?.stop();
  await fleet?.stop();
  await samples?.stop();
  await asking?.stop();
  await baking?.stop();
});

const port = (gateway: number): number => Number(fleet.process('gateway', gateway).facts['port']);

interface Outcome {
  id: string;
  error?: unknown;
  answer?: { isError?: boolean };
}

let made = 0;
function call(tool: string, args: Record<string, unknown>): Promise<Outcome> {
  const n = (made += 1);
  const id = `call-${n}`;
  return clients[n % clients.length]!.callTool({ name: tool, arguments: args, _meta: { request_id: id } }).then(
    (answer) => ({ id, answer: answer as { isError?: boolean } }),
    (error: unknown) => ({ id, error }),
  );
}

/** So many calls of all kinds, a few at once. */
async function callAll(count: number): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  let left = count;
  const lane = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const [tool, args] = KINDS[left % KINDS.length]!;
      outcomes.push(await call(tool, args(made)));
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return outcomes;
}

const isGood = ({ answer }: Outcome): boolean => answer?.isError === false;
const idOf = (body: string): string => /"request_id":"([^"]+)"/.exec(body)?.[1] ?? 'none';

it('clients of both protocol revisions lose only the calls in progress on the killed gateway', async () => {
  expect((await callAll(BEFORE)).filter((outcome) => !isGood(outcome))).toEqual([]);
  // While the charges of a tool are unknown, its calls run one at a time: those of the other gateway would wait for one that was killed.
  for (const steps of [1, 2, 3, 4]) expect(isGood(await call('sample_count_slowly', { steps }))).toBe(true);

  const flow = callAll(AFTER);
  const slow = Array.from({ length: 4 }, () => call('sample_count_slowly', { steps: 30 }));
  await eventually('the gateway has slow calls in work', () =>
    robin.underWay(port(0)).some((body) => body.includes('sample_count_slowly')),
  );
  const killedPort = port(0);
  robin.takeOut(killedPort);
  const inWork = new Set(robin.underWay(killedPort).map(idOf));
  await fleet.kill('gateway', 0);

  const outcomes = [...(await flow), ...(await Promise.all(slow))];
  const failed = outcomes.filter((outcome) => !isGood(outcome));
  expect(failed.filter(({ id }) => !inWork.has(id))).toEqual([]);
  expect(failed.length).toBeGreaterThan(0);
  for (const { error } of failed) expect(error).toBeInstanceOf(Error);

  for (const client of clients) {
    const names = (await client.listTools(undefined, { cacheMode: 'refresh' })).tools.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(KINDS.map(([tool]) => tool)));
  }
  expect((await callAll(KINDS.length * 2)).filter((outcome) => !isGood(outcome))).toEqual([]);
});

it('another executor follows the task of a server when the one that followed it is killed', async () => {
  const ask = async (method: string, params: Record<string, unknown>) =>
    (await fleet.ask({ path: '/mcp', ...modernRequest(method, params) })).body.result;
  const bake = async (what: string) => {
    const { taskId } = await ask('tools/call', { name: 'oven_bake', arguments: { what, polls: 1e9 } });
    const task = () => baking.tasks.get(what)!;
    await eventually('it is followed', () => task().polled > 0);
    await fleet.launch('mcp-executor');
    await fleet.kill('mcp-executor', 0);
    task().polls = task().polled + 3;
    const state = () => ask('tasks/get', { taskId });
    await eventually('it has ended', async () => (await state()).status !== 'working');
    return state();
  };
  // An executor that has just started on a busy machine may refuse what waited for it.
  let baked = await bake('pie');
  for (const what of ['cake', 'bread'])
    if (/executor was blocked/.test(JSON.stringify(baked))) baked = await bake(what);
  expect(baked).toMatchObject({ status: 'completed', result: { content: [{ text: 'baked {}' }] } });
});

it('no user gets a question, a result or an answer of another user', async () => {
  await fleet.restore();
  const { findings, end } = askUsers(fleet, { ...ASKED, seed: SEED });
  const done = () => Object.values(findings.done).reduce((sum, count) => sum + count, 0);
  for (let kill = 1; kill <= ASKED.kills; kill += 1) {
    const share = (ASKED.users * kill) / (ASKED.kills + 1);
    await eventually('users have their results', () => done() + findings.failed.length >= share);
    await fleet.kill('gateway', kill % 2);
    await fleet.launch('gateway');
  }
  await end;
  console.info(`${JSON.stringify(findings)}, ${asking.answers()} answers`);
  expect([...findings.wrong, ...asking.wrong]).toEqual([]);
  expect(findings.failed).toEqual([]);
  expect(done()).toBe(ASKED.users);
  expect(findings.intrusions).toBeGreaterThan(0);
}, 900_000);
