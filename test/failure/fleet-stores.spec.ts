/**
 * What the gateway leans on goes away and comes back: clear errors within the deadline, then recovery without help. Nothing is lost, and a
 * Redis that lost data or will is reported.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '@toolfleet/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { sumOverHttp, unclear } from '../fleet/call-lanes.js';
import { ASKING_POLICY, KeptWork } from '../fleet/kept-work.js';
import { restartRedis } from '../fleet/redis-contents.js';
import { steadyLoad } from '../fleet/steady-load.js';
import { expectOnTime, TestFleet, type Answer } from '../fleet/test-fleet.js';

const DEADLINE_MS = 4_000;
const RECOVERY = { timeoutMs: 60_000, everyMs: 200 };

let fleet: TestFleet;
let policies: string;
let next = 0;
beforeAll(async () => {
  policies = await mkdtemp(join(tmpdir(), 'toolfleet-stores-'));
  await writeFile(join(policies, 'tools.rego'), ASKING_POLICY);
  fleet = await TestFleet.start({
    services: { gateway: 1, registry: 1, budget: 1, records: 1, 'builtin-executor': 1, 'python-sandbox': 1 },
    tools: ['calculator', 'execute_python'],
    env: { GATEWAY_CALL_TIMEOUT_MS: String(DEADLINE_MS), POLICY_DIR: policies },
  });
  // Known tools, proven key.
  expect((await calculate()).status).toBe(200);
});
afterEach(() => fleet?.restore());
afterAll(async () => {
  await fleet?.stop();
  await rm(policies, { recursive: true, force: true });
});

async function timed(asked: () => Promise<Answer>): Promise<Answer & { tookMs: number }> {
  const from = performance.now();
  const answer = await asked();
  return { ...answer, tookMs: performance.now() - from };
}

const calculate = () => timed(() => fleet.call('calculator', { expression: `${(next += 1)}+1` }));
const runPython = () => timed(() => fleet.call('execute_python', { code: `result = ${(next += 1)}` }));
const works = async () => (await calculate()).status === 200;

describe('budget', () => {
  it('away: calls are refused and not run for free; back: they run', async () => {
    await fleet.kill('budget');
    const refused = await Promise.all(Array.from({ length: 20 }, calculate));
    for (const { status, body } of refused)
      expect({ status, code: body.code }).toEqual({ status: 503, code: 'BUDGET_UNAVAILABLE' });
    // NATS reports a missing responder at once.
    expectOnTime(refused, 0);
    await fleet.launch('budget');
    await eventually('calls run again', works, RECOVERY);
  });

  it('frozen: the same', async () => {
    fleet.process('budget').pause();
    try {
      const refused = await Promise.all(Array.from({ length: 10 }, calculate));
      for (const { status, body } of refused)
        expect({ status, code: body.code }).toEqual({ status: 503, code: 'BUDGET_UNAVAILABLE' });
      expectOnTime(refused, DEADLINE_MS);
    } finally {
      fleet.process('budget').resume();
    }
    await eventually('calls run again', works, RECOVERY);
  });
});

describe('registry', () => {
  it('away: known tools keep working, unknown ones are refused clearly', async () => {
    await fleet.kill('registry');
    const answers = await Promise.all(Array.from({ length: 20 }, calculate));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    const list = await fleet.ask({ path: '/tools/list' });
    expect(list.body).toContain('calculator');
    const unknown = await Promise.all(Array.from({ length: 10 }, () => timed(() => fleet.call('never_heard_of', {}))));
    for (const { status, body } of unknown) {
      expect(status).toBeGreaterThanOrEqual(404);
      expect(body).toMatchObject({ code: expect.any(String), error: expect.any(String) });
    }
    expectOnTime(unknown, DEADLINE_MS);
    await fleet.launch('registry');
    await eventually(
      'unknown tools are unknown again',
      async () => (await fleet.call('never_heard_of', {})).status === 404,
      RECOVERY,
    );
  });
});

/** Every kind of call while Redis is unavailable: an answer or a clear error, in time. */
async function everyoneIsAnswered(): Promise<void> {
  const asked = {
    calculator: calculate,
    'a program': runPython,
    'an asynchronous call': () =>
      timed(() => fleet.call('calculator', { expression: '1+1' }, { fields: { mode: 'async' } })),
    'a call with a key': () =>
      timed(() => fleet.call('calculator', { expression: '7+1' }, { headers: { 'idempotency-key': `away-${next}` } })),
    'the state of a call': () => timed(() => fleet.ask({ path: '/api/v1/calls/00000000-0000-4000-8000-000000000000' })),
    budgets: () => timed(() => fleet.ask({ path: '/api/v1/budgets' })),
    'a key never seen': () => timed(() => fleet.ask({ path: '/tools/list', key: fleet.keys['globex']! })),
  };
  const answers = await Promise.all(
    Object.entries(asked).flatMap(([what, ask]) => [1, 2, 3].map(async () => ({ what, ...(await ask()) }))),
  );
  expectOnTime(answers, DEADLINE_MS);
  for (const { what, status, body, text } of answers) {
    if (status === 200) continue;
    expect([502, 503, 504], `${what}: ${text}`).toContain(status);
    expect(body, what).toMatchObject({ code: expect.stringMatching(/^[A-Z_]+$/), error: expect.any(String) });
    expect(body.code, what).not.toBe('INTERNAL');
  }
}

