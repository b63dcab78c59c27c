import { createMetrics } from '@toolfleet/telemetry';
import { FakeClock, startRedis, type RedisServer } from '@toolfleet/testing';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RedisTime } from './redis-time.js';

let server: RedisServer;
let redis: Redis;
beforeAll(async () => {
  server = await startRedis();
  redis = server.client();
});
afterAll(() => server?.stop());

describe('the time of Redis', () => {
  it('is Redis’s own, whatever the local clock says, and runs on the monotonic clock', async () => {
    const clock = new FakeClock(1_000);
    const time = new RedisTime(redis, clock);
    expect([time.known, time.now()]).toEqual([false, 1_000]);
    await time.refresh();
    const [seconds] = await redis.time();
    expect(Math.abs(time.now() - Number(seconds) * 1_000)).toBeLessThan(2_500);
    const before = time.now();
    clock.jumpWall(3_600_000);
    clock.advance(500);
    expect(time.now() - before).toBe(500);
  });

  it('shows how far the local clock is off', async () => {
    const clock = new FakeClock();
    const metrics = createMetrics({ version: '0', revision: 'spec' });
    const time = new RedisTime(redis, clock, metrics);
    const offset = async () =>
      Number(/^toolfleet_store_clock_offset_seconds (\S+)$/m.exec(await metrics.scrape())?.[1]);
    expect(await offset()).toBeNaN();
    await time.refresh();
    const before = await offset();
    clock.jumpWall(90_000);
    expect((await offset()) - before).toBeCloseTo(90, 2);
  });

  it('turns local instants into its own and back', async () => {
    const clock = new FakeClock(1_000);
    const time = new RedisTime(redis, clock);
    await time.refresh();
    const deadlineAt = time.fromLocal(clock.now() + 250);
    expect(time.msUntil(deadlineAt)).toBe(250);
    clock.advance(300);
    expect(time.msUntil(deadlineAt)).toBe(-50);
  });
});
