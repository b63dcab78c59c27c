/**
 * Real MCP clients of both protocol revisions on two gateways behind a load balancer: every kind of tool is listed and called. One
 * gateway is killed midway: no call fails but those it had in work, and each of these gets an error.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { eventually, startRoundRobin, type RoundRobin } from '@toolfleet/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startSampleServices, type SampleServices } from '../fleet/sample-services.js';
import { ofEach, TestFleet } from '../fleet/test-fleet.js';

/** One of each kind; `n` makes every call a new one for all caches. */
const KINDS: readonly (readonly [tool: string, args: (n: number) => Record<string, unknown>])[] = [
  ['calculator', (n) => ({ expression: `${n}+1` })],
  ['sample_add', (n) => ({ a: n, b: 1 })],
  ['echo_function', (n) => ({ text: `call ${n}` })],
  ['parcels_getParcel', () => ({ parcel_id: 'P-1001' })],
  ['execute_python', (n) => ({ code: `result = ${n} + 1` })],
];
const BEFORE = 60;
const AFTER = 60;
const LANES = 6;

let samples: SampleServices;
let fleet: TestFleet;
let robin: RoundRobin;
const clients: Client[] = [];

beforeAll(async () => {
  samples = await startSampleServices();
  fleet = await TestFleet.start({
    services: { ...ofEach(1), gateway: 2 },
    config: samples.config,
    env: samples.env,
    tools: KINDS.map(([tool]) => tool),
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

  const flow = callAll(AFTER);
  const slow = Array.from({ length: 4 }, () => call('sample_count_slowly', { steps: 30 }));
  await eventually('the gateway has slow calls in work', () =>
    robin.underWay(port(0)).some((body) => body.includes('sample_count_slowly')),
  );
  const killed = fleet.process('gateway', 0);
  const killedPort = port(0);
  robin.takeOut(killedPort);
  const inWork = new Set(robin.underWay(killedPort).map(idOf));
  await killed.kill();

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