describe('Redis', () => {
  it('killed: clear errors in time, what was accepted is finished after its return', async () => {
    const accepted = await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        fleet.call('execute_python', { code: `result = ${index} * 2` }, { fields: { mode: 'async' } }),
      ),
    );
    expect(accepted.map(({ status }) => status)).toEqual(accepted.map(() => 202));
    // What a crash of Redis may take with it is the last second.
    await fleet.redis.persisted();
    await fleet.redis.kill();
    try {
      await everyoneIsAnswered();
    } finally {
      await fleet.redis.restart();
    }
    await eventually('calls run again', works, RECOVERY);
    await eventually(
      'every accepted call has one final state',
      async () => {
        const calls = await Promise.all(
          accepted.map(({ body }) => fleet.ask({ path: `/api/v1/calls/${String(body.call_id)}` })),
        );
        return calls.every(({ body }) => ['succeeded', 'failed'].includes(body?.status));
      },
      { everyMs: 300 },
    );
    for (const [index, { body: call }] of accepted.entries()) {
      const { body } = await fleet.ask({ path: `/api/v1/calls/${String(call.call_id)}` });
      // One that ran while Redis was unavailable may have failed with a clear error.
      if (body.status === 'failed') expect(body.result.metadata.code, `call ${index}`).toMatch(/^[A-Z_]+$/);
      else expect(body.result.output, `call ${index}`).toMatchObject({ value: index * 2 });
    }
  });

  it('frozen: clear errors in time, then everything works', async () => {
    fleet.redis.pause();
    try {
      await everyoneIsAnswered();
    } finally {
      fleet.redis.resume();
    }
    await eventually('calls run again', works, RECOVERY);
    await eventually('programs run again', async () => (await runPython()).status === 200, RECOVERY);
  });
});

describe('NATS', () => {
  it('restarted: clear errors in time, then everything works', async () => {
    await fleet.nats.kill();
    const refused = await Promise.all(Array.from({ length: 10 }, calculate));
    for (const { status, body } of refused) {
      expect([502, 503, 504]).toContain(status);
      expect(body).toMatchObject({ code: expect.stringMatching(/^[A-Z_]+$/) });
    }
    expectOnTime(refused, DEADLINE_MS);
    await fleet.nats.restart();
    await eventually('calls run again', works, RECOVERY);
  });
});

describe('under load', () => {
  const relaunch = async (name: 'budget' | 'records') => {
    await fleet.kill(name);
    await fleet.launch(name);
  };
  it.each<[string, () => Promise<void>]>([
    ['Redis restarted', () => restartRedis(fleet.redis, 'a clean shutdown')],
    [
      'Redis killed',
      async () => {
        // What a crash of Redis may take with it is the last second.
        await fleet.redis.persisted();
        await restartRedis(fleet.redis, 'SIGKILL');
      },
    ],
    ['NATS restarted', () => fleet.nats.restart()],
    ['the services with databases killed', () => Promise.all([relaunch('budget'), relaunch('records')]).then(() => {})],
  ])('%s: no key, idempotency key, job, approval or row is lost', async (_what, fault) => {
    const work = await KeptWork.begin(fleet);
    const load = steadyLoad([sumOverHttp(fleet)], 2);
    await load.flows(10);
    await fault();
    await eventually('calls run again', works, RECOVERY);
    await load.flows(10);
    await load.stop();
    expect(unclear(load.failures)).toEqual([]);
    await work.isKept();
  });
});

describe('what Redis must not do while the fleet runs', () => {
  const USERS = ['gateway', 'registry', 'budget', 'python-sandbox'] as const;
  /** Services that report a fault of the subject. They stay ready. */
  const reporting = async (subject: string) => {
    const reports = await Promise.all(
      USERS.map(async (name) => {
        const { status, body } = await fleet.process(name).admin('/health/ready');
        expect(status, `${name} ${body}`).toBe(200);
        const { faults } = JSON.parse(body) as { faults: { subject: string }[] };
        return faults.some((fault) => fault.subject === subject) ? name : [];
      }),
    );
    return reports.flat();
  };
  const report = (subject: string, names: readonly string[]) =>
    expect.poll(() => reporting(subject), { timeout: 60_000, interval: 500 }).toEqual(names);

  it('change to settings that lose data: every service reports it until they are corrected', async () => {
    const admin = fleet.redis.client();
    await report('store settings', []);
    await admin.config('SET', 'maxmemory-policy', 'allkeys-lru');
    await report('store settings', USERS);
    const { body } = await fleet.ask({ path: '/api/v1/fleet', key: fleet.operatorKey });
    expect(JSON.stringify(body.faults)).toContain('has maxmemory-policy allkeys-lru; toolfleet needs noeviction');
    await admin.config('SET', 'maxmemory-policy', 'noeviction');
    await report('store settings', []);
  });

  it('lose its data: every service reports it, also one that starts, until an operator accepts it', async () => {
    const admin = fleet.redis.client();
    await report('store data', []);
    await admin.flushall();
    await report('store data', USERS);
    await fleet.kill('registry');
    await fleet.launch('registry');
    await report('store data', USERS);
    const { body: metrics } = await fleet.process('gateway').admin('/metrics');
    expect(metrics).toMatch(/^toolfleet_faults\{subject="store data"\} 1$/m);
    // The command of docs/runbooks/store-lost.md.
    await admin.hset('{store}:epoch', 'accept', 'yes');
    await report('store data', []);
  });
});
