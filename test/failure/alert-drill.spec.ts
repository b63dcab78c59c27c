/**
 * Every class of services and every store is killed under load, and the alerts of deploy/alerts are evaluated on what the fleet
 * exposed meanwhile: each kill alerts within five minutes, a quiet day and a rolling update never. Prints the table of
 * docs/operations/alerts.md. Needs promtool; part of `npm run test:failure` only, because it takes minutes.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  eventually,
  POSTGRES_PROGRAMS,
  startPostgres,
  type PostgresServer,
  type ServiceProcess,
} from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { operationOverHttp, programOverHttp, sumOverHttp } from '../fleet/call-lanes.js';
import { startKnownSite, type KnownSite } from '../fleet/known-site.js';
import { startSampleServices, type SampleServices } from '../fleet/sample-services.js';
import { steadyLoad, type AskOne, type SteadyLoad } from '../fleet/steady-load.js';
import { TestFleet, type ServiceName } from '../fleet/test-fleet.js';
import { HAS_PROMTOOL, Recording, type ScrapedTarget } from '../observability/replayed-rules.js';

const ALL = process.env['FAILURE_SEEDS'] === 'all';
/** Real time of a scrape interval of 15 s. */
const ROUND_MS = 500;
const ROUNDS_BEFORE = 8;
const ROUNDS_AFTER = 20;
/** A kill alerts within this time: the rounds after it. */
const MOST_SECONDS = 300;
/** They depend on how fast the machine is: not the subject here. */
const OF_SPEED = new Set(['OverheadHigh', 'AckMissed']);

const WORKLOADS: Readonly<Record<string, { service: ServiceName; env?: Readonly<Record<string, string>> }>> = {
  budget: { service: 'budget' },
  registry: { service: 'registry' },
  'builtin-compute': { service: 'builtin-executor', env: { BUILTIN_TOOLSETS: 'compute' } },
  'builtin-web': { service: 'builtin-executor', env: { BUILTIN_TOOLSETS: 'web' } },
  'builtin-files': { service: 'builtin-executor', env: { BUILTIN_TOOLSETS: 'files' } },
  'builtin-agent': { service: 'builtin-executor', env: { BUILTIN_TOOLSETS: 'agent' } },
  'mcp-executor': { service: 'mcp-executor' },
  'openapi-executor': { service: 'openapi-executor' },
  'python-sandbox': { service: 'python-sandbox' },
  gateway: { service: 'gateway' },
};

/** What must fire when a workload's targets do not answer, and when there are none left. */
const EXPECTED: Readonly<Record<string, readonly [fails: string, disappears: string]>> = {
  budget: ['ServiceAbsent', 'ServiceAbsent'],
  registry: ['ServiceAbsent', 'ServiceAbsent'],
  gateway: ['ServiceAbsent', 'ServiceAbsent'],
};
const OF_EXECUTORS = ['ServiceAbsent', 'ExecutorAbsent'] as const;

