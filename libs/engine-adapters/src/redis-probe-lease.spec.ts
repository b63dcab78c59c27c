import { SystemClock } from '@toolfleet/resilience';
import { startRedis, type RedisServer } from '@toolfleet/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { redisProbeLease } from './redis-probe-lease.js';

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

test('lets one of many gateways probe until the lease expires', async () => {
  const leases = await Promise.all(
    Array.from({ length: 5 }, async () => {
      const redis = server.client();
      await redis.ping();
      return redisProbeLease(redis, new SystemClock());
    }),
  );
  const granted = await Promise.all(leases.map((mayProbe) => mayProbe('web_search', 60_000)));
  expect(granted.filter(Boolean)).toHaveLength(1);
  expect(await leases[0]?.('other_tool', 50)).toBe(true);
  await expect.poll(() => leases[1]?.('other_tool', 50)).toBe(true);
});

test('lets every gateway probe while Redis is unavailable', async () => {
  const stopped = await startRedis();
  const redis = stopped.client();
  await redis.ping();
  const mayProbe = redisProbeLease(redis, new SystemClock());
  await stopped.stop();
  await expect.poll(() => redis.status).not.toBe('ready');
  expect(await mayProbe('x', 200)).toBe(true);
  redis.disconnect();
});
