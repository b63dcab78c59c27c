import { SystemClock } from '@toolfleet/resilience';
import { startRedis, type RedisServer } from '@toolfleet/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { redisProbeLease } from './redis-probe-lease.js';

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

test('of many gateways one may probe, until the lease ends', async () => {
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

test('without Redis every gateway may', async () => {
  const away = await startRedis();
  const redis = away.client();
  await redis.ping();
  const mayProbe = redisProbeLease(redis, new SystemClock());
  await away.stop();
  await expect.poll(() => redis.status).not.toBe('ready');
  expect(await mayProbe('x', 200)).toBe(true);
  redis.disconnect();
});
