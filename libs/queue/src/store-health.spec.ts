import { SystemClock } from '@toolfleet/resilience';
import { startRedis, type RedisServer } from '@toolfleet/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { StoreHealth } from './store-health.js';

const TIMEOUT_MS = 100;
const clock = new SystemClock();
let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server?.stop());

test('does not mark a store down whose reply waited for a busy event loop', async () => {
  const redis = server.client();
  await redis.set('key', 'value');
  const health = new StoreHealth(clock, TIMEOUT_MS);
  const reply = health.run(() => redis.get('key'));
  // The command is sent and its reply arrives, but the process reads it only after twice the time-out.
  setImmediate(() => {
    const until = performance.now() + 2 * TIMEOUT_MS;
    while (performance.now() < until);
  });
  expect(await reply).toBe('value');
  expect(health.isUp).toBe(true);
});

test('marks a store down that never answers', async () => {
  const health = new StoreHealth(clock, TIMEOUT_MS);
  expect(await health.run(() => new Promise(() => {}))).toBeUndefined();
  expect(health.isUp).toBe(false);
});
