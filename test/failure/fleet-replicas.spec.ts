/** Replicas take over from each other: frozen, killed or restarted ones lose at most their calls in progress. */
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { eventually } from '@toolfleet/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { sumOverHttp } from '../fleet/call-lanes.js';
import { steadyLoad } from '../fleet/steady-load.js';
import { expectOnTime, TestFleet, type Answer } from '../fleet/test-fleet.js';

const DEADLINE_MS = 10_000;
const ALL = process.env['FAILURE_SEEDS'] === 'all';

let fleet: TestFleet;
let next = 0;
beforeAll(async () => {
  fleet = await TestFleet.start({
    services: { gateway: 2, registry: 1, budget: 1, 'builtin-executor': 2 },
    tools: ['calculator'],
    env: { GATEWAY_CALL_TIMEOUT_MS: String(DEADLINE_MS) },
  });
});
afterEach(() => fleet?.restore());
afterAll(() => fleet?.stop());

/** One call no cache knows, over a separate connection, so that none is left half open by a gateway that ends. */
async function calculate(gateway = 0): Promise<Answer & { tookMs: number; right: boolean }> {
  const number = (next += 1);
  const from = performance.now();
  const answer = await fleet.call(
    'calculator',
    { expression: `${number}+1` },
    { gateway, headers: { connection: 'close' } },
  );
  return {
    ...answer,
    tookMs: performance.now() - from,
    right: answer.status === 200 && answer.body.output?.result === number + 1,
  };
}

describe('one of two executors', () => {
  it('frozen: all of 100 calls are answered', async () => {
    fleet.process('builtin-executor', 0).pause();
    try {
      const answers = await Promise.all(Array.from({ length: 100 }, (_, index) => calculate(index % 2)));
      expect(answers.filter(({ right }) => !right).map(({ status, text }) => `${status} ${text}`)).toEqual([]);
      // Before the deadline: the calls move to the other executor.
      expectOnTime(answers, DEADLINE_MS / 2);
    } finally {
      fleet.process('builtin-executor', 0).resume();
    }
  });

  it('killed under load: idempotent calls are answered by the other one', async () => {
    const load = steadyLoad([sumOverHttp(fleet)], 8);
    await load.flows(50);
    await fleet.kill('builtin-executor');
    await load.flows(100);
    await load.stop();
    expect(load.failures).toEqual([]);
  });
});

describe('one of two gateways', () => {
  it('killed: its calls fail at once, those of the other one do not notice', async () => {
    let killedAt = Number.POSITIVE_INFINITY;
    const asked = Array.from({ length: 60 }, (_, index) =>
      calculate(index % 2).then(
        (answer) => ({ gateway: index % 2, ...answer }),
        () => ({ gateway: index % 2, right: false, tookMs: Math.max(0, performance.now() - killedAt) }),
      ),
    );
    killedAt = performance.now();
    await fleet.process('gateway', 1).kill();
    const answers = await Promise.all(asked);
    expect(answers.filter(({ gateway, right }) => gateway === 0 && !right)).toEqual([]);
    const ofGateway = (number: number) => answers.filter(({ gateway }) => gateway === number);
    expectOnTime(ofGateway(0), DEADLINE_MS);
    expectOnTime(ofGateway(1), 0);
    await fleet.kill('gateway', 1);
    await fleet.launch('gateway');
    expect((await calculate(1)).right).toBe(true);
  });

  it.runIf(ALL)('killed: calls it had accepted are finished by the other one', async () => {
    const accepted = await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        fleet.call('calculator', { expression: `${index}*3` }, { gateway: 1, fields: { mode: 'async' } }),
      ),
    );
    expect(accepted.map(({ status }) => status)).toEqual(accepted.map(() => 202));
    await fleet.kill('gateway', 1);
    await eventually(
      'every accepted call has ended well',
      async () => {
        const calls = await Promise.all(
          accepted.map(({ body }) => fleet.ask({ path: `/api/v1/calls/${String(body.call_id)}` })),
        );
        return calls.every(({ body }, index) => body.status === 'succeeded' && body.result.output.result === index * 3);
      },
      { everyMs: 300 },
    );
  });
});

/** A call with a head that the gateway has read; `finish` sends its body and gives the answer. */
async function halfSent(
  gateway: URL,
  call: object,
): Promise<{ finish(): Promise<{ status?: number; body: unknown }> }> {
  const sent = request(new URL('/api/v1/tools/calculator/execute', gateway), {
    method: 'POST',
    headers: { authorization: `Bearer ${fleet.adminKey}`, 'content-type': 'application/json', expect: '100-continue' },
  });
  sent.flushHeaders();
  await once(sent, 'continue');
  const finish = async () => {
    const answered = once(sent, 'response') as Promise<[IncomingMessage]>;
    sent.end(JSON.stringify(call));
    const [response] = await answered;
    return { status: response.statusCode, body: await json(response) };
  };
  return { finish };
}

/** Whether the port has no listener. */
const isRefused = (url: URL): Promise<boolean> =>
  fetch(url).then(
    () => false,
    ({ cause }: Error & { cause?: { code?: string } }) => cause?.code === 'ECONNREFUSED',
  );

describe('a rolling restart under load', () => {
  it.each(
    ALL ? (['builtin-executor', 'gateway', 'budget', 'registry'] as const) : (['builtin-executor', 'gateway'] as const),
  )('of every %s fails no call', async (name) => {
    const load = steadyLoad([sumOverHttp(fleet)], 8);
    await load.flows(30);
    const replicas = fleet.running.get(name)!.length;
    if (replicas === 1) await fleet.launch(name);
    for (let replica = 0; replica < replicas; replica += 1) {
      // A connection that was not accepted is cut with the socket it waits at: load balancers send none for a while before.
      const exitCode = fleet.terminate(name, 0, name === 'gateway' ? () => load.settles() : undefined);
      expect(await exitCode).toBe(0);
      if (replicas > 1) await fleet.launch(name);
    }
    await load.flows(30);
    await load.stop();
    expect(load.failures).toEqual([]);
  });

  it('finishes a request that was on its way in when the gateway got SIGTERM', async () => {
    const url = new URL(fleet.url());
    const begun = await halfSent(url, { arguments: { expression: '20 + 22' } });
    const exitCode = fleet.terminate('gateway');
    await eventually('it takes no connection any more', () => isRefused(url));
    expect(await begun.finish()).toMatchObject({ status: 200, body: { output: { result: 42 } } });
    expect(await exitCode).toBe(0);
  });
});
