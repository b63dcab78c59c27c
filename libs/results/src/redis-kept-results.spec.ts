/** The quota of kept bytes on a real Redis, and that a result is kept once however it came in. */
import type { CallBody, CallResult, Succeeded } from '@toolfleet/contracts';
import { DEFAULT_RETENTION, RedisJournal } from '@toolfleet/journal';
import { JobQueue, JobWorker, RedisTime, StoreGeneration } from '@toolfleet/queue';
import { SystemClock } from '@toolfleet/resilience';
import { sha256Hex } from '@toolfleet/bounded-schema';
import { eventually, startRedis, type RedisServer } from '@toolfleet/testing';
import { aRequest } from '@toolfleet/testing/engine-fixture';
import { outcome } from '@toolfleet/testing/conformance/journal';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { AsyncCalls } from './async-calls.js';
import { type AsyncCallJob } from './call-store.js';
import { RedisCallStore } from './redis-call-store.js';
import type { CallSight } from '@toolfleet/access';
import { RedisKeptResults } from './redis-kept-results.js';
import { RedisResultCache } from '@toolfleet/engine-adapters';

const clock = new SystemClock();
const QUOTA = 100_000;
let server: RedisServer;
let redis: Redis;
beforeAll(async () => {
  server = await startRedis();
  redis = server.client();
});
beforeEach(() => server.flush());
afterAll(() => server.stop());

/** Bytes of all matching keys. */
async function bytesOf(pattern: string): Promise<number> {
  const keys = await redis.keys(pattern);
  const sizes = await Promise.all(keys.map(async (key) => Number(await redis.memory('USAGE', key, 'SAMPLES', 0))));
  return sizes.reduce((sum, size) => sum + size, 0);
}

const large = (bytes: number): Succeeded => outcome({ output: { page: 'x'.repeat(bytes) }, text: 'a page' });
const bodyOf = (callId: string, result: CallResult): CallBody => ({
  success: true,
  output: result.output,
  text: result.text,
  error: null,
  metadata: {},
  execution_time_ms: 1,
  usage: { tokens: 0, cost_usd: 0 },
  call_id: callId,
});

