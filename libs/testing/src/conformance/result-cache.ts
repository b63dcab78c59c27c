import { randomUUID } from 'node:crypto';
import type { CacheAges, CacheLookup, CacheScope, ResultCache } from '@toolfleet/engine';
import { describe, expect, test } from 'vitest';
import { outcome } from './journal.js';

/** The scope of a source that only one test uses. */
export function aScope(parts: Partial<CacheScope> = {}): CacheScope {
  return { tenantId: 'acme', source: `openapi ${randomUUID()}`, reach: 'fleet', ...parts };
}

/** Stores a result as a call does: with the version that its lookup found. */
export async function store(
  cache: ResultCache,
  key: string,
  scope: CacheScope,
  ages: Pick<CacheAges, 'freshMs' | 'staleMs'>,
  result = outcome(),
): Promise<void> {
  const { version } = await cache.get(key, scope);
  if (version !== undefined) cache.set(key, result, { ...ages, scope, version });
}

const LONG = { freshMs: 60_000, staleMs: 120_000 };

/** Contract of every result cache. */
export function resultCacheConformance(name: string, make: () => Promise<ResultCache>): void {
  describe.each(['near', 'fleet'] as const)(`result cache: ${name}, %s`, (reach) => {
    const find = async (cache: ResultCache, key: string, scope: CacheScope): Promise<CacheLookup['cached']> =>
      (await cache.get(key, scope)).cached;

    test('gives back what was stored, with its age', async () => {
      const cache = await make();
      const [key, scope] = [randomUUID(), aScope({ reach })];
      expect(await find(cache, key, scope)).toBeUndefined();
      const result = outcome({ output: { rows: [1, 2, { ключ: 'значение' }] }, metadata: { source: 'x' } });
      await store(cache, key, scope, LONG, result);
      await expect.poll(() => find(cache, key, scope)).toMatchObject({ result });
      const found = await find(cache, key, scope);
      expect(Math.abs(Date.now() - (found?.storedAt ?? 0))).toBeLessThan(5_000);
    });

    test('a result past its freshness is only there as a stale one, and past that not at all', async () => {
      const cache = await make();
      const [stale, gone, scope] = [randomUUID(), randomUUID(), aScope({ reach })];
      await store(cache, stale, scope, { freshMs: 40, staleMs: 60_000 });
      await expect.poll(() => cache.getStale(stale, scope)).toMatchObject({ result: outcome() });
      await expect.poll(() => find(cache, stale, scope)).toBeUndefined();
      expect(await cache.getStale(stale, scope)).toMatchObject({ result: outcome() });
      await store(cache, gone, scope, { freshMs: 20, staleMs: 40 });
      await expect.poll(() => cache.getStale(gone, scope)).toBeUndefined();
    });

    test('freshness 0 is for fallback only', async () => {
      const cache = await make();
      const [key, scope] = [randomUUID(), aScope({ reach })];
      await store(cache, key, scope, { freshMs: 0, staleMs: 60_000 });
      await expect.poll(() => cache.getStale(key, scope)).toMatchObject({ result: outcome() });
      expect(await find(cache, key, scope)).toBeUndefined();
    });

    test('huge results are not kept', async () => {
      const cache = await make();
      const [key, scope] = [randomUUID(), aScope({ reach })];
      await store(cache, key, scope, LONG, outcome({ output: 'x'.repeat(1024 * 1024) }));
      expect(await find(cache, key, scope)).toBeUndefined();
    });

    test('a drop ends the results of its tenant and source, fresh and stale, and no others', async () => {
      const cache = await make();
      const [key, scope] = [randomUUID(), aScope({ reach })];
      const others = [aScope({ reach }), { ...scope, tenantId: 'globex' }];
      for (const [index, each] of [scope, ...others].entries()) await store(cache, `${key}${index}`, each, LONG);
      for (const [index, each] of [scope, ...others].entries())
        await expect.poll(() => find(cache, `${key}${index}`, each)).toBeDefined();
      await cache.drop(scope);
      expect(await find(cache, `${key}0`, scope)).toBeUndefined();
      expect(await cache.getStale(`${key}0`, scope)).toBeUndefined();
      for (const [index, each] of others.entries()) expect(await find(cache, `${key}${index + 1}`, each)).toBeDefined();
    });

    test('a result that was read before a drop is not served after it', async () => {
      const cache = await make();
      const [key, scope] = [randomUUID(), aScope({ reach })];
      const { version } = await cache.get(key, scope);
      await cache.drop(scope);
      cache.set(key, outcome({ text: 'old' }), { ...LONG, scope, version: version as string });
      await store(cache, `${key} later`, scope, LONG);
      await expect.poll(() => find(cache, `${key} later`, scope)).toBeDefined();
      expect(await find(cache, key, scope)).toBeUndefined();
      expect(await cache.getStale(key, scope)).toBeUndefined();
      expect((await cache.get(key, scope)).version).not.toBe(version);
    });
  });
}
