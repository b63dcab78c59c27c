import { SystemClock } from '@toolfleet/resilience';
import { startRedis, type RedisServer } from '@toolfleet/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { StoreHealth } from './store-health.js';

const PATIENCE_MS = 100;
const clock = new SystemClock();
let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server?.stop());

test('an event loop that is busy beyond the patience does not make a store that answered look away', async () => {
  const redis = server.client();
  await redis.set('key', 'value');
  const trust = new StoreHealth(clock, PATIENCE_MS);
  const asked = trust.ask(() => redis.get('key'));
  // The command leaves, its answer arrives, and nobody reads it for twice the patience.
  setImmediate(() => {
    const until = performance.now() + 2 * PATIENCE_MS;
    while (performance.now() < until);
  });
  expect(await asked).toBe('value');
  expect(trust.given).toBe(true);
});

test('a store that never answers is given up and left alone for a while', async () => {
  const trust = new StoreHealth(clock, PATIENCE_MS);
  expect(await trust.ask(() => new Promise(() => {}))).toBeUndefined();
  expect(trust.given).toBe(false);
});
