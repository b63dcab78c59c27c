import { afterAll, beforeAll, expect, it } from 'vitest';
import { FakeClock, startRedis, type RedisServer } from '@toolfleet/testing';
import type { Redis } from 'ioredis';
import { readSlots, SlotReport, workersAliveMs } from './worker-slots.js';

let server: RedisServer;
let redis: Redis;
beforeAll(async () => {
  server = await startRedis();
  redis = server.client();
  await redis.ping();
});
afterAll(() => server?.stop());

it('tells the slots of workers that live, and forgets those that were stopped or killed', async () => {
  const clock = new FakeClock();
  const reportOf = (busy: number) => new SlotReport(redis, 'q', clock, () => ({ busy, total: 2, at: clock.now() }));
  const [stopped, killed] = [reportOf(1), reportOf(2)];
  stopped.start();
  killed.start();
  await expect
    .poll(async () => (await readSlots(redis, 'q', clock.now())).map(({ busy }) => busy).toSorted((a, b) => a - b))
    .toEqual([1, 2]);
  expect(await workersAliveMs(redis, 'q')).toBeGreaterThan(0);
  expect(await workersAliveMs(redis, 'other')).toBe(0);
  stopped.stop();
  await expect
    .poll(() => readSlots(redis, 'q', clock.now()))
    .toEqual([{ worker: expect.any(String), busy: 2, total: 2 }]);
  expect(await readSlots(redis, 'q', clock.now() + 20_000)).toEqual([]);
  expect(await redis.hlen('{fleet}:q:slots')).toBe(0);
  expect(await workersAliveMs(redis, 'q')).toBe(0);
});
