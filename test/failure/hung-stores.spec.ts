/**
 * A store that hangs keeps its connections open and answers nothing. Every service that needs it is not ready within seconds, `/metrics`
 * still answers, and the services are ready again once the store is.
 */
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startSampleServices, type SampleServices } from '../fleet/sample-services.js';
import { SERVICE_NAMES, TestFleet, type ServiceName } from '../fleet/test-fleet.js';

/** The interval of a readiness probe, its two failures and the deadline of a component. */
const NOTICED = { timeoutMs: 10_000, everyMs: 200 };
const RECOVERY = { timeoutMs: 30_000, everyMs: 200 };

let samples: SampleServices;
let fleet: TestFleet;
beforeAll(async () => {
  samples = await startSampleServices();
  fleet = await TestFleet.start({
    services: Object.fromEntries(SERVICE_NAMES.map((name) => [name, 1])) as Record<ServiceName, number>,
    tools: ['calculator'],
    config: samples.config,
    env: samples.env,
  });
});
afterAll(async () => {
  await fleet?.stop();
  await samples?.stop();
});

interface Health {
  name: ServiceName;
  status: number;
  parts: Record<string, boolean>;
}

const healthOf = async (name: ServiceName): Promise<Health> => {
  const { status, body } = await fleet.process(name).admin('/health/ready');
  return { name, status, parts: (JSON.parse(body) as { parts: Record<string, boolean> }).parts };
};
const healthOfAll = () => Promise.all([...fleet.running.keys()].map(healthOf));

describe.each([
  { store: 'redis', broker: () => fleet.redis },
  { store: 'nats', broker: () => fleet.nats },
])('with a $store that hangs', ({ store, broker }) => {
  it('every service that uses it is not ready, and is again afterwards', async () => {
    const users = (await healthOfAll()).filter(({ parts }) => store in parts).map(({ name }) => name);
    expect(users.length).toBeGreaterThanOrEqual(5);
    broker().pause();
    try {
      for (const name of users) {
        let last: Health | undefined;
        await eventually(`${name} is not ready`, async () => (last = await healthOf(name)).status === 503, NOTICED);
        expect(last?.parts, name).toMatchObject({ [store]: false });
        const { status, body } = await fleet.process(name).admin('/metrics');
        expect({ name, status }).toEqual({ name, status: 200 });
        expect(body).toMatch(new RegExp(`^toolfleet_component_ready\\{component="${store}"\\} 0$`, 'm'));
      }
      expect((await fleet.ask({ path: '/readiness' })).status).toBe(503);
    } finally {
      broker().resume();
    }
    await eventually(
      'all are ready',
      async () => (await healthOfAll()).every(({ status }) => status === 200),
      RECOVERY,
    );
    const answered = async () => (await fleet.call('calculator', { expression: '6*7' })).status === 200;
    await eventually('calls run again', answered, RECOVERY);
  });
});
