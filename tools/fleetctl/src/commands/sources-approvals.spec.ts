import { describe, expect, it } from 'vitest';
import { routes, run, seen, serveGateway } from '../fleetctl.fixture.js';

serveGateway();

const SOURCE = {
  id: 'mcp/crm',
  kind: 'mcp',
  name: 'crm',
  tenant: null,
  origin: 'config',
  location: null,
  state: 'ok',
  tool_count: 0,
  quarantined: [],
  last_look_at: null,
  last_success_at: null,
  last_error: null,
  next_look_at: null,
};

/** The commands against a whole fleet are in test/e2e/operator-views.spec.ts. */
describe('sources', () => {
  it.each([
    ['sources show'],
    ['sources list crm'],
    ['sources drop crm'],
    ['sources add mcp crm'],
    ['sources add ftp crm https://crm.example.com'],
    ['sources add mcp crm https://crm.example.com --header X-Team'],
    ['sources add mcp crm https://crm.example.com --fields [1]'],
    ['sources add openapi crm ./missing.yaml'],
    ['approvals approve crm_find'],
    ['approvals maybe crm_find'],
  ])('%s is a usage error and asks for nothing', async (line) => {
    expect((await run(line.split(' '))).code).toBe(2);
    expect(seen).toEqual([]);
  });

  it('are named by id where several have the name', async () => {
    const own = { ...SOURCE, id: 'mcp/crm@acme', tenant: 'acme' };
    routes.set('GET /api/v1/sources', () => ({ status: 200, body: [SOURCE, own] }));
    for (const path of ['crm', 'crm%40acme'])
      routes.set(`DELETE /api/v1/sources/mcp/${path}`, () => ({ status: 200, body: { removed: [] } }));
    expect(await run(['sources', 'remove', 'crm'])).toMatchObject({
      code: 2,
      error: expect.stringContaining('mcp/crm, mcp/crm@acme'),
    });
    expect((await run(['sources', 'remove', 'mcp/crm'])).code).toBe(0);
    expect(seen.at(-1)?.path).toBe('/api/v1/sources/mcp/crm?visibility=fleet');
    expect((await run(['sources', 'remove', 'mcp/crm@acme'])).code).toBe(0);
    expect(seen.at(-1)?.path).toBe('/api/v1/sources/mcp/crm%40acme');
    expect((await run(['sources', 'remove', 'crn'])).error).toContain('did you mean');
  });
});
