/** Recent calls on a real Redis, and the feed over them. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { isToolError, ToolError, type Principal } from '@toolfleet/contracts';
import { SystemClock } from '@toolfleet/resilience';
import { FakeClock, startRedis, type RedisServer } from '@toolfleet/testing';
import type { RecentCall } from './recent-call.js';
import { RecentCallsFeed } from './recent-calls-feed.js';
import { RedisRecentCalls } from './redis-recent-calls.js';

const clock = new SystemClock();
let server: RedisServer;
let store: RedisRecentCalls;
beforeAll(async () => void (server = await startRedis()));
beforeEach(async () => {
  await server.client().flushall();
  store = new RedisRecentCalls(server.client(), 1_000);
});
afterAll(() => server?.stop());

const call = (id: string, tenantId: string) => ({ call_id: id, tenant_id: tenantId, ended_at: 1 }) as RecentCall;
const principal = (tenantId: string, roles: string[] = []): Principal => ({
  tenantId,
  userId: 'ann',
  roles,
  tools: ['*'],
  via: 'api_key',
});
const ids = (calls: readonly { call_id: string }[]) => calls.map(({ call_id: id }) => id);

describe('store of recent calls', () => {
  it('gives a tenant its own and the fleet all, oldest first, and what came after a cursor', async () => {
    await store.add([call('a1', 'acme'), call('g1', 'globex'), call('a2', 'acme')]);
    const mine = await store.read({ tenantId: 'acme' }, 10);
    expect(ids(mine)).toEqual(['a1', 'a2']);
    expect(ids(await store.read('fleet', 10))).toEqual(['a1', 'g1', 'a2']);
    expect(ids(await store.read('fleet', 2))).toEqual(['g1', 'a2']);
    expect(ids(await store.read({ tenantId: 'acme' }, 10, mine[0]!.cursor))).toEqual(['a2']);
    expect(await store.read({ tenantId: 'nobody' }, 10)).toEqual([]);
  });

  it('is capped per tenant, so that a busy one pushes nobody out', async () => {
    const small = new RedisRecentCalls(server.client(), 100);
    await small.add([call('quiet', 'globex')]);
    await small.add(Array.from({ length: 1_000 }, (_, index) => call(`a${index}`, 'acme')));
    expect(ids(await small.read({ tenantId: 'globex' }, 10))).toEqual(['quiet']);
    expect(await server.client().xlen('lc:t:acme')).toBeLessThanOrEqual(200);
    expect(await server.client().xlen('lc:fleet')).toBeLessThanOrEqual(600);
    expect(await server.client().ttl('lc:t:acme')).toBeGreaterThan(20_000);
  });
});

describe('feed of recent calls', () => {
  it('is empty where nothing is recorded', async () => {
    const feed = new RecentCallsFeed(undefined, clock);
    expect(feed.enabled).toBe(false);
    expect(await feed.read(principal('acme'), 10)).toEqual([]);
  });

  it('follows new calls of the caller’s scope', async () => {
    const feed = new RecentCallsFeed(store, clock);
    await store.add([call('a1', 'acme'), call('g1', 'globex')]);
    const follow = (who: Principal) =>
      feed.follow(who, { cursor: undefined, ends: () => false, prove: async () => who });
    const [member, admin] = [follow(principal('acme', ['admin'])), follow(principal('operator', ['operator']))];
    expect(ids((await member.next()).value as RecentCall[])).toEqual(['a1']);
    expect(ids((await admin.next()).value as RecentCall[])).toEqual(['a1', 'g1']);
    await store.add([call('a2', 'acme')]);
    expect(ids((await member.next()).value as RecentCall[])).toEqual(['a2']);
    await member.return(undefined);
    await admin.return(undefined);
  });

  it('ends once the credential is revoked', async () => {
    const fake = new FakeClock();
    const feed = new RecentCallsFeed(store, fake);
    const news = feed.follow(principal('acme'), {
      cursor: undefined,
      ends: () => false,
      prove: () => Promise.reject(new ToolError('UNAUTHENTICATED')),
    });
    expect((await news.next()).value).toBe('quiet');
    const next = news.next();
    fake.advance(5_000);
    await expect(next).rejects.toSatisfy((error) => isToolError(error) && error.code === 'UNAUTHENTICATED');
  });

  it('refuses streams beyond its limit, and takes new ones once others ended', async () => {
    const feed = new RecentCallsFeed(store, clock);
    const open = () =>
      feed.follow(principal('acme'), { cursor: undefined, ends: () => false, prove: async () => principal('acme') });
    const streams = Array.from({ length: 200 }, open);
    await Promise.all(streams.map((stream) => stream.next()));
    await expect(open().next()).rejects.toMatchObject({ code: 'QUEUE_FULL' });
    await streams[0]!.return(undefined);
    expect((await open().next()).done).toBe(false);
  });
});
