import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FakeClock, startRedis, type RedisServer } from '@toolfleet/testing';
import type { Redis } from 'ioredis';
import { readSlots, SlotReport, SlotShares, workersAliveMs } from './worker-slots.js';

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

describe('the slots of a share', () => {
  const promoted: string[] = [];
  const job = (id: string, timestamp = 0) => ({
    id,
    timestamp,
    attemptsStarted: 1,
    promote: async () => void promoted.push(id),
  });
  /** Two slots for each share. */
  const newShares = async () => {
    promoted.length = 0;
    const clock = new FakeClock();
    const shares = new SlotShares(3, clock);
    expect([await shares.take('t', job('a')), await shares.take('t', job('b'))]).toEqual([{}, {}]);
    return { clock, shares };
  };

  it('are all but one; a job beyond is parked, and taken again when one is freed', async () => {
    const { shares } = await newShares();
    expect([await shares.take('t', job('late', 2)), await shares.take('t', job('early', 1))]).toEqual([
      { parkedMs: 250 },
      { parkedMs: 250 },
    ]);
    expect(await shares.take('other', job('c'))).toEqual({});
    shares.free('t');
    expect(promoted).toEqual(['early']);
    expect(await shares.take('t', job('early', 1))).toEqual({});
  });

  it('go to a job that waits a moment, where one was freed just now', async () => {
    const { clock, shares } = await newShares();
    shares.free('t');
    expect(await shares.take('t', job('c'))).toEqual({});
    const waiting = shares.take('t', job('d'));
    await clock.run(49);
    shares.free('t');
    expect(await waiting).toEqual({});
    expect(promoted).toEqual([]);
    const inVain = shares.take('t', job('e'));
    await clock.run(50);
    expect(await inVain).toEqual({ parkedMs: 250 });
    // The last one was freed too long ago.
    expect(await shares.take('t', job('f'))).toEqual({ parkedMs: 250 });
    shares.free('t');
    shares.free('t');
    expect(promoted).toEqual(['e', 'f']);
  });
});
