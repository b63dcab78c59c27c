/** What is learned from a tenant's searches and calls, on a real Redis. */
import type { Principal } from '@toolfleet/contracts';
import { SystemClock } from '@toolfleet/resilience';
import { eventually, startRedis, type RedisServer } from '@toolfleet/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { FinishedCall } from '@toolfleet/contracts/records';
import { RedisSearchHistory } from './redis-search-history.js';
import { lessonsOf, SearchHistory, weigh } from './search-history.js';

const clock = new SystemClock();
let server: RedisServer;
let calls: (FinishedCall & { tenant_id: string })[] = [];
beforeAll(async () => void (server = await startRedis()));
beforeEach(async () => {
  calls = [];
  await server.client().flushall();
});
afterAll(() => server?.stop());

const principal = (tenantId: string, keyId: string): Principal => ({
  tenantId,
  userId: `user of ${keyId}`,
  keyId,
  roles: [],
  tools: ['*'],
  via: 'api_key',
});
const call = (tenantId: string, keyId: string, tool: string, more: Partial<FinishedCall> = {}): FinishedCall =>
  ({
    tenant_id: tenantId,
    user_id: `user of ${keyId}`,
    key_id: keyId,
    tool,
    status: 'success',
    ended_at: Date.now() + 2,
    duration_ms: 1,
    ...more,
  }) as FinishedCall;
const history = () =>
  new SearchHistory({
    store: new RedisSearchHistory(server.client(), 1),
    finishedCalls: async (tenantId) => calls.filter((one) => one.tenant_id === tenantId),
    clock,
    refreshMs: 0,
  });

/** A search, and the call that it led to. */
async function searchAndCall(at: SearchHistory, tenantId: string, keyId: string, task: string, tool: string) {
  const before = await server.client().llen(`lc:s:${tenantId}`);
  at.searched(principal(tenantId, keyId), task, ['other', tool]);
  await eventually('it is kept', async () => (await server.client().llen(`lc:s:${tenantId}`)) !== before);
  calls.push(call(tenantId, keyId, tool));
}

const weightFor = (at: SearchHistory, tenantId: string, keyId: string, task: string, tool: string) =>
  at.called(principal(tenantId, keyId), task).get(tool) ?? 0;

