import { MemoryResultCache } from '@toolfleet/engine';
import { SystemClock } from '@toolfleet/resilience';
import { startRedis, type RedisServer } from '@toolfleet/testing';
import { outcome } from '@toolfleet/testing/conformance/journal';
import { resultCacheConformance } from '@toolfleet/testing/conformance/result-cache';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RedisResultCache } from './redis-result-cache.js';

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const clock = new SystemClock();

async function redisCache(): Promise<RedisResultCache> {
  const client = server.client();
  await client.ping();
  return new RedisResultCache(client, clock);
}

resultCacheConformance('memory', async () => new MemoryResultCache(clock));
resultCacheConformance('redis', redisCache);

test('shares an entry with other gateways, with its true age', async () => {
  const [one, other] = await Promise.all([redisCache(), redisCache()]);
  const found = async () => {
    one.set('shared', outcome({ text: 'from one' }), { freshMs: 300, staleMs: 60_000, shared: true, tenantId: 'acme' });
    return other.get('shared', true);
  };
  await expect.poll(found).toMatchObject({ result: { text: 'from one' } });
  await expect.poll(() => other.get('shared', true)).toBeUndefined();
  expect(await other.getStale('shared')).toMatchObject({ result: { text: 'from one' } });
});

test('falls back to the near cache without Redis and does not throw', async () => {
  const stopped = await startRedis();
  const client = stopped.client();
  await client.ping();
  const cache = new RedisResultCache(client, clock);
  await stopped.stop();
  await expect.poll(() => client.status).not.toBe('ready');
  cache.set('k', outcome(), { freshMs: 60_000, staleMs: 60_000, shared: true, tenantId: 'acme' });
  expect(await cache.get('k', true)).toMatchObject({ result: outcome() });
  expect(await cache.get('other', true)).toBeUndefined();
  client.disconnect();
});
