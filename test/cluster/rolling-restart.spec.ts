/**
 * An upgrade as docs/operations.md describes it: every service has two replicas, each is replaced under load (a new one ready,
 * then SIGTERM to an old one), in the order of the page. No call fails, over HTTP or NATS, of any kind.
 */
import { POSTGRES_PROGRAMS, startPostgres, type PostgresServer } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AcceptedCalls } from '../fleet/accepted-calls.js';
import { noteOverHttp, operationOverHttp, programOverHttp, sumOverHttp, sumOverNats } from '../fleet/call-lanes.js';
import { startCountingMcpServer, type CountingMcpServer } from '../fleet/counting-mcp-server.js';
import { startSampleServices, type SampleServices } from '../fleet/sample-services.js';
import { steadyLoad, type Verdict } from '../fleet/steady-load.js';
import { ofEach, SERVICE_NAMES, TestFleet } from '../fleet/test-fleet.js';

const REPLICAS = 2;

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
      config: { ...samples.config, mcp_servers: { effects: { url: `${upstream.origin}/mcp` } } },
      env: {
        ...samples.env,
        EGRESS_ALLOWED_ENDPOINTS: `${samples.env['EGRESS_ALLOWED_ENDPOINTS']},${upstream.origin}`,
        PYTHON_EXECUTOR_RATE_LIMIT: '1000000',
      },
      envOf: { budget: { DATABASE_URL: await postgres.createDatabase('ledger') } },
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
      expect(await fleet.terminate(name)).toBe(0);
      await load.flows(20);
    }
    await load.stop();
    expect(load.failures).toEqual([]);
    expect([...told.values()].filter((verdict) => verdict !== undefined)).toEqual([]);
    await accepted.haveEnded();
  });
});
