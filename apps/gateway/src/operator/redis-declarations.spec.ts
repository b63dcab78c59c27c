import { DEFAULT_QUOTAS } from '@toolfleet/contracts/account';
import { startRedis, type RedisServer } from '@toolfleet/testing';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { RedisDeclarations } from './redis-declarations.js';

type Owned = Record<string, string>;

const KEY = '{fleet}:declarations:acme';
let server: RedisServer;
let redis: Redis;
let store: RedisDeclarations;
beforeAll(async () => {
  server = await startRedis();
  redis = server.client();
  store = new RedisDeclarations(redis);
});
afterAll(() => server?.stop());
beforeEach(() => redis.flushall());

const put = (name: string, revision: number, owned: Owned, applying = false, mayChange = (_id: string) => true) =>
  store.put('acme', { name, revision, owned, applying }, mayChange);
const ids = (...names: string[]): Owned => Object.fromEntries(names.map((name) => [`toolsets/${name}`, '']));
/** Ids of almost as many bytes as a declaration may own. */
const large = (prefix: string, bytes = DEFAULT_QUOTAS.declaration_bytes): Owned =>
  Object.fromEntries(
    Array.from({ length: 1_000 }, (_, i) => [`mcp/${prefix}-${i}-`.padEnd(Math.floor(bytes / 1_000) - 6, 'x'), '']),
  );
const ownedBy = async (name: string) => (await store.list('acme')).find((one) => one.name === name)?.owned;
/** Owners by id, from the index. */
const index = () => redis.hgetall(`${KEY}:owners`);

