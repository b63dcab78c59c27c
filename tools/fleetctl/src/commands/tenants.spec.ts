import { describe, expect, it } from 'vitest';
import { routes, run, seen, serveGateway } from '../fleetctl.fixture.js';

serveGateway();

const tenant = {
  tenant_id: 'acme',
  keys: 2,
  administrators: 1,
  tiers: ['small'],
  last_used_at: null,
  spent_usd: 1.5,
  forecast_usd: 4.5,
};
const budget = {
  ...{ scope: 'tenant/2026-11', subject: 'tenant', period: 'month', limit_usd: 500, spent_usd: 1.5, held_usd: 0 },
  ...{ limit_tokens: null, spent_tokens: 0, held_tokens: 0 },
};

describe('tenants', () => {
  it('are listed, created, shown and limited', async () => {
    routes.set('GET /api/v1/tenants', () => ({ status: 200, body: [tenant] }));
    routes.set('POST /api/v1/tenants', () => ({ status: 201, body: { tenant_id: 'acme', key: {}, token: 'tf_t' } }));
    routes.set('GET /api/v1/tenants/acme', () => ({ status: 200, body: { ...tenant, budgets: [budget] } }));
    routes.set('GET /api/v1/budgets', () => ({ status: 200, body: { tenant_id: 'acme', budgets: [budget] } }));
    routes.set('PUT /api/v1/budgets', () => ({ status: 200, body: budget }));
    expect((await run(['tenants'])).out).toMatch(/acme\s+2\s+1\s+small\s+1.5\s+4.5\s+never/);
    expect((await run(['tenants', 'create', 'acme', '--tier', 'small', '--usd', '500'])).out).toBe('tf_t\n');
    expect(seen.at(-1)?.body).toEqual({ tenant_id: 'acme', tier: 'small', limit_usd: 500 });
    expect((await run(['tenants', 'show', 'acme'])).out).toMatch(/acme\s+2[^]+tenant\/2026-11\s+500\s+1.5/);
    expect((await run(['tenants', 'limits', 'acme'])).out).toMatch(/tenant\/2026-11\s+500/);
    expect(seen.at(-1)?.path).toBe('/api/v1/budgets?tenant_id=acme');
    await run(['tenants', 'limits', 'acme', '--usd', '9', '--period', 'day']);
    expect(seen.at(-1)?.body).toEqual({ subject: 'tenant', tenant_id: 'acme', limit_usd: 9, period: 'day' });
  });

  it('are purged with a confirmation', async () => {
    const purge = {
      id: 'p1',
      state: 'done',
      dry_run: false,
      counts: { keys: 2 },
      remaining: {},
      pseudonym: 'purged-1',
    };
    routes.set('POST /api/v1/purges', () => ({ status: 202, body: purge }));
    routes.set('GET /api/v1/purges/p1', () => ({ status: 200, body: purge }));
    expect((await run(['tenants', 'purge', 'acme'])).error).toContain('--confirm acme');
    expect(seen).toEqual([]);
    expect((await run(['tenants', 'purge', 'acme', '--confirm', 'acme'])).out).toMatch(/keys\s+2/);
    expect(seen.at(-1)?.body).toEqual({ tenant_id: 'acme', dry_run: false, confirm: 'acme' });
    expect((await run(['tenants', 'purge', 'status', 'p1'])).out).toContain('purged-1');
  });

  it.each(['show', 'create', 'purge', 'remove acme', 'show a b', 'list a', 'limits a --usd x'])(
    '%s is a usage error and asks for nothing',
    async (words) => {
      expect((await run(['tenants', ...words.split(' ')])).code).toBe(2);
      expect(seen).toEqual([]);
    },
  );
});
