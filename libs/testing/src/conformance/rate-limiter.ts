import { randomUUID } from 'node:crypto';
import type { RateLimiter } from '@toolfleet/engine';
import type { Rate } from '@toolfleet/resilience';
import { describe, expect, test } from 'vitest';

/** Contract of every rate limiter. `make` gives limiters that share their buckets, as replicas do. */
export function rateLimiterConformance(name: string, make: (count: number) => Promise<RateLimiter[]>): void {
  // By the hour: nothing worth a token refills while a test runs, however busy the machine is.
  const perHour = (calls: number): Rate => ({ perPeriod: calls, periodMs: 3_600_000 });
  const one = async (): Promise<RateLimiter> => (await make(1))[0] as RateLimiter;

  describe(`rate limiter: ${name}`, () => {
    test('starts full, gives one token per ask, then refuses with the time of the next', async () => {
      const limiter = await one();
      const key = randomUUID();
      for (let left = 4; left >= 0; left -= 1) {
        expect(await limiter.take(key, perHour(5))).toMatchObject({
          allowed: true,
          remaining: left,
          retryAfterMs: 0,
        });
      }
      const refused = await limiter.take(key, perHour(5));
      expect(refused).toMatchObject({ allowed: false, remaining: 0 });
      expect(refused.retryAfterMs).toBeGreaterThan(600_000);
      expect(refused.retryAfterMs).toBeLessThanOrEqual(720_000);
    });

    test('3,000 concurrent asks over two limiters against 100 an hour admit 100', async () => {
      const [first, second] = (await make(2)) as [RateLimiter, RateLimiter];
      const key = randomUUID();
      const answers = await Promise.all(
        Array.from({ length: 3_000 }, (_, index) => (index % 2 ? first : second).take(key, perHour(100))),
      );
      expect(answers.filter((answer) => answer.allowed)).toHaveLength(100);
    });

    test('refills evenly', async () => {
      const limiter = await one();
      const key = randomUUID();
      const rate: Rate = { perPeriod: 10, periodMs: 500 };
      while ((await limiter.take(key, rate)).allowed);
      await expect.poll(async () => (await limiter.take(key, rate)).allowed, { interval: 10 }).toBe(true);
    });

    test('looking takes nothing; buckets are apart', async () => {
      const limiter = await one();
      const key = randomUUID();
      expect(await limiter.peek(key, perHour(3))).toBe(3);
      await limiter.take(key, perHour(3));
      expect(await limiter.peek(key, perHour(3))).toBe(2);
      expect(await limiter.peek(randomUUID(), perHour(3))).toBe(3);
    });
  });
}
