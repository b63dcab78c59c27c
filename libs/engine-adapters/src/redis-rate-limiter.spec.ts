import { MemoryRateLimiter } from '@toolfleet/engine';
import { SystemClock, takeTokens } from '@toolfleet/resilience';
import { startRedis, type RedisServer } from '@toolfleet/testing';
import { rateLimiterConformance } from '@toolfleet/testing/conformance/rate-limiter';
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RedisRateLimiter, TAKE_TOKENS } from './redis-rate-limiter.js';

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const clock = new SystemClock();

async function ready() {
  const client = server.client();
  await client.ping();
  return client;
}

rateLimiterConformance('memory', async (count) => {
  const shared = new MemoryRateLimiter(clock);
  return Array.from({ length: count }, () => shared);
});
rateLimiterConformance('redis', async (count) =>
  Promise.all(Array.from({ length: count }, async () => new RedisRateLimiter(await ready(), clock))),
);

test('the Lua script decides as the pure rule does', async () => {
  // TIME is replaced by a global of the script, so that both sides see the same microseconds
  const scripted = TAKE_TOKENS.replace("redis.call('TIME')", '{ARGV[4], ARGV[5]}').replace(
    "'PX', string.format('%.0f', math.max(1, reset))",
    "'EX', '1000'",
  );
  const redis = await ready();
  redis.defineCommand('takeAt', { numberOfKeys: 1, lua: scripted });
  const takeAt = (redis as unknown as { takeAt: (...values: (string | number)[]) => Promise<number[]> }).takeAt.bind(
    redis,
  );
  const ask = fc.record({ waitUs: fc.integer({ min: 0, max: 3_000_000 }), asked: fc.integer({ min: 0, max: 4 }) });
  let serial = 0;
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 2_000 }), fc.array(ask, { maxLength: 12 }), async (perPeriod, asks) => {
      serial += 1;
      const rate = { perPeriod, periodMs: 60_000 };
      let nowUs = 1_750_000_000_000_000;
      let state: number | undefined;
      for (const { waitUs, asked } of asks) {
        nowUs += waitUs;
        const pure = takeTokens(state, rate, nowUs / 1_000, asked);
        state = pure.state;
        const { granted, remaining, retryAfterMs, resetMs } = pure.answer;
        const lua = await takeAt(
          `property:${serial}`,
          perPeriod,
          60_000,
          asked,
          Math.floor(nowUs / 1e6),
          nowUs % 1_000_000,
        );
        expect(lua).toEqual([granted, remaining, retryAfterMs, resetMs]);
      }
    }),
    { numRuns: 200 },
  );
});

test('takes the tokens of one tick in one script run, and refuses a known empty bucket without Redis', async () => {
  const redis = await ready();
  const limiter = new RedisRateLimiter(redis, clock);
  const before = await commandCalls(redis);
  const answers = await Promise.all(
    Array.from({ length: 500 }, () => limiter.take('burst', { perPeriod: 10, periodMs: 60_000 })),
  );
  expect(answers.filter((answer) => answer.allowed)).toHaveLength(10);
  await Promise.all(Array.from({ length: 500 }, () => limiter.take('burst', { perPeriod: 10, periodMs: 60_000 })));
  expect((await commandCalls(redis)) - before).toBeLessThanOrEqual(2); // EVALSHA, and EVAL the first time
});

async function commandCalls(redis: Awaited<ReturnType<typeof ready>>): Promise<number> {
  const stats = await redis.info('commandstats');
  return [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0);
}

test('while Redis is down each gateway grants its share and reports the local decisions', async () => {
  const stopped = await startRedis();
  const redis = stopped.client();
  await redis.ping();
  let local = 0;
  const limiter = new RedisRateLimiter(redis, clock, { gateways: () => 4, onLocalDecision: () => (local += 1) });
  await stopped.stop();
  await expect.poll(() => redis.status).not.toBe('ready');
  const answers = await Promise.all(
    Array.from({ length: 100 }, () => limiter.take('k', { perPeriod: 40, periodMs: 60_000 })),
  );
  expect(answers.filter((answer) => answer.allowed)).toHaveLength(10);
  expect(local).toBe(100);
  redis.disconnect();
});

test('a Redis that hangs delays one call for the time-out and is then not asked for a while', async () => {
  const frozen = await startRedis();
  const redis = frozen.client();
  await redis.ping();
  const limiter = new RedisRateLimiter(redis, clock, { timeoutMs: 50 });
  process.kill(frozen.pid, 'SIGSTOP');
  try {
    const from = clock.monotonic();
    expect((await limiter.take('k', { perPeriod: 5, periodMs: 60_000 })).allowed).toBe(true);
    const second = limiter.take('k', { perPeriod: 5, periodMs: 60_000 });
    expect(second).not.toBeInstanceOf(Promise); // decided at once: the store is not asked again for a while
    expect(clock.monotonic() - from).toBeLessThan(5_000);
  } finally {
    process.kill(frozen.pid, 'SIGCONT');
    redis.disconnect();
    await frozen.stop();
  }
});
