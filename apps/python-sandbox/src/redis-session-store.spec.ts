import { startRedis, type RedisServer } from '@toolfleet/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { RedisSessionStore } from './redis-session-store.js';

let server: RedisServer;
let redis: ReturnType<RedisServer['client']>;
let store: RedisSessionStore;
beforeAll(async () => {
  server = await startRedis();
  redis = server.client();
});
afterAll(() => server?.stop());
beforeEach(async () => {
  await server.flush();
  store = new RedisSessionStore(redis, 3_600, 1_000);
});
const key = { tenantId: 't', userId: 'u', sessionId: 's' };

describe('sessions in Redis', () => {
  it('keep variables from one run to the next', async () => {
    const first = await store.take(key, 'job-1', 5_000);
    expect(first?.variables).toBeNull();
    await first!.release('{"x":1}');
    expect((await store.take(key, 'job-2', 5_000))?.variables).toBe('{"x":1}');
  });

  it('keep the old variables if a run returns none', async () => {
    await (await store.take(key, 'job-1', 5_000))!.release('{"x":1}');
    await (await store.take(key, 'job-2', 5_000))!.release();
    expect((await store.take(key, 'job-3', 5_000))?.variables).toBe('{"x":1}');
  });

  it('are leased to one job at a time, which may take them again', async () => {
    const held = await store.take(key, 'job-1', 5_000);
    expect(await store.take(key, 'job-2', 5_000)).toBeNull();
    expect(await store.take(key, 'job-1', 5_000)).not.toBeNull();
    await held!.release();
    expect(await store.take(key, 'job-2', 5_000)).not.toBeNull();
  });

  it('are leased to exactly one of a hundred concurrent jobs', async () => {
    const leases = await Promise.all(Array.from({ length: 100 }, (_, i) => store.take(key, `job-${i}`, 5_000)));
    expect(leases.filter((lease) => lease !== null)).toHaveLength(1);
  });

  it('store nothing from a job that lost its lease', async () => {
    const lost = await store.take(key, 'job-1', 5_000);
    await redis.del('{s:t:u:s}:lock');
    const next = await store.take(key, 'job-2', 5_000);
    await lost!.release('{"x":"stale"}');
    expect(await redis.get('{s:t:u:s}')).toBeNull();
    await next!.release('{"x":"good"}');
    expect(await redis.get('{s:t:u:s}')).toBe('{"x":"good"}');
  });

  it('of one tenant have a quota together, which no other tenant uses', async () => {
    const write = async (tenantId: string, sessionId: string, bytes: number) =>
      (await store.take({ tenantId, userId: 'u', sessionId }, 'job', 5_000))!.release('x'.repeat(bytes));
    expect(await write('t', 'a', 600)).toBe(true);
    expect(await write('t', 'b', 600)).toBe(false);
    expect(await redis.get('{s:t:u:b}')).toBeNull();
    expect(await write('other', 'a', 600)).toBe(true);
    expect(await write('t', 'a', 300)).toBe(true);
    expect(await write('t', 'b', 600)).toBe(true);
    // A session that does not fit keeps what it has.
    expect(await write('t', 'a', 500)).toBe(false);
    expect(await redis.strlen('{s:t:u:a}')).toBe(300);
    const kept = Object.entries(await redis.hgetall('{s:t:}:bytes'));
    await redis.zadd('{s:t:}:ends', 1, kept.find(([, bytes]) => bytes === '300')![0]);
    expect(await write('t', 'c', 600)).toBe(false);
    expect(await write('t', 'c', 400)).toBe(true);
  });

  it('expire after their last use', async () => {
    await (await store.take(key, 'job-1', 5_000))!.release('{}');
    await redis.expire('{s:t:u:s}', 100);
    await (await store.take(key, 'job-2', 5_000))!.release();
    expect(await redis.ttl('{s:t:u:s}')).toBeGreaterThan(3_500);
    expect(await redis.pttl('{s:t:u:s}:lock')).toBe(-2);
  });

  it('belong to one user of one tenant, whatever the names', async () => {
    await (await store.take({ tenantId: 'a', userId: 'u', sessionId: 'b:c' }, 'job', 5_000))!.release('{"x":1}');
    for (const other of [
      { tenantId: 'a:u', userId: 'b', sessionId: 'c' },
      { tenantId: 'a', userId: 'u', sessionId: 'b%3Ac' },
      { tenantId: 'a', userId: 'u', sessionId: 'b:c}' },
      { tenantId: 'a', userId: 'u:b', sessionId: 'c' },
      { tenantId: 'a', userId: 'v', sessionId: 'b:c' },
      { tenantId: 'a', userId: '', sessionId: 'b:c' },
    ]) {
      expect((await store.take(other, 'other', 5_000))?.variables).toBeNull();
    }
  });

  it('tolerate an unavailable Redis on release', async () => {
    const own = await startRedis();
    const client = own.client();
    const lease = await new RedisSessionStore(client, 60, 0).take(key, 'job', 5_000);
    client.disconnect();
    await expect(lease!.release('{}')).resolves.toBe(true);
    await own.stop();
  });
});
