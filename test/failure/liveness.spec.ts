/**
 * Probes of every service while its dependencies are unavailable: liveness never asks a dependency (a restart would repair nothing and
 * turn an outage into a storm), readiness does, and comes back by itself.
 */
import { eventually } from '@toolfleet/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ofEach, SERVICE_NAMES, TestFleet, type ServiceName } from '../fleet/test-fleet.js';

/** What each cannot work without. */
const NEEDS: Record<'nats' | 'redis', readonly ServiceName[]> = {
  nats: SERVICE_NAMES.filter((name) => name !== 'python-sandbox'),
  // The toolset compute is deployed without Redis.
  redis: SERVICE_NAMES.filter((name) => name !== 'records' && name !== 'identity' && name !== 'builtin-executor'),
};

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await TestFleet.start({ services: ofEach(1), tools: [] });
});
afterEach(() => fleet?.restore());
afterAll(() => fleet?.stop());

/** Status of a probe of every service. */
async function probe(path: 'live' | 'ready'): Promise<Record<string, number>> {
  const asked = SERVICE_NAMES.map(
    async (name) => [name, (await fleet.process(name).admin(`/health/${path}`)).status] as const,
  );
  return Object.fromEntries(await Promise.all(asked));
}

const all = (status: (name: ServiceName) => number) =>
  Object.fromEntries(SERVICE_NAMES.map((name) => [name, status(name)]));
const ALIVE = all(() => 200);

async function isAway(dependency: 'nats' | 'redis'): Promise<void> {
  const expected = all((name) => (NEEDS[dependency].includes(name) ? 503 : 200));
  const asExpected = async () => JSON.stringify(await probe('ready')) === JSON.stringify(expected);
  await eventually('exactly those that need it are unready', asExpected, { everyMs: 100 }).catch(async () =>
    expect(await probe('ready')).toEqual(expected),
  );
  expect(await probe('live')).toEqual(ALIVE);
}

async function isBack(): Promise<void> {
  const everyone = async () => Object.values(await probe('ready')).every((status) => status === 200);
  await eventually('everyone is ready again', everyone, { everyMs: 100 });
  expect(SERVICE_NAMES.map((name) => fleet.process(name).facts['admin_port'])).not.toContain(undefined);
  expect(fleet.all).toHaveLength(SERVICE_NAMES.length);
}

describe('probes', () => {
  it('while NATS is killed and comes back', async () => {
    await fleet.nats.kill();
    await isAway('nats');
    await fleet.nats.restart();
    await isBack();
  });

  it('while Redis is killed and comes back', async () => {
    await fleet.redis.kill();
    await isAway('redis');
    await fleet.redis.restart();
    await isBack();
  });

  it.each(['nats', 'redis'] as const)('stay alive while %s hangs', async (dependency) => {
    fleet[dependency].pause();
    try {
      for (let round = 0; round < 5; round += 1) expect(await probe('live')).toEqual(ALIVE);
    } finally {
      fleet[dependency].resume();
    }
    await isBack();
  });
});
