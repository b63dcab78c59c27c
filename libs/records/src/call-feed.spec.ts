/** The feed over the store of the service. */
import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Principal } from '@toolfleet/contracts';
import { SystemClock } from '@toolfleet/resilience';
import { sqliteDialect } from '@toolfleet/database';
import { CallSight } from '@toolfleet/access';
import type { FinishedCall, StoredCall } from '@toolfleet/contracts/records';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { RecordedCallStore } from '../../../apps/records/src/call-store.js';
import { CallFeed } from './call-feed.js';

const clock = new SystemClock();
const SHARED = { name: 'rare', binding: { kind: 'openapi' }, results: 'tenant', shared_since: 0 } as RegisteredTool;
const sight = new CallSight({ list: async () => ({ tools: [SHARED], version: 1, stale: false }) });
let store: RecordedCallStore;
let now = 1_750_000_000_000;
const add = (calls: FinishedCall[]) => store.append(randomUUID(), calls, (now += 1));
beforeEach(async () => {
  store = new RecordedCallStore(sqliteDialect(':memory:'));
  await store.open();
});
afterEach(() => store.close());

const call = (id: string, tenantId: string) =>
  ({
    call_id: id,
    tenant_id: tenantId,
    user_id: 'ann',
    tool: id.replace(/\d+$/, ''),
    entry_point: 'http',
    origin: 'public',
    status: 'success',
    outcomes: { transport: 'delivered', protocol: 'ok', tool: 'ok' },
    ended_at: 1,
    duration_ms: 1,
    attempts: 1,
    stages: { admit_ms: 0, wait_ms: 0, queue_ms: 0, execute_ms: 1, rest_ms: 0 },
    micro_usd: 0,
    tokens: 0,
  }) satisfies FinishedCall;
const principal = (tenantId: string, roles: string[] = []): Principal => ({
  tenantId,
  userId: 'ann',
  roles,
  tools: ['*'],
  via: 'api_key',
});
const read = async (feed: CallFeed, caller: Principal, limit: number, after?: string) =>
  (await feed.read(caller, { limit, ...(after !== undefined && { after }) })).calls;
const ids = (calls: readonly { call_id: string }[]) => calls.map(({ call_id: id }) => id);

describe('feed of calls', () => {
  it('is empty if no calls are recorded', async () => {
    const feed = new CallFeed(undefined, undefined, sight, clock);
    expect(feed.enabled).toBe(false);
    expect(await feed.read(principal('acme'), { limit: 10 })).toEqual({ calls: [] });
  });

  it('shows a call once, and finds it with the calls that its tool made', async () => {
    const feed = new CallFeed(store, undefined, sight, clock);
    await add([
      call('a1', 'acme'),
      { ...call('a2', 'acme'), parent_call_id: 'a1' },
      { ...call('a1', 'acme'), attempts: 2 },
      { ...call('g1', 'globex'), parent_call_id: 'a1' },
    ]);
    expect(ids(await read(feed, principal('acme'), 10))).toEqual(['a2', 'a1']);
    const own = principal('acme');
    expect(await feed.one(own, 'a1')).toMatchObject({ call_id: 'a1', attempts: 2 });
    expect(await feed.withMade(own, 'a1')).toMatchObject({
      call: { call_id: 'a1', attempts: 2 },
      made: [{ call_id: 'a2' }],
    });
    for (const other of [principal('globex'), { ...own, tools: ['rare'], keyId: 'other' }])
      for (const found of [feed.one(other, 'a1'), feed.withMade(other, 'a1')])
        await expect(found).rejects.toMatchObject({ code: 'NOT_FOUND', message: "No finished call 'a1'" });
  });

  it('sends the calls of its own process before it shows the last ones', async () => {
    const waiting = [call('a1', 'acme')];
    const feed = new CallFeed(store, { sendNow: async () => void (await add(waiting.splice(0))) }, sight, clock);
    expect(ids(await read(feed, principal('acme'), 10))).toEqual(['a1']);
  });

  it('follows new calls of the caller’s scope', async () => {
    const feed = new CallFeed(store, undefined, sight, clock);
    await add([call('a1', 'acme'), call('g1', 'globex')]);
    const follow = (who: Principal) => feed.follow(who, { cursor: undefined, ends: () => false });
    const [member, admin] = [follow(principal('acme', ['admin'])), follow(principal('operator', ['operator']))];
    expect(ids((await member.next()).value as StoredCall[])).toEqual(['a1']);
    expect(ids((await admin.next()).value as StoredCall[])).toEqual(['a1', 'g1']);
    await add([call('a2', 'acme')]);
    expect(ids((await member.next()).value as StoredCall[])).toEqual(['a2']);
    await member.return(undefined);
    await admin.return(undefined);
  });

  it('shows a caller only calls it has access to, from the end and from a cursor', async () => {
    const feed = new CallFeed(store, undefined, sight, clock);
    const narrow: Principal = { ...principal('acme'), tools: [] };
    const ofBea = (id: string) => ({ ...call(id, 'acme'), user_id: 'bea', key_id: 'k1' });
    await add([call('rare1', 'acme'), call('other1', 'acme')]);
    await add(Array.from({ length: 700 }, (_, index) => ofBea(`common${index}`)));
    await add([call('rare2', 'acme'), ofBea('common701'), ofBea('rare3')]);
    const all = await read(feed, narrow, 10);
    expect(ids(all)).toEqual(['rare1', 'other1', 'rare2']);
    const newest = await feed.read(narrow, { limit: 1 });
    expect(ids(newest.calls)).toEqual(['rare2']);
    expect(ids((await feed.read(narrow, { limit: 2, before: newest.next })).calls)).toEqual(['rare1', 'other1']);
    expect((await feed.read(narrow, { limit: 4 })).next).toBeUndefined();
    const sums = { limit: 1, group_by: ['tenant' as const] };
    await expect(feed.read(narrow, sums)).rejects.toMatchObject({ code: 'PERMISSION_DENIED' });
    const { groups } = await feed.read({ ...narrow, roles: ['admin'] }, { ...sums, tenant_id: 'globex' });
    expect(groups?.rows).toMatchObject([{ tenant_id: 'acme', calls: 705 }]);
    expect(ids(await read(feed, narrow, 10, all[0]!.cursor))).toEqual(['other1', 'rare2']);
    expect(ids(await read(feed, { ...narrow, roles: ['admin'] }, 2))).toEqual(['common701', 'rare3']);
    // Its own calls, and calls of tools that share results.
    const sharing = { ...narrow, tools: ['rare'] };
    expect(ids(await read(feed, sharing, 10))).toEqual(['rare1', 'other1', 'rare2', 'rare3']);
    const key = { ...narrow, userId: 'ann', keyId: 'k1' };
    expect(ids((await feed.read(key, { limit: 500, call_id: 'rare' })).calls)).toEqual(['rare3']);
    expect((await feed.read(key, { limit: 1, user_id: 'ann' })).calls).toEqual([]);
    const news = feed.follow(narrow, { cursor: '0', ends: () => false });
    const seen: string[] = [];
    while (seen.length < 3) {
      const { value } = await news.next();
      if (value !== 'quiet') seen.push(...ids(value as StoredCall[]));
    }
    expect(seen).toEqual(['rare1', 'other1', 'rare2']);
    await news.return(undefined);
  });
});
