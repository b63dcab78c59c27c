import { MemoryResultCache } from '@toolfleet/engine';
import { SystemClock } from '@toolfleet/resilience';
import { startRedis, type RedisServer } from '@toolfleet/testing';
import { outcome } from '@toolfleet/testing/conformance/journal';
import { aScope, resultCacheConformance, store } from '@toolfleet/testing/conformance/result-cache';
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
  const scope = aScope({ reach: 'near' });
  const find = async () => (await other.get('shared', scope)).cached;
  await store(one, 'shared', scope, { freshMs: 300, staleMs: 60_000 }, outcome({ text: 'from one' }));
  await expect.poll(find, { interval: 5 }).toMatchObject({ result: { text: 'from one' } });
  await expect.poll(find).toBeUndefined();
  expect(await other.getStale('shared', scope)).toMatchObject({ result: { text: 'from one' } });
});

test('a drop by one gateway is seen by all as soon as it resolves, with results that they read themselves', async () => {
  const [one, other] = await Promise.all([redisCache(), redisCache()]);
  const scope = aScope();
  const ages = { freshMs: 60_000, staleMs: 60_000 };
  for (let round = 0; round < 20; round += 1) {
    await store(other, 'read', scope, ages);
    await expect.poll(async () => (await other.get('read', scope)).cached, { interval: 5 }).toBeDefined();
    await one.drop(scope);
    expect((await other.get('read', scope)).cached).toBeUndefined();
    expect(await other.getStale('read', scope)).toBeUndefined();
  }
});

test('falls back to the near cache without Redis and does not throw', async () => {
  const stopped = await startRedis();
  const client = stopped.client();
  await client.ping();
  const cache = new RedisResultCache(client, clock);
  await stopped.stop();
  await expect.poll(() => client.status).not.toBe('ready');
  const near = aScope({ reach: 'near' });
  await store(cache, 'k', near, { freshMs: 60_000, staleMs: 60_000 });
  expect((await cache.get('k', near)).cached).toMatchObject({ result: outcome() });
  expect((await cache.get('other', near)).cached).toBeUndefined();
  // Another gateway may have dropped these: they can only replace failures.
  const fleet = { ...near, reach: 'fleet' as const };
  expect(await cache.get('k', fleet)).toEqual({ version: undefined });
  expect(await cache.getStale('k', fleet)).toMatchObject({ result: outcome() });
  await cache.drop(fleet);
  expect(await cache.getStale('k', fleet)).toBeUndefined();
  client.disconnect();
});

test('a drop that Redis did not get is repeated before the next lookup', async () => {
  const client = server.client();
  await client.ping();
  const cache = new RedisResultCache(client, clock);
  const scope = aScope();
  await store(cache, 'k', scope, { freshMs: 60_000, staleMs: 60_000 });
  await expect.poll(async () => (await cache.get('k', scope)).cached, { interval: 5 }).toBeDefined();
  const set = client.set.bind(client);
  client.set = () => Promise.reject(new Error('connection lost'));
  await cache.drop(scope);
  expect(await cache.get('k', scope)).toEqual({ version: undefined });
  client.set = set;
  expect((await cache.get('k', scope)).cached).toBeUndefined();
  expect((await (await redisCache()).get('k', scope)).cached).toBeUndefined();
});
