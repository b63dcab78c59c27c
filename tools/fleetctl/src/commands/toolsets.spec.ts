import { describe, expect, it } from 'vitest';
import { routes, run, seen, serveGateway } from '../fleetctl.fixture.js';

serveGateway();

const TOOLSET = {
  id: 'support@acme',
  name: 'support',
  tenant: 'acme',
  version: 2,
  origin: 'api',
  created_at: '2026-01-31T09:30:00.000Z',
  created_by: 'acme/ann',
  description: 'Help desk',
  quarantined: [{ name: 'crm_find', reason: 'changed: description', pending_revision: '9f2c1ab04c77e310' }],
};
const DETAIL = { ...TOOLSET, spec: { read_only: true }, notes: ['a note'], tools: ['find'], versions: [TOOLSET] };
const SHARED = { ...TOOLSET, id: 'support', tenant: null };

/** The requests against a whole fleet are in test/e2e/tenancy.spec.ts. */
describe('toolsets', () => {
  it.each([
    ['toolsets show'],
    ['toolsets drop support'],
    ['toolsets rollback support'],
    ['toolsets put support [1]'],
    ['toolsets put support @missing.json'],
  ])('%s is a usage error and sends no request', async (line) => {
    expect((await run(line.split(' '))).code).toBe(2);
    expect(seen).toEqual([]);
  });

  it('are listed, shown with what is hidden, and changed by id', async () => {
    routes.set('GET /api/v1/toolsets', () => ({ status: 200, body: [TOOLSET] }));
    for (const route of ['GET /api/v1/toolsets/support%40acme', 'POST /api/v1/toolsets/support%40acme/rollback'])
      routes.set(route, () => ({ status: 200, body: DETAIL }));
    routes.set('POST /api/v1/toolsets/support%40acme/approve', () => ({ status: 200, body: DETAIL }));
    routes.set('PUT /api/v1/toolsets/support', () => ({ status: 200, body: DETAIL }));
    expect((await run(['toolsets'])).out).toMatch(/support@acme\s+2\s+api\s+1\s+acme\/ann\s+Help desk/);
    const { out } = await run(['toolsets', 'show', 'support', '1']);
    expect(seen.at(-1)?.path).toBe('/api/v1/toolsets/support%40acme?version=1');
    expect(out).toContain('fleetctl toolsets approve support@acme crm_find 9f2c1ab04c77e310');
    expect(out).toContain('a note');
    await run(['toolsets', 'rollback', 'support', '1']);
    expect(seen.at(-1)).toMatchObject({ method: 'POST', body: { version: 1 } });
    await run(['toolsets', 'approve', 'support', 'crm_find', '9f2c1ab04c77e310']);
    expect(seen.at(-1)).toMatchObject({ body: { tool: 'crm_find', pending_revision: '9f2c1ab04c77e310' } });
    expect((await run(['toolsets', 'put', 'support', '{"read_only":true}', '--visibility', 'fleet'])).code).toBe(0);
    expect(seen.at(-1)).toMatchObject({ method: 'PUT', body: { read_only: true } });
    expect(seen.at(-1)?.path).toBe('/api/v1/toolsets/support?visibility=fleet');
    expect(await run(['toolsets', 'rollback', 'support', 'x'])).toMatchObject({ code: 2 });
  });

  it('are named by id where a shared one has the same name', async () => {
    routes.set('GET /api/v1/toolsets', () => ({ status: 200, body: [TOOLSET, SHARED] }));
    routes.set('DELETE /api/v1/toolsets/support', () => ({ status: 200, body: { removed: 'support' } }));
    expect((await run(['toolsets', 'remove', 'support'])).code).toBe(0);
    expect(seen.at(-1)?.path).toBe('/api/v1/toolsets/support?visibility=fleet');
    expect((await run(['toolsets', 'remove', 'suport'])).error).toContain('did you mean');
  });
});