describe('the quota of a tenant', () => {
  const keep = (results: RedisKeptResults, ref: string, bytes: number, keyed = false, tenantId = 'acme') =>
    results.keep({ tenantId, ref, bytes, keyed, ttlMs: 60_000 });

  it('is exact while many gateways keep results concurrently', async () => {
    const gateways = Array.from({ length: 8 }, () => new RedisKeptResults(server.client(), QUOTA));
    const total = async () => Number((await redis.hget('{kept:acme}:sizes', '~total')) ?? 0);
    let most = 0;
    await Promise.all(
      gateways.map(async (gateway, at) => {
        for (let n = 0; n < 60; n += 1) {
          await keep(gateway, `c${at}-${n}`, 1_024 + ((n * 7_919 + at * 104_729) % 20_000), n % 11 === 0);
          most = Math.max(most, await total());
        }
      }),
    );
    const held = Object.entries(await redis.hgetall('{kept:acme}:sizes')).filter(([ref]) => !ref.startsWith('~'));
    expect(held.reduce((sum, [, entry]) => sum + parseInt(entry, 10), 0)).toBe(await total());
    expect(most).toBeLessThanOrEqual(QUOTA);
    expect(most).toBeGreaterThan(QUOTA / 2);
  });

  it('evicts the oldest results without a key first, and never keyed ones', async () => {
    const results = new RedisKeptResults(redis, QUOTA);
    await redis.hset('{call:old}:record', { tenant: 'acme', tool: 'x', state: 'succeeded', result: '{}' });
    expect(await keep(results, 'old', 30_000)).toBe(true);
    expect(await keep(results, 'keyed', 50_000, true)).toBe(true);
    expect(await keep(results, 'new', 30_000)).toBe(true);
    expect(await redis.hgetall('{call:old}:record')).toEqual({ tenant: 'acme', tool: 'x', state: 'succeeded' });
    expect(await keep(results, 'too-large', 60_000)).toBe(false);
    expect(Object.keys(await redis.hgetall('{kept:acme}:sizes')).toSorted()).toEqual([
      'keyed',
      'new',
      '~keyed',
      '~total',
    ]);
    expect(await keep(results, 'other', 90_000, false, 'globex')).toBe(true);
  });

  it('refuses a call with 429 and a hint when only keyed results are left', async () => {
    const results = new RedisKeptResults(redis, QUOTA);
    const journal = new RedisJournal(redis, clock, DEFAULT_RETENTION, results);
    const ask = (callId: string) => ({
      callId,
      tenantId: 'acme',
      tool: 'fetch',
      deadlineAt: clock.now() + 60_000,
      repeatable: false,
      idempotencyKey: callId,
      fingerprint: 'f',
    });
    for (const callId of ['k1', 'k2', 'k3']) {
      await journal.accept(ask(callId));
      await journal.claim(callId, 1);
      await journal.finish(callId, 'current', large(45_000));
    }
    // The third did not fit: how it ended is kept, its result is not.
    expect(await journal.find('acme', 'k3', 'f')).toMatchObject({
      kind: 'finished',
      outcome: { ok: true, output: null, metadata: { result_omitted: { reason: 'quota' } } },
    });
    await keep(results, 'k4', QUOTA - Number(await redis.hget('{kept:acme}:sizes', '~total')), true);
    await expect(journal.accept(ask('k7'))).rejects.toMatchObject({
      code: 'QUOTA_EXCEEDED',
      details: { quota: 'kept_results', limit: QUOTA },
    });
    await expect(results.admit('globex')).resolves.toBeUndefined();
  });

  it('stops counting a result when it expires', async () => {
    const results = new RedisKeptResults(redis, QUOTA);
    await results.keep({ tenantId: 'acme', ref: 'short', bytes: QUOTA, keyed: true, ttlMs: 50 });
    await expect(results.admit('acme')).rejects.toMatchObject({ code: 'QUOTA_EXCEEDED' });
    await eventually('it has ended', () =>
      results.admit('acme').then(
        () => true,
        () => false,
      ),
    );
    expect(await redis.hgetall('{kept:acme}:sizes')).toMatchObject({ '~total': '0', '~keyed': '0' });
  });

  it('includes entries of the shared cache, which are evicted like other results', async () => {
    const results = new RedisKeptResults(redis, QUOTA);
    const cache = new RedisResultCache(redis, clock, { results });
    const scope = { tenantId: 'acme', source: 'openapi parcels', reach: 'fleet' as const };
    const store = async (key: string) => {
      const { version = '' } = await cache.get(key, scope);
      cache.set(key, large(60_000), { freshMs: 60_000, staleMs: 60_000, scope, version });
    };
    const isStored = async (key: string) => (await redis.exists(`rc:{acme:openapi%20parcels}:${sha256Hex(key)}`)) === 1;
    await store('first');
    await eventually('it is stored', () => isStored('first'));
    await store('second');
    await eventually('the other one is', () => isStored('second'));
    expect(await isStored('first')).toBe(false);
  });
});

