/**
 * Every store and every pool of slots has a row in the account of tenants (`libs/contracts/src/account.ts`), and every row is of a store,
 * a pool or a file that exists. Both are read from the sources.
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  DEFAULT_QUOTAS,
  EPOCH_KEYS,
  POOLS,
  QUOTAS,
  quotaExceeded,
  readQuotas,
  REDIS_KEYS,
  TABLES,
} from '@toolfleet/contracts/account';
import { CATALOGUE } from '@toolfleet/contracts';
import { ROUTES } from '@toolfleet/contracts/resources';
import { describe, expect, it } from 'vitest';
import { keyStarts, KEYS, NOT_KEYS } from './fleet/redis-keys.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const sources = globSync('{apps,libs,libs/kits}/*/src/**/*.ts', { cwd: ROOT })
  .filter((path) => !/\.(?:spec|fixture)\.ts$/.test(path) && !/^(?:libs\/testing|apps\/console)\//.test(path))
  .map((path) => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }));
const found = (pattern: RegExp): string[] => [
  ...new Set(sources.flatMap(({ text }) => [...text.matchAll(pattern)].map(([, name]) => name!))),
];

/** A pool keyed by tenant that is not one of `FairSlots`: it counts bytes, or is a memory of the process that its own limit bounds. */
const OTHER_POOLS: Record<string, string> = {
  'apps/gateway/src/server/memory-account.ts': 'bytes, of which a tenant has a quarter',
  'apps/registry/src/catalog.ts': 'definitions by tenant',
  'apps/budget/src/budget.ts': 'reservations under way, one for each tenant at a time',
  'apps/budget/src/upkeep.ts': 'amounts that are held, for metrics',
  'apps/budget/src/redis-scripts.ts': 'names of keys, up to 10,000 tenants',
  'libs/catalog/src/definition-cache.ts': 'lists, up to a size',
  'libs/catalog/src/search-history.ts': 'up to 500 tenants',
  'libs/engine-adapters/src/leased-budget.ts': 'names of scopes',
  'libs/engine/src/steps/concurrency-limit.ts': 'bytes of expected results, 64 MiB for each tenant',
  'libs/resilience/src/child-pool.ts': 'pauses of tenants, forgotten after a minute',
  'libs/resilience/src/fair-slots.ts': 'the type itself',
  'libs/resilience/src/target-breaker.ts': 'up to 500 tenants',
  'libs/results/src/async-calls.ts': 'turns of readers, 100 of which wait for each tenant',
  'libs/rules/src/rate-limit-test.ts': 'a simulation',
};

describe('the account of a tenant', () => {
  it('has every table', () => {
    expect(found(/\btable\(\s*'(\w+)'/g).toSorted()).toEqual(Object.keys(TABLES).toSorted());
  });

  it('has every kind of Redis key', () => {
    const made = [...sources.flatMap(({ text }) => keyStarts(text)), ...Object.keys(KEYS)];
    const keys = [...new Set(made)].filter((key) => !NOT_KEYS.includes(key) && key !== 'anything');
    const starts = Object.keys(REDIS_KEYS);
    expect(keys.length).toBeGreaterThan(30);
    expect(keys.filter((key) => !starts.some((start) => key.startsWith(start) || start.startsWith(key)))).toEqual([]);
    expect(starts.filter((start) => !keys.some((key) => key.startsWith(start) || start.startsWith(key)))).toEqual([]);
    // Each kind has the epoch of the store.
    const kinds = Object.keys(EPOCH_KEYS).map((key) => key.replace(/epoch\}?$/, ''));
    expect(starts.filter((start) => !kinds.some((kind) => start.startsWith(kind) || kind.startsWith(start)))).toEqual([
      '{store}:',
    ]);
  });

  it('has every pool of slots', () => {
    expect(found(/new FairSlots\(\s*'(\w+)'/g).toSorted()).toEqual(Object.keys(POOLS).toSorted());
    const keyed = sources.filter(({ text }) => /\.set\((?:\w+\.)*(?:tenantId|tenant_id|tenant),/.test(text));
    expect(keyed.map(({ path }) => path).filter((path) => !(path in OTHER_POOLS))).toEqual([
      'apps/records/src/body-store.ts',
    ]);
  });

  it('names the file that enforces each quota', () => {
    for (const [name, entry] of Object.entries(QUOTAS)) {
      const file = entry.in;
      expect(existsSync(join(ROOT, file)), file).toBe(true);
      for (const [route] of ('free' in entry ? entry.free : '').matchAll(/DELETE \/[\w/{}-]+/g))
        expect(Object.keys(ROUTES)).toContain(route);
      if (name in DEFAULT_QUOTAS)
        expect(found(new RegExp(`(?:quotas|QUOTAS|TENANT_QUOTAS\\))\\.(${name})\\b`, 'g')), name).toEqual([name]);
    }
    const bounds = Object.values({ ...TABLES, ...REDIS_KEYS }).flatMap((bound) => (Array.isArray(bound) ? bound : []));
    expect(Object.keys(QUOTAS).filter((name) => !bounds.includes(name) && name !== 'workspace')).toEqual([]);
  });

  it('is changed by one setting, and refuses in one way', () => {
    expect(readQuotas(['webhooks=50'])).toEqual({ ...DEFAULT_QUOTAS, webhooks: 50 });
    expect(() => readQuotas(['webhook=50'])).toThrow("'webhook' is not a quota");
    expect(() => readQuotas(['webhooks=0'])).toThrow('webhooks must be a positive integer');
    const { code, message, details } = quotaExceeded('webhooks', 50);
    expect([code, CATALOGUE[code].http, CATALOGUE[code].retryable, details]).toEqual([
      'QUOTA_EXCEEDED',
      429,
      false,
      { quota: 'webhooks', limit: 50 },
    ]);
    expect(message).toBe('The quota of webhooks is used up: 50 per tenant; remove one: DELETE /api/v1/webhooks/{id}');
  });
});
