/** Recent calls on a real Redis, and the feed over them. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Principal } from '@toolfleet/contracts';
import { SystemClock } from '@toolfleet/resilience';
import { startRedis, type RedisServer } from '@toolfleet/testing';
import { CallAccess } from '@toolfleet/access';
import type { RecentCall } from '@toolfleet/contracts/fleet';
import { RecentCallsFeed } from './recent-calls.js';
import { RedisRecentCalls } from './redis-recent-calls.js';

const clock = new SystemClock();
const access = new CallAccess({ list: async () => ({ tools: [], version: 1, stale: false }) });
let server: RedisServer;
let store: RedisRecentCalls;
beforeAll(async () => void (server = await startRedis()));
beforeEach(async () => {
  await server.client().flushall();
  store = new RedisRecentCalls(server.client(), 1_000);
});
afterAll(() => server?.stop());

const call = (id: string, tenantId: string) =>
  ({ call_id: id, tenant_id: tenantId, tool: id.replace(/\d+$/, ''), ended_at: 1 }) as RecentCall;
const principal = (tenantId: string, roles: string[] = []): Principal => ({
  tenantId,
  userId: 'ann',
  roles,
  tools: ['*'],
  via: 'api_key',
});
const ids = (calls: readonly { call_id: string }[]) => calls.map(({ call_id: id }) => id);

describe('store of recent calls', () => {
  it('returns calls of a tenant or the fleet, oldest first, after a cursor', async () => {
    await store.add([call('a1', 'acme'), call('g1', 'globex'), call('a2', 'acme')]);
    const mine = await store.read({ tenantId: 'acme' }, 10);
    expect(ids(mine)).toEqual(['a1', 'a2']);
    expect(ids(await store.read('fleet', 10))).toEqual(['a1', 'g1', 'a2']);
    expect(ids(await store.read('fleet', 2))).toEqual(['g1', 'a2']);
    expect(ids(await store.read({ tenantId: 'acme' }, 10, mine[0]!.cursor))).toEqual(['a2']);
    expect(await store.read({ tenantId: 'nobody' }, 10)).toEqual([]);
  });

  it('is capped per tenant, so that a busy tenant evicts no calls of others', async () => {
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
  it('is empty if no calls are recorded', async () => {
    const feed = new RecentCallsFeed(undefined, access, clock);
    expect(feed.enabled).toBe(false);
    expect(await feed.read(principal('acme'), 10)).toEqual([]);
  });

  it('shows a call once, and finds it with the calls that its tool made', async () => {
    const feed = new RecentCallsFeed(store, access, clock);
    await store.add([
      call('a1', 'acme'),
      { ...call('a2', 'acme'), parent_call_id: 'a1' },
      { ...call('a1', 'acme'), attempts: 2 },
      { ...call('g1', 'globex'), parent_call_id: 'a1' },
    ]);
    expect(ids(await feed.read(principal('acme'), 10))).toEqual(['a2', 'a1']);
    expect(await feed.find(principal('acme'), 'a1')).toMatchObject([{ call_id: 'a2' }, { call_id: 'a1', attempts: 2 }]);
    expect(await feed.find(principal('globex'), 'a1')).toMatchObject([{ call_id: 'g1' }]);
    expect(await feed.find({ ...principal('acme'), tools: ['rare'], keyId: 'other' }, 'a1')).toEqual([]);
  });

  it('follows new calls of the caller’s scope', async () => {
    const feed = new RecentCallsFeed(store, access, clock);
    await store.add([call('a1', 'acme'), call('g1', 'globex')]);
    const follow = (who: Principal) => feed.follow(who, { cursor: undefined, ends: () => false });
    const [member, admin] = [follow(principal('acme', ['admin'])), follow(principal('operator', ['operator']))];
    expect(ids((await member.next()).value as RecentCall[])).toEqual(['a1']);
    expect(ids((await admin.next()).value as RecentCall[])).toEqual(['a1', 'g1']);
    await store.add([call('a2', 'acme')]);
    expect(ids((await member.next()).value as RecentCall[])).toEqual(['a2']);
    await member.return(undefined);
    await admin.return(undefined);
  });

  it('shows a caller only calls it has access to, from the end and from a cursor', async () => {
    const feed = new RecentCallsFeed(store, access, clock);
    const narrow: Principal = { ...principal('acme'), tools: ['rare'] };
    await store.add([call('rare1', 'acme'), { ...call('other1', 'acme'), user_id: 'ann' }]);
    await store.add(Array.from({ length: 700 }, (_, index) => call(`common${index}`, 'acme')));
    await store.add([call('rare2', 'acme'), call('common701', 'acme')]);
    const all = await feed.read(narrow, 10);
    expect(ids(all)).toEqual(['rare1', 'other1', 'rare2']);
    expect(ids(await feed.read(narrow, 2))).toEqual(['other1', 'rare2']);
    expect(ids(await feed.read(narrow, 10, all[0]!.cursor))).toEqual(['other1', 'rare2']);
    expect(ids(await feed.read({ ...narrow, roles: ['admin'] }, 2))).toEqual(['rare2', 'common701']);
    const news = feed.follow(narrow, { cursor: undefined, ends: () => false });
    const seen: string[] = [];
    while (seen.length < 3) {
      const { value } = await news.next();
      if (value !== 'quiet') seen.push(...ids(value as RecentCall[]));
    }
    expect(seen).toEqual(['rare1', 'other1', 'rare2']);
    await news.return(undefined);
  });
});