describe('a result of one megabyte', () => {
  const BYTES = 1_000_000;

  it('with a large integer is not sent on as text, because callers get such an integer as a string', async () => {
    const results = new RedisKeptResults(redis, 10 * BYTES);
    const store = new RedisCallStore(redis, 3_600, () => clock.now(), results);
    const output = { text: 'x'.repeat(100_000), id: 9007199254740993n };
    await store.create({ callId: 'c', tenantId: 'acme', tool: 'x', state: 'accepted', acceptedAt: 1 });
    await store.finish('c', 'succeeded', bodyOf('c', { ...large(BYTES), output }));
    expect(await store.getText('c')).toMatchObject({ result: { output } });
  });

  it.each([
    { how: 'without the journal', journalled: false, key: undefined },
    { how: 'with an effect', journalled: true, key: undefined },
    { how: 'with an idempotency key', journalled: true, key: 'k' },
  ])('of an asynchronous call $how is kept once, and read back whole', async ({ journalled, key }) => {
    const results = new RedisKeptResults(redis, 10 * BYTES);
    const journal = new RedisJournal(redis, clock, DEFAULT_RETENTION, results);
    const store = new RedisCallStore(redis, 3_600, () => clock.now(), results);
    const result = large(BYTES);
    await store.create({ callId: 'c', tenantId: 'acme', tool: 'x', state: 'accepted', acceptedAt: 1 });
    if (journalled) {
      const ask = { callId: 'c', tenantId: 'acme', tool: 'x', deadlineAt: clock.now() + 60_000, repeatable: false };
      await journal.accept({ ...ask, ...(key === undefined ? {} : { idempotencyKey: key, fingerprint: 'f' }) });
      await journal.claim('c', 1);
      await journal.finish('c', 'current', result);
    }
    await store.finish('c', 'succeeded', bodyOf('c', result));
    expect(await bytesOf('*')).toBeLessThan(1.2 * BYTES);
    expect((await store.get('c'))?.result).toEqual(bodyOf('c', result));
    // Only a body with its payload in the journal has to be parsed.
    expect((await store.getText('c'))?.resultText === undefined).toBe(key !== undefined);
    expect((await store.events('c')).at(-1)).toMatchObject({ type: 'done', result: { output: result.output } });
    const counted = Number(await redis.hget('{kept:acme}:sizes', '~total'));
    expect(counted).toBeGreaterThan(BYTES);
    expect(counted).toBeLessThan(1.01 * BYTES);
    if (key !== undefined) {
      expect(await journal.find('acme', key, 'f')).toMatchObject({
        kind: 'finished',
        outcome: { output: result.output },
      });
    }
  });

  it('is removed from the queue that ran it and from its events', async () => {
    const time = new RedisTime(redis, clock);
    await time.start();
    const queue = new JobQueue<{ call_id: string }, CallResult>({ name: 'runs', redis, time, completedSeconds: 1 });
    const worker = new JobWorker<{ call_id: string }, CallResult>({
      queue: 'runs',
      redis: server.client(),
      publisher: redis,
      time,
      concurrency: 1,
      handler: async () => large(BYTES),
    });
    await worker.start();
    for (let n = 0; n < 4; n += 1) await queue.add(`j${n}`, { call_id: `j${n}` });
    await eventually('all are done', async () => (await queue.record('j3')).state === 'completed');
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await queue.add('last', { call_id: 'last' });
    await eventually('the last one is done', async () => (await queue.record('last')).state === 'completed');
    expect(await bytesOf('*runs:j*')).toBe(0);
    expect(await bytesOf('*')).toBeLessThan(2.5 * BYTES);
    await worker.drain();
    await worker.stop();
    time.stop();
  });
});

it('an asynchronous call is refused before it is accepted when the quota is full', async () => {
  const results = new RedisKeptResults(redis, QUOTA);
  const time = new RedisTime(redis, clock);
  const queue = new JobQueue<AsyncCallJob, unknown>({ name: 'tool-calls', redis, time });
  const store = new RedisCallStore(redis, 60, () => clock.now(), results);
  const journal = new RedisJournal(redis, clock);
  const sight = {} as CallSight;
  const calls = new AsyncCalls({
    queue,
    store,
    generation: new StoreGeneration(redis),
    journal,
    results,
    lost: { settle: async () => undefined },
    sight,
    readings: { note: async () => undefined },
    clock,
    maxCallMs: 60_000,
  });
  await results.keep({ tenantId: 'acme', ref: 'k', bytes: QUOTA, keyed: true, ttlMs: 60_000 });
  const request = aRequest(clock, { callId: 'c1', toolName: 'x' });
  await expect(calls.accept(request)).rejects.toMatchObject({ code: 'QUOTA_EXCEEDED' });
  expect(await store.get('c1')).toBeNull();
});
