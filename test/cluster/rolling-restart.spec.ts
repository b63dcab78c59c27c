/**
 * An upgrade as docs/runbooks/upgrade-and-rollback.md describes it: every service has two replicas, each is replaced under load
 * (a new one ready, then SIGTERM to an old one), in the order of the page. No call fails, over HTTP or NATS, of any kind, and
 * programs that run longer than the replacement are not cut, over HTTP, NATS or MCP. Drain and grace are as in deploy/k8s.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { Redis } from 'ioredis';
import { eventually, POSTGRES_PROGRAMS, startPostgres, type PostgresServer } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AcceptedCalls } from '../fleet/accepted-calls.js';
import { noteOverHttp, operationOverHttp, programOverHttp, sumOverHttp, sumOverNats } from '../fleet/call-lanes.js';
import { startCountingMcpServer, type CountingMcpServer } from '../fleet/counting-mcp-server.js';
import { startSampleServices, type SampleServices } from '../fleet/sample-services.js';
import { steadyLoad, type Verdict } from '../fleet/steady-load.js';
import { endOfPod, type EndOfPod } from '../fleet/deployed-pods.js';
import { ofEach, SERVICE_NAMES, TestFleet, type ServiceName } from '../fleet/test-fleet.js';

const REPLICAS = 2;
/** Near the longest run that a sandbox allows (60 s), with time for a slow machine. */
const LONG_SECONDS = 50;
const ENDS = Object.fromEntries(SERVICE_NAMES.map((name) => [name, endOfPod(name)])) as Record<ServiceName, EndOfPod>;

// Two budget services need one ledger outside them.
describe.skipIf(!POSTGRES_PROGRAMS)('a rolling restart under load', () => {
  let postgres: PostgresServer;
  let samples: SampleServices;
  let upstream: CountingMcpServer;
  let fleet: TestFleet;
  let agent: NatsClient;
  beforeAll(async () => {
    [postgres, samples, upstream] = await Promise.all([
      startPostgres(),
      startSampleServices(),
      startCountingMcpServer(),
    ]);
    fleet = await TestFleet.start({
      services: ofEach(REPLICAS),
      tools: ['calculator', 'effects_save_note', 'execute_python', 'parcels_getParcel'],
      config: {
        ...samples.config,
        mcp_servers: { effects: { url: `${upstream.origin}/mcp` } },
        tool_settings: { parcels_getParcel: { rate_limit: 0 } },
      },
      env: {
        ...samples.env,
        EGRESS_ALLOWED_ENDPOINTS: `${samples.env['EGRESS_ALLOWED_ENDPOINTS']},${upstream.origin}`,
        PYTHON_EXECUTOR_RATE_LIMIT: '1000000',
      },
      envOf: {
        ...Object.fromEntries(SERVICE_NAMES.map((name) => [name, drainOf(name)])),
        budget: { ...drainOf('budget'), DATABASE_URL: await postgres.createDatabase('ledger') },
        'python-sandbox': { ...drainOf('python-sandbox'), PYTHON_SANDBOX_THREADS: '4', WASI_MEMORY_LIMIT_MB: '128' },
      },
    });
    agent = await NatsClient.connect({ url: fleet.nats.url, name: 'agent' });
  });
  afterAll(async () => {
    await agent?.close();
    await fleet?.stop();
    await Promise.all([samples?.stop(), postgres?.stop(), upstream?.stop()]);
  });

  it.each(SERVICE_NAMES)('of every %s fails no call', async (name) => {
    const told = new Map<string, Verdict>();
    const load = steadyLoad(
      [
        sumOverHttp(fleet),
        sumOverNats(agent, fleet.adminKey),
        programOverHttp(fleet),
        operationOverHttp(fleet, 'parcels_getParcel', { parcel_id: 'P-1001' }),
        noteOverHttp(fleet, 'effects_save_note', told),
      ],
      1,
    );
    const accepted = new AcceptedCalls(fleet);
    await load.flows(20);
    for (let replica = 0; replica < REPLICAS; replica += 1) {
      await accepted.accept(10);
      await fleet.launch(name);
      expect(await fleet.terminate(name, 0, undefined, ENDS[name].afterPreStopMs)).toBe(0);
      await load.flows(20);
    }
    await load.stop();
    expect(load.failures).toEqual([]);
    expect([...told.values()].filter((verdict) => verdict !== undefined)).toEqual([]);
    await accepted.haveEnded();
  });

  // Of the other classes none holds a call while a program runs.
  it.each(['python-sandbox', 'gateway'] as const)('of every %s cuts no long program', async (name) => {
    const clients = await Promise.all(Array.from({ length: REPLICAS }, (_, gateway) => mcpClient(gateway)));
    const program = (key: string) => ({
      code: `import time\ntime.sleep(${LONG_SECONDS})\nresult = '${name} ${key}'`,
      timeout_seconds: LONG_SECONDS + 10,
    });
    const underWay = new Set<string>();
    const follow = async (key: string, call: (args: Record<string, unknown>) => Promise<unknown>) => {
      underWay.add(key);
      const told = await call(program(key)).catch(String);
      underWay.delete(key);
      return JSON.stringify(told).includes(`${name} ${key}`) ? undefined : `${key}: ${JSON.stringify(told)}`;
    };
    const calls = clients.flatMap((client, gateway) => [
      follow(`http ${gateway}`, async (args) => (await fleet.call('execute_python', args, { gateway })).body),
      follow(`mcp ${gateway}`, (args) =>
        client.callTool({ name: 'execute_python', arguments: args }, { timeout: 120_000 }),
      ),
      follow(`nats ${gateway}`, (args) =>
        agent.request(
          'tool.call',
          { name: 'execute_python', arguments: args },
          {
            timeoutMs: 120_000,
            headers: { Authorization: `Bearer ${fleet.adminKey}` },
          },
        ),
      ),
    ]);
    const redis = fleet.redis.client() as Redis;
    const running = async () => (await redis.llen('{fleet}:python-runs:active')) === calls.length;
    await eventually('every program runs', running, { everyMs: 100 });
    await Promise.all(calls.slice(0, REPLICAS).map(() => fleet.launch(name)));
    expect(underWay.size).toBe(calls.length);
    const exits = Array.from({ length: REPLICAS }, () =>
      fleet.terminate(name, 0, undefined, ENDS[name].afterPreStopMs),
    );
    expect(await Promise.all(calls)).toEqual(calls.map(() => undefined));
    await Promise.all(clients.map((client) => client.close()));
    expect(await Promise.all(exits)).toEqual(exits.map(() => 0));
  });

  async function mcpClient(gateway: number): Promise<Client> {
    // One of each protocol revision.
    const client = new Client(
      { name: 'long-calls', version: '1' },
      { versionNegotiation: { mode: gateway === 0 ? 'auto' : 'legacy' } },
    );
    const requestInit = { headers: { Authorization: `Bearer ${fleet.adminKey}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(`${fleet.url(gateway)}/mcp`), { requestInit }));
    return client;
  }
});

const drainOf = (name: ServiceName) => ({ DRAIN_TIMEOUT_MS: String(ENDS[name].drainMs) });
