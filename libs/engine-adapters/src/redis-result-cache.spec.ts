import { MemoryResultCache } from '@toolfleet/engine';
import { SystemClock } from '@toolfleet/resilience';
import { FakeClock, startRedis, type RedisServer } from '@toolfleet/testing';
import { outcome } from '@toolfleet/testing/conformance/journal';
import { aScope, resultCacheConformance, store } from '@toolfleet/testing/conformance/result-cache';
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
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
  await store(one, 'shared', scope, { freshMs: 3_000, staleMs: 60_000 }, outcome({ text: 'from one' }));
  await expect.poll(find, { interval: 5 }).toMatchObject({ result: { text: 'from one' } });
  await expect.poll(find).toBeUndefined();
  expect(await other.getStale('shared', scope)).toMatchObject({ result: { text: 'from one' } });
});

test('writes results that only replace failures together, and has each of them at once', async () => {
  const client = server.client();
  await client.ping();
  const [cache, other] = [new RedisResultCache(client, clock), await redisCache()];
  const scope = aScope();
  const version = (await cache.version(scope))!;
  const sent = vi.spyOn(client, 'sendCommand');
  for (let n = 0; n < 50; n += 1)
    cache.set(`key ${n}`, outcome({ text: `result ${n}` }), { freshMs: 0, staleMs: 60_000, scope, version });
  expect(await cache.getStale('key 49', scope)).toMatchObject({ result: { text: 'result 49' } });
  // One script that keeps, one that reads; each twice where the server does not know it.
  expect(sent.mock.calls.length).toBeLessThanOrEqual(4);
  expect(await other.getStale('key 0', scope)).toMatchObject({ result: { text: 'result 0' } });
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
  const lost = vi.spyOn(client, 'sendCommand').mockRejectedValue(new Error('connection lost'));
  await cache.drop(scope);
  expect(await cache.get('k', scope)).toEqual({ version: undefined });
  lost.mockRestore();
  expect((await cache.get('k', scope)).cached).toBeUndefined();
  expect((await (await redisCache()).get('k', scope)).cached).toBeUndefined();
});

test('a scope that is not read costs its calls with effects one question a second, and its first readers wait', async () => {
  const client = server.client();
  await client.ping();
  const sent = vi.spyOn(client, 'sendCommand');
  const fake = new FakeClock();
  const [writer, reader] = [new RedisResultCache(client, fake), await redisCache()];
  await writer.drop(aScope()); // Redis has the script
  sent.mockClear();
  const scope = aScope();
  for (let call = 0; call < 50; call += 1) await writer.drop(scope);
  expect(sent).toHaveBeenCalledTimes(1);
  // The writer may still rely on the mark, so nothing that is read now may be kept.
  expect(await reader.get('k', scope)).toEqual({ version: undefined });
  await expect.poll(async () => (await reader.get('k', scope)).version).toBeDefined();
  await store(reader, 'k', scope, { freshMs: 60_000, staleMs: 60_000 });
  await expect.poll(async () => (await reader.get('k', scope)).cached).toBeDefined();
  await fake.run(1_000);
  await writer.drop(scope);
  expect((await reader.get('k', scope)).cached).toBeUndefined();
  // It has readers now: every call drops.
  for (let call = 0; call < 5; call += 1) await writer.drop(scope);
  expect(sent).toHaveBeenCalledTimes(7);
  sent.mockRestore();
});

test('property: whatever readers and writers of two gateways do, no result outlives a later drop', async () => {
  const client = server.client();
  await client.ping();
  const act = fc.record({
    by: fc.nat({ max: 1 }),
    what: fc.constantFrom('read', 'drop', 'wait'),
    ms: fc.constantFrom(1, 40),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(act, { maxLength: 12 }), async (acts) => {
      const gateways = [1, 2].map(() => new RedisResultCache(client, clock, { unreadMs: 30 }));
      const scope = aScope();
      let written = 0;
      for (const { by, what, ms } of acts) {
        const cache = gateways[by]!;
        if (what === 'wait') await clock.sleep(ms);
        else if (what === 'drop') {
          written += 1;
          await cache.drop(scope);
        } else {
          const { cached, version } = await cache.get('k', scope);
          if (cached) expect(cached.result.text).toBe(`after ${written}`);
          const ages = { freshMs: 60_000, staleMs: 60_000, scope };
          if (version !== undefined) cache.set('k', outcome({ text: `after ${written}` }), { ...ages, version });
        }
      }
    }),
    { numRuns: 50 },
  );
});

test('a result with a remembered version replaces failures until a call drops it', async () => {
  const [reader, writer] = [await redisCache(), await redisCache()];
  const client = server.client();
  await client.ping();
  const sent = vi.spyOn(client, 'sendCommand');
  const asking = new RedisResultCache(client, clock);
  const scope = aScope();
  const versions = await Promise.all(Array.from({ length: 20 }, () => asking.version(scope)));
  const version = versions[0]!;
  expect(new Set(versions)).toEqual(new Set([version]));
  expect(await asking.version(scope)).toBe(version);
  expect(sent.mock.calls.length).toBeLessThanOrEqual(2); // the script, and its text where Redis lacks it
  sent.mockRestore();
  const keep = (key: string) => asking.set(key, outcome(), { freshMs: 0, staleMs: 60_000, scope, version });
  keep('k');
  await expect.poll(async () => reader.getStale('k', scope)).toBeDefined();
  expect((await reader.get('k', scope)).cached).toBeUndefined();
  await writer.drop(scope);
  // Remembered from before the drop, so that what was read then is not used.
  keep('late');
  await asking.getStale('late', scope);
  expect(await reader.getStale('late', scope)).toBeUndefined();
  expect(await reader.getStale('k', scope)).toBeUndefined();
});