describe.runIf(ALL && HAS_PROMTOOL)('alerts (needs promtool)', () => {
  let samples: SampleServices;
  let site: KnownSite;
  let postgres: PostgresServer | undefined;
  let fleet: TestFleet;
  let agent: NatsClient;
  let load: SteadyLoad;
  const processes = new Map<string, ServiceProcess[]>();
  const table: string[][] = [];

  beforeAll(async () => {
    [samples, site, postgres] = await Promise.all([
      startSampleServices(),
      startKnownSite(),
      POSTGRES_PROGRAMS ? startPostgres() : undefined,
    ]);
    fleet = await TestFleet.start({
      services: {},
      tools: [],
      config: samples.config,
      env: {
        ...samples.env,
        EGRESS_ALLOWED_ENDPOINTS: `${samples.env['EGRESS_ALLOWED_ENDPOINTS']},${site.origin}`,
        PYTHON_EXECUTOR_RATE_LIMIT: '1000000',
        BUILTIN_RATE_LIMITS: 'fetch_page=1000000,file_write=1000000,multi_agent=1000000',
        GATEWAY_CALL_TIMEOUT_MS: '4000',
        DRAIN_TIMEOUT_MS: '5000',
      },
      envOf: postgres ? { budget: { DATABASE_URL: await postgres.createDatabase('ledger') } } : {},
    });
    // One after the other: ten processes that start at once take longer than each is given.
    for (const workload of Object.keys(WORKLOADS)) await launch(workload);
    agent = await NatsClient.connect({ url: fleet.nats.url, name: 'agent' });
    await fleet.untilListed([
      'calculator',
      'fetch_page',
      'file_read',
      'multi_agent',
      'sample_add',
      'parcels_getParcel',
    ]);
    await fleet.untilListed(['execute_python']);
    load = steadyLoad(askers().map(paced), 1);
    await callsAreRight();
  });
  afterAll(async () => {
    await load?.stop();
    await agent?.close();
    await fleet?.stop();
    await Promise.all([samples?.stop(), site?.stop(), postgres?.stop()]);
    console.log(table.map((row) => `| ${row.join(' | ')} |`).join('\n'));
  });

  async function launch(workload: string): Promise<void> {
    const { service, env } = WORKLOADS[workload]!;
    const process = await fleet.launch(service, env);
    processes.set(workload, [...(processes.get(workload) ?? []), process]);
  }

  /** One call every 400 ms of each class: about five a second in all. */
  const askers = (): AskOne[] => [
    sumOverHttp(fleet),
    programOverHttp(fleet),
    operationOverHttp(fleet, 'parcels_getParcel', { parcel_id: 'P-1001' }),
    (number) => operationOverHttp(fleet, 'sample_add', { a: number, b: 1 })(number),
    (number) => operationOverHttp(fleet, 'fetch_page', { url: `${site.origin}/article#${number}` })(number),
    fileOverNats,
    (number) =>
      operationOverHttp(fleet, 'multi_agent', {
        tasks: [
          {
            name: `sum${number}`,
            instruction: 'CALL calculator {"expression":"6*7"}\nSAY {results}',
            tools: ['calculator'],
          },
        ],
      })(number),
  ];
  const fileOverNats: AskOne = async (number) => {
    const body = {
      name: 'file_write',
      arguments: { path: 'note.txt', content: `note ${number}` },
      session_id: 'drill',
    };
    const headers = { Authorization: `Bearer ${fleet.adminKey}` };
    const reply = await agent.request<{ success: boolean }>('tool.call', body, { timeoutMs: 5_000, headers });
    return reply.success ? undefined : JSON.stringify(reply);
  };
  const paced =
    (ask: AskOne): AskOne =>
    async (number) => {
      await sleep(1_000);
      return ask(number);
    };

  /** Every lane gets a right answer again. */
  const callsAreRight = async () => {
    for (const ask of askers()) {
      let number = 1_000_000 + load.right();
      let verdict: string | undefined;
      await eventually(
        'a call is right',
        async () => (verdict = await ask((number += 1)).catch(String)) === undefined,
        { everyMs: 300 },
      ).catch((error: unknown) => {
        throw new Error(`${String(error)}: ${verdict}`);
      });
    }
  };

  const targets = (): ScrapedTarget[] =>
    [...processes].flatMap(([workload, list]) =>
      list.map((process) => ({
        workload,
        instance: `127.0.0.1:${String(process.facts['admin_port'])}`,
        scrape: async () => {
          const { status, body } = await process.admin('/metrics');
          if (status !== 200) throw new Error(`status ${status}`);
          return body;
        },
      })),
    );

  async function record(recording: Recording, rounds: number): Promise<void> {
    for (let round = 0; round < rounds; round += 1) {
      const next = performance.now() + ROUND_MS;
      await recording.round(targets());
      await sleep(Math.max(0, next - performance.now()));
    }
  }

  /** A recording around a kill; the fleet is whole again when it resolves. */
  async function around(kill: () => Promise<void>, restore: () => Promise<void>): Promise<Recording> {
    const recording = new Recording();
    await record(recording, ROUNDS_BEFORE);
    await kill();
    await record(recording, ROUNDS_AFTER);
    await restore();
    await callsAreRight();
    return recording;
  }

  /** The wanted alert fires within five minutes, none fired before the fault. */
  async function expectAlert(fault: string, recording: Recording, wanted: string, without?: string): Promise<void> {
    const all = await recording.alerts(ROUNDS_BEFORE - 1, { without });
    const fired = all.filter(({ alert }) => !OF_SPEED.has(alert));
    const others = fired.filter(({ alert }) => alert !== wanted).map(({ alert, seconds }) => `${alert} ${seconds}`);
    const found = fired.find(({ alert }) => alert === wanted);
    table.push([fault, `${wanted} (${found?.severity ?? '-'})`, String(found?.seconds ?? '-'), others.join(', ')]);
    expect(fired.filter(({ seconds }) => seconds <= 0)).toEqual([]);
    expect({ wanted, found: found !== undefined, fired }).toMatchObject({ found: true });
    expect(found!.seconds).toBeLessThanOrEqual(MOST_SECONDS);
  }

  it('never fire on a quiet day', async () => {
    const recording = new Recording();
    await record(recording, 40);
    const fired = await recording.alertsOfADay();
    expect(fired.filter(({ alert }) => !OF_SPEED.has(alert))).toEqual([]);
  });

  it.each(Object.keys(WORKLOADS))('fire when every %s is killed', async (workload) => {
    const { service } = WORKLOADS[workload]!;
    const victims = processes.get(workload)!;
    const recording = await around(
      async () => {
        for (const victim of victims) await fleet.kill(service, fleet.running.get(service)!.indexOf(victim));
      },
      async () => {
        processes.delete(workload);
        await launch(workload);
      },
    );
    const [fails, disappears] = EXPECTED[workload] ?? OF_EXECUTORS;
    await expectAlert(`${workload} killed`, recording, fails);
    await expectAlert(`${workload} killed, targets gone`, recording, disappears, workload);
  });

  it.each([
    ['NATS', 'StoreDown', () => fleet.nats.kill(), () => fleet.nats.restart()],
    ['Redis', 'StoreDown', () => fleet.redis.kill(), () => fleet.redis.restart()],
  ] as const)('fire when %s is killed', async (store, wanted, kill, restore) => {
    await expectAlert(`${store} killed`, await around(kill, restore), wanted);
  });

  it.runIf(POSTGRES_PROGRAMS)('fire when PostgreSQL is killed', async () => {
    const recording = await around(
      () => postgres!.kill(),
      () => postgres!.restart(),
    );
    await expectAlert('PostgreSQL killed', recording, 'LedgerUnreachable');
  });

  it('never fire in a rolling update of every service', async () => {
    const recording = new Recording();
    await record(recording, ROUNDS_BEFORE);
    let isDone = false;
    const recorded = (async () => {
      while (!isDone) await record(recording, 1);
      await record(recording, ROUNDS_AFTER);
    })();
    for (const workload of Object.keys(WORKLOADS)) {
      const { service } = WORKLOADS[workload]!;
      const [old] = processes.get(workload)!;
      await launch(workload);
      processes.set(workload, processes.get(workload)!.slice(1));
      expect(await fleet.terminate(service, fleet.running.get(service)!.indexOf(old!))).toBe(0);
    }
    isDone = true;
    await recorded;
    const fired = await recording.alerts(ROUNDS_BEFORE - 1);
    expect(fired.filter(({ alert }) => !OF_SPEED.has(alert))).toEqual([]);
  });
});
