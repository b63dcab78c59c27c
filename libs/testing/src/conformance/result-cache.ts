import { randomUUID } from 'node:crypto';
import type { ResultCache } from '@toolfleet/engine';
import { describe, expect, test } from 'vitest';
import { outcome } from './journal.js';

/** What every result cache must do. */
export function resultCacheConformance(name: string, make: () => Promise<ResultCache>): void {
  describe(`result cache: ${name}`, () => {
    test('gives back what was stored, with its age', async () => {
      const cache = await make();
      const key = randomUUID();
      expect(await cache.get(key, true)).toBeUndefined();
      const result = outcome({ output: { rows: [1, 2, { ключ: 'значение' }] }, metadata: { source: 'x' } });
      cache.set(key, result, { freshMs: 60_000, staleMs: 120_000, shared: true, tenantId: 'acme' });
      await expect.poll(() => cache.get(key, true)).toMatchObject({ result });
      const found = await cache.get(key, true);
      expect(Math.abs(Date.now() - (found?.storedAt ?? 0))).toBeLessThan(5_000);
    });

    test('a result past its freshness is only there as a stale one, and past that not at all', async () => {
      const cache = await make();
      const [stale, gone] = [randomUUID(), randomUUID()];
      cache.set(stale, outcome(), { freshMs: 40, staleMs: 60_000, shared: true, tenantId: 'acme' });
      await expect.poll(() => cache.getStale(stale)).toMatchObject({ result: outcome() });
      await expect.poll(() => cache.get(stale, true)).toBeUndefined();
      expect(await cache.getStale(stale)).toMatchObject({ result: outcome() });
      cache.set(gone, outcome(), { freshMs: 20, staleMs: 40, shared: true, tenantId: 'acme' });
      await expect.poll(() => cache.getStale(gone)).toBeUndefined();
    });

    test('freshness 0 is for fallback only', async () => {
      const cache = await make();
      const key = randomUUID();
      cache.set(key, outcome(), { freshMs: 0, staleMs: 60_000, shared: true, tenantId: 'acme' });
      await expect.poll(() => cache.getStale(key)).toMatchObject({ result: outcome() });
      expect(await cache.get(key, true)).toBeUndefined();
    });

    test('huge results are not kept', async () => {
      const cache = await make();
      const key = randomUUID();
      cache.set(key, outcome({ output: 'x'.repeat(1024 * 1024) }), {
        freshMs: 60_000,
        staleMs: 60_000,
        shared: true,
        tenantId: 'acme',
      });
      expect(await cache.get(key, true)).toBeUndefined();
    });
  });
}