describe('declarations', () => {
  it('own each id once, until they release it', async () => {
    expect(await put('a', 0, ids('x', 'y'))).toMatchObject({ revision: 1, owned: ids('x', 'y'), applying_until: null });
    await expect(put('b', 0, ids('z', 'y'))).rejects.toMatchObject({
      code: 'STATE_CONFLICT',
      message: 'toolsets/y is owned by the declaration a',
    });
    expect(await ownedBy('b')).toBeUndefined();
    await put('b', 0, ids('z'));
    await put('a', 1, ids('x'));
    await put('b', 1, ids('y', 'z'));
    await put('a', 2, {});
    await put('b', 2, ids('x', 'y'));
    expect(await store.list('acme')).toMatchObject([{ name: 'b', revision: 3, owned: ids('x', 'y') }]);
    expect(await index()).toEqual({ 'toolsets/x': 'b', 'toolsets/y': 'b' });
    await store.put('globex', { name: 'a', revision: 0, owned: ids('x'), applying: false }, () => true);
    await put('b', 3, {});
    expect(await redis.exists(KEY, `${KEY}:owners`)).toBe(0);
  });

  it('are changed from the revision that was read, and applied by one client at a time', async () => {
    const { applying_until: until } = await put('a', 0, ids('x'), true);
    expect(Date.parse(until!)).toBeGreaterThan(Date.now() + 9 * 60_000);
    await expect(put('a', 0, ids('x'))).rejects.toMatchObject({ message: 'Declaration a was changed meanwhile' });
    await expect(put('a', 1, ids('x'), true)).rejects.toMatchObject({
      message: 'Declaration a is being applied by another client',
    });
    expect(await put('a', 1, { 'toolsets/x': 'a note' })).toMatchObject({ revision: 2, applying_until: null });
    expect(await put('a', 2, ids('x'), true)).toMatchObject({ revision: 3 });
  });

  it('keep the ids that a caller may not change', async () => {
    await put('a', 0, { 'keys/k': 'n', ...ids('x') });
    const made = await put('a', 1, ids('y'), false, (id) => !id.startsWith('keys/'));
    expect(made.owned).toEqual({ 'keys/k': 'n', ...ids('y') });
    expect(await put('a', 2, {}, false, (id) => !id.startsWith('keys/'))).toMatchObject({ owned: { 'keys/k': 'n' } });
  });

  it('of several at once that claim one id, one wins, and nothing of the others stays', async () => {
    const claims = Array.from({ length: 12 }, (_, i) => put(`d${i}`, 0, ids('shared', `own-${i}`), true));
    const results = await Promise.allSettled(claims);
    const won = results.flatMap(({ status }, i) => (status === 'fulfilled' ? [`d${i}`] : []));
    expect(won).toHaveLength(1);
    expect((await store.list('acme')).map(({ name }) => name)).toEqual(won);
    expect(new Set(Object.values(await index()))).toEqual(new Set(won));
    const again = await Promise.allSettled([1, 2, 3].map((n) => put(won[0]!, 1, ids(`n${n}`))));
    expect(again.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(Object.keys(await index())).toEqual(Object.keys((await ownedBy(won[0]!))!));
  });

  it('are erased with their index', async () => {
    await put('a', 0, ids('x'));
    expect([await store.erase('acme', true), await redis.dbsize()]).toEqual([1, 2]);
    expect([await store.erase('acme', false), await redis.dbsize()]).toEqual([1, 0]);
  });
});

describe('limits of declarations', () => {
  it(`are ${DEFAULT_QUOTAS.declarations} of a tenant; those that exist can be changed`, async () => {
    for (let i = 0; i < DEFAULT_QUOTAS.declarations; i += 1) await put(`d${i}`, 0, ids(`x${i}`));
    const full = { code: 'QUOTA_EXCEEDED', details: { quota: 'declarations', limit: 20 } };
    await expect(put('more', 0, ids('y'))).rejects.toMatchObject(full);
    await put('d3', 1, ids('x3', 'y'));
    await put('d4', 1, {});
    const last = await Promise.allSettled(['e1', 'e2', 'e3'].map((name) => put(name, 0, ids(name), true)));
    expect(last.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(await store.list('acme')).toHaveLength(DEFAULT_QUOTAS.declarations);
  });

  it('are 256 KiB of ids and notes; notes at the end of an apply count no more', async () => {
    const owned = large('a');
    await put('a', 0, owned, true);
    const noted = Object.fromEntries(Object.keys(owned).map((id) => [id, 'a digest of secrets'.padEnd(200, '.')]));
    await put('a', 1, noted);
    await expect(put('a', 2, { ...noted, ...ids('x') })).rejects.toMatchObject({
      code: 'QUOTA_EXCEEDED',
      message: expect.stringMatching(/one declaration is used up: 262144 .*; split it/),
    });
    await expect(put('b', 0, large('b', DEFAULT_QUOTAS.declaration_bytes + 20_000), true)).rejects.toMatchObject({
      code: 'QUOTA_EXCEEDED',
    });
    expect(await ownedBy('a')).toEqual(noted);
    expect(await ownedBy('b')).toBeUndefined();
  });
});

describe('a change of a declaration', () => {
  /** CPU seconds of the thread of Redis that runs commands. */
  const worked = async () =>
    [...(await redis.info('cpu')).matchAll(/^used_cpu_(?:user|sys)_main_thread:(.+)$/gm)]
      .map(([, seconds]) => Number(seconds))
      .reduce((sum, seconds) => sum + seconds);
  /** What ten changes of a large declaration cost Redis. */
  const cost = async (owned: Owned) => {
    const { revision } = (await store.list('acme')).find(({ name }) => name === 'changed')!;
    const before = await worked();
    for (let i = 0; i < 10; i += 1) await put('changed', revision + i, i % 2 === 0 ? { ...owned, ...ids('x') } : owned);
    return (await worked()) - before;
  };

  it('costs Redis as much next to 19 large ones as alone', async () => {
    const owned = large('changed', DEFAULT_QUOTAS.declaration_bytes - 1_000);
    await put('changed', 0, owned);
    const alone = await cost(owned);
    for (let i = 1; i < DEFAULT_QUOTAS.declarations; i += 1) await put(`d${i}`, 0, large(`d${i}`));
    // 13 times as much when each change read all of them.
    expect(await cost(owned)).toBeLessThan(alone * 3);
  });
});
