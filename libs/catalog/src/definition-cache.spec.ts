import { Clock, type CancelTimer } from '@toolfleet/resilience';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { beforeEach, describe, expect, it } from 'vitest';
import { DefinitionCache } from './definition-cache.js';

class HandClock extends Clock {
  at = 0;
  override now = () => this.at;
  override monotonic = () => this.at;
  override after(): CancelTimer {
    return () => {};
  }
}

const tool = (name: string, revision = '1') => ({ name, revision, available: true }) as RegisteredTool;

describe('DefinitionCache', () => {
  let clock: HandClock;
  let asked: string[];
  let down: boolean;
  let revision: string;
  let cache: DefinitionCache;

  beforeEach(() => {
    clock = new HandClock();
    asked = [];
    down = false;
    revision = '1';
    cache = new DefinitionCache(
      {
        async get(name, tenant) {
          asked.push(`${tenant}/${name}`);
          if (down) throw new Error('registry away');
          return name === 'missing' ? null : tool(name === 'alias' ? 'a' : name, revision);
        },
        async list(tenant) {
          asked.push(`list ${tenant}`);
          if (down) throw new Error('registry away');
          return { tools: [tool('a', revision)], version: Number(revision) };
        },
      },
      clock,
      300_000,
    );
  });

  it('keeps the lists of the tenants that asked last, within a number of tools', async () => {
    const lists = (tenant: string) => Array.from({ length: tenant === 'large' ? 9 : 2 }, (_, at) => tool(`t${at}`));
    const bounded = new DefinitionCache(
      {
        get: async () => null,
        async list(tenant) {
          asked.push(tenant);
          return { tools: lists(tenant), version: 1 };
        },
      },
      clock,
      300_000,
      5,
    );
    for (const tenant of ['a', 'b', 'a', 'c', 'a']) await bounded.list(tenant);
    expect(asked).toEqual(['a', 'b', 'c']);
    await bounded.list('b');
    expect(asked).toEqual(['a', 'b', 'c', 'b']);
    // One that exceeds the bound alone is kept, too.
    for (const tenant of ['large', 'large', 'a']) await bounded.list(tenant);
    expect(asked).toEqual(['a', 'b', 'c', 'b', 'large', 'a']);
  });

  it('reads once for concurrent callers and again after five minutes', async () => {
    await Promise.all([cache.get('a', 't'), cache.get('a', 't')]);
    clock.at = 299_999;
    await cache.get('a', 't');
    expect(asked).toEqual(['t/a']);
    clock.at = 300_000;
    await cache.get('a', 't');
    expect(asked).toEqual(['t/a', 't/a']);
  });

  it('separates requests of a tenant called list from the lists of others', async () => {
    const [list, definition] = await Promise.all([cache.list('a'), cache.get('a', 'list')]);
    expect(list.tools).toEqual([tool('a')]);
    expect(definition).toEqual(tool('a'));
    expect(asked).toEqual(['list a', 'list/a']);
  });

  it('separates tenant and name, whatever characters they contain', async () => {
    await cache.get('b/c', 'a');
    await cache.get('c', 'a/b');
    expect(asked).toEqual(['a/b/c', 'a/b/c']);
    cache.invalidate({ added: [], changed: ['c'], removed: [] });
    await cache.get('b/c', 'a');
    expect(asked).toHaveLength(2);
  });

  it('does not share a request made before a change', async () => {
    const before = Promise.withResolvers<RegisteredTool>();
    const answers = [before.promise, Promise.resolve(tool('a', '2'))];
    const lists = [
      before.promise.then((one) => ({ tools: [one], version: 1 })),
      { tools: [tool('a', '2')], version: 2 },
    ];
    const source = { get: async () => answers.shift() ?? null, list: async () => lists.shift() as never };
    const racing = new DefinitionCache(source, clock, 300_000);
    const early = [racing.get('a', 't'), racing.list('t')] as const;
    racing.invalidate({ added: [], changed: ['a'], removed: [] });
    expect((await racing.get('a', 't'))?.revision).toBe('2');
    expect((await racing.list('t')).version).toBe(2);
    before.resolve(tool('a', '1'));
    expect((await early[0])?.revision).toBe('1');
    await early[1];
    expect((await racing.get('a', 't'))?.revision).toBe('2');
    expect((await racing.list('t')).version).toBe(2);
  });

  it('never lets one tenant see an answer given to another', async () => {
    await cache.get('a', 't1');
    await cache.get('a', 't2');
    expect(asked).toEqual(['t1/a', 't2/a']);
  });

  it('drops a changed tool under its name and its aliases', async () => {
    await cache.get('alias', 't');
    await cache.get('b', 't');
    revision = '2';
    cache.invalidate({ added: [], changed: ['a'], removed: [] });
    expect((await cache.get('alias', 't'))?.revision).toBe('2');
    expect((await cache.get('b', 't'))?.revision).toBe('1');
  });

  it('does not cache the answer to a request made before a change', async () => {
    const first = cache.get('a', 't');
    cache.invalidate({ added: [], changed: ['a'], removed: [] });
    await first;
    await cache.get('a', 't');
    expect(asked).toHaveLength(2);
  });

  it('serves the last list that it returned while the registry is unavailable, though a change overtook that list', async () => {
    await cache.list('t');
    cache.invalidateAll();
    revision = '2';
    const overtaken = cache.list('t');
    cache.invalidateAll();
    expect((await overtaken).version).toBe(2);
    down = true;
    expect(await cache.list('t')).toMatchObject({ stale: true, version: 2 });
  });

  it('serves outdated definitions while the registry is unavailable, without a request per call', async () => {
    await cache.get('a', 't');
    await cache.list('t');
    down = true;
    clock.at = 400_000;
    expect((await cache.get('a', 't'))?.name).toBe('a');
    expect((await cache.get('a', 't'))?.name).toBe('a');
    expect(await cache.list('t')).toMatchObject({ stale: true, version: 1 });
    expect(asked.filter((question) => question === 't/a')).toHaveLength(2);
    await expect(cache.get('never seen', 't')).rejects.toThrow('registry away');
  });

  it('does not cache that a tool is missing', async () => {
    expect(await cache.get('missing', 't')).toBeNull();
    expect(await cache.get('missing', 't')).toBeNull();
    expect(asked).toHaveLength(2);
  });

  it('returns the same array while the version is unchanged', async () => {
    const first = (await cache.list('t')).tools;
    cache.invalidateAll();
    expect((await cache.list('t')).tools).toBe(first);
    revision = '2';
    cache.invalidateAll();
    expect((await cache.list('t')).tools).not.toBe(first);
  });
});