describe('search history', () => {
  it('weighs a caller’s own calls in full, those of others in the tenant at a third, and ignores other tenants', async () => {
    const [one, other] = [history(), history()];
    await searchAndCall(one, 'acme', 'k1', 'bill the customer', 'create_invoice');
    await eventually(
      'another gateway knows',
      () => weightFor(other, 'acme', 'k1', 'bill a customer', 'create_invoice') === 1,
    );
    expect(weightFor(other, 'acme', 'k2', 'bill the customers', 'create_invoice')).toBeCloseTo(1 / 3);
    expect(weightFor(other, 'acme', 'k1', 'bill the customers', 'other')).toBe(0);
    expect(weightFor(other, 'acme', 'k1', 'weather in Oslo', 'create_invoice')).toBe(0);
    for (let round = 0; round < 3; round += 1)
      expect(weightFor(other, 'globex', 'k1', 'bill the customer', 'create_invoice')).toBe(0);
  });

  it('is not flooded by one key', async () => {
    const at = history();
    await searchAndCall(at, 'acme', 'good', 'bill the customer', 'create_invoice');
    await eventually('it is learned', () => weightFor(at, 'acme', 'good', 'bill the customer', 'create_invoice') === 1);
    for (let round = 0; round < 60; round += 1)
      await searchAndCall(at, 'acme', 'bad', `bill the customer ${'abcdefghij'[round % 10]}${round}x`, 'spam');
    await eventually('it is learned', () => weightFor(at, 'acme', 'k3', 'bill the customer', 'spam') > 0);
    expect(weightFor(at, 'acme', 'k3', 'bill the customer', 'spam')).toBeLessThanOrEqual(1 / 3);
    expect(weightFor(at, 'acme', 'k3', 'bill the customer', 'create_invoice')).toBeCloseTo(1 / 3);
    const kept = await new RedisSearchHistory(server.client(), 1).learned('acme');
    expect(kept.get('key:good')).toHaveLength(1);
    expect(kept.get('key:bad')!.length).toBeLessThanOrEqual(50);
  });

  it('keeps no words, keeps them for a time, and keeps a bounded number of searches and callers', async () => {
    const store = new RedisSearchHistory(server.client(), 1);
    const at = history();
    await searchAndCall(at, 'acme', 'k1', 'salary of Ann Smith', 'get_salary');
    await eventually('it is learned', () => weightFor(at, 'acme', 'k1', 'salary of Ann Smith', 'get_salary') === 1);
    const texts = [
      ...(await server.client().lrange('lc:s:acme', 0, -1)),
      ...(await server.client().hvals('lc:h:acme')),
    ];
    expect(texts.join().toLowerCase()).not.toMatch(/salari|ann|smith/);
    for (const key of ['lc:s:acme', 'lc:h:acme']) expect(await server.client().ttl(key)).toBeGreaterThan(0);
    for (let round = 0; round < 250; round += 1)
      await store.addSearch('acme', { at: round, caller: 'key:k', words: [], found: [] });
    expect(await store.searches('acme')).toHaveLength(200);
    for (let round = 0; round < 120; round += 1)
      await store.teach('acme', `key:${round}`, [{ words: ['a'], tool: 'b' }]);
    const callers = await store.learned('acme');
    expect(callers.size).toBe(100);
    expect(callers.has('key:119')).toBe(true);
  });

  it('survives a store that fails', async () => {
    const fails = () => Promise.reject(new Error('down'));
    const broken = new SearchHistory({
      store: { addSearch: fails, learned: fails } as never,
      finishedCalls: fails,
      clock,
    });
    broken.searched(principal('acme', 'k1'), 'bill the customer', ['a']);
    expect(broken.called(principal('acme', 'k1'), 'bill the customer').size).toBe(0);
  });

  it('is counted, then erased, with its tenant or its caller', async () => {
    const at = history();
    for (const key of ['k1', 'k2']) await searchAndCall(at, 'acme', key, 'bill the customer', 'create_invoice');
    await searchAndCall(at, 'globex', 'k1', 'bill the customer', 'create_invoice');
    await eventually('it is learned', async () => {
      weightFor(at, 'acme', 'k1', 'x y', '');
      weightFor(at, 'globex', 'k1', 'x y', '');
      return (await server.client().hlen('lc:h:acme')) === 2 && (await server.client().hlen('lc:h:globex')) === 1;
    });
    expect(await at.erase('acme', undefined, true)).toBe(4);
    expect(await at.erase('acme', ['key:k1', 'user:ann'], false)).toBe(2);
    expect(await at.erase('acme', undefined, false)).toBe(2);
    expect((await server.client().keys('lc:[sh]:acme*')).length).toBe(0);
    expect(await server.client().hlen('lc:h:globex')).toBe(1);
  });
});

describe('lessons', () => {
  const search = (at: number, words: string[], caller = 'key:k') => ({
    at,
    caller,
    words,
    found: ['a', 'b', 'c', 'd'],
  });
  const at = (endedAt: number, tool: string, more = {}) => call('t', 'k', tool, { ended_at: endedAt, ...more });
  const learned = (searches: Parameters<typeof lessonsOf>[0], made: FinishedCall[]) =>
    [...lessonsOf(searches, made)].flatMap(([caller, lessons]) =>
      lessons.map(({ words, tool }) => `${caller} ${words} ${tool}`),
    );

  it('are calls between a search and the next one, of the same caller, that succeeded and were found', () => {
    const searches = [search(100, ['x']), search(200, ['y']), search(150, ['z'], 'key:other')];
    const made = [
      at(90, 'a'), // before
      at(120, 'b', { status: 'tool_error' }),
      at(130, 'unfound'),
      at(140, 'c', { key_id: 'third' }),
      at(190, 'a'),
      at(191, 'a'),
      at(201.5, 'b', { duration_ms: 1 }),
      at(200 + 11 * 60_000, 'c'), // too late
    ];
    expect(learned(searches, made)).toEqual(['key:k x a', 'key:k y b']);
  });

  it('are at most three tools of a search', () => {
    expect(
      learned(
        [search(1, ['x'])],
        ['a', 'b', 'c', 'd'].map((tool) => at(5, tool)),
      ),
    ).toHaveLength(3);
  });

  it('count by similarity', () => {
    const taught = new Map([
      [
        'key:a',
        [
          { words: ['x', 'y'], tool: 'near' },
          { words: ['x', 'p', 'q', 'r'], tool: 'far' },
        ],
      ],
    ]);
    expect([...weigh(taught, 'key:a', ['x', 'y'])]).toEqual([['near', 1]]);
    expect([...weigh(taught, 'key:b', ['x', 'y', 'z'])]).toEqual([['near', 2 / 9]]);
  });
});
