import { beforeEach, describe, expect, it } from 'vitest';
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

const APPROVAL = {
  id: '0b7f3c1e-0000-4000-8000-000000000001',
  call_id: '0b7f3c1e-0000-4000-8000-000000000001',
  state: 'pending',
  tool: 'refund',
  decision: {
    questions: ['Refund?'],
    quorum: 1,
    right: 'decide_calls',
    until: '2026-01-31T12:00:00.000Z',
    grant: { for: ['Refunds up to 50 USD'], max_hours: 8, fields: ['amount'] },
  },
  tenant_id: 'acme',
  user_id: 'ann',
  acting_user_id: 'ann',
  entry_point: 'http',
  parked: true,
  max_cost_usd: 0,
  votes: [{ user_id: 'bob', decision: 'approve', at: '2026-01-31T11:00:00.000Z', note: 'fine' }],
  may_decide: true,
};

describe('approvals of calls', () => {
  it('are shown with each label apart from its text, however long it is', async () => {
    routes.set(`GET /api/v1/approvals/${APPROVAL.id}`, () => ({ status: 200, body: APPROVAL }));
    const { out } = await run(['approvals', 'show', APPROVAL.id]);
    expect(out).toContain('can also allow Refunds up to 50 USD (--grant up to 8h, --vary amount)\n');
    expect(out).toContain('made by        acme/ann\n');
    expect(out).toContain('approve        bob 2026-01-31T11:00:00.000Z: fine\n');
  });

  it('are listed to the last page', async () => {
    routes.set('GET /api/v1/me', () => ({ status: 200, body: { rights: [] } }));
    routes.set('GET /api/v1/approvals', ({ path }) => {
      const body = path.includes('cursor=more')
        ? { approvals: [{ ...APPROVAL, tool: 'second' }] }
        : { approvals: [APPROVAL], next: 'more' };
      return { status: 200, body };
    });
    expect((await run(['approvals'])).out).toMatch(/refund[^]*second/);
    const grant = { id: 'g1', tool: 'refund', for: [], state: 'active', until: '2026-01-31T12:00', uses: 0 };
    routes.set('GET /api/v1/approval-grants', ({ path }) => {
      const body = path.includes('cursor=more')
        ? { grants: [{ ...grant, id: 'g2' }] }
        : { grants: [grant], next: 'more' };
      return { status: 200, body };
    });
    expect((await run(['approvals', 'grants'])).out).toMatch(/g1[^]*g2/);
  });
});

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

  describe('the names of tools', () => {
    const added = async (...line: string[]) => {
      if (!routes.has('GET /api/v1/sources')) routes.set('GET /api/v1/sources', () => ({ status: 200, body: [] }));
      for (const kind of ['openapi', 'mcp'])
        routes.set(`POST /api/v1/sources/${kind}`, () => ({ status: 201, body: { message: 'registered' } }));
      expect(await run(['sources', 'add', ...line])).toMatchObject({ code: 0 });
      return seen.at(-1)?.body;
    };
    const PETS = ['openapi', 'pets', 'https://pets.example.com/openapi.json'];
    const isRegistered = (kind: string) =>
      routes.set('GET /api/v1/sources', () => ({
        status: 200,
        body: [{ ...SOURCE, id: `${kind}/pets`, kind, name: 'pets', origin: 'api' }],
      }));

    it('begin with the source, as those of MCP servers do', async () => {
      isRegistered('mcp');
      expect(await added(...PETS)).toMatchObject({ name: 'pets', name_prefix: 'pets_' });
      const long = 'a'.repeat(64);
      expect((await added('openapi', long, PETS[2]!))?.['name_prefix']).toBe(`${'a'.repeat(39)}_`);
    });

    it.each([
      ['--prefix zoo', ['--prefix', 'zoo'], 'zoo_'],
      ['--prefix ""', ['--prefix', ''], ''],
      ['--fields', ['--fields', '{"name_prefix": "p-"}'], 'p-'],
    ])('begin as %s says', async (_what, options, prefix) => {
      isRegistered('mcp');
      expect((await added(...PETS, ...options))?.['name_prefix']).toBe(prefix);
    });

    describe('of a source that is registered again', () => {
      const registration = {
        spec_url: PETS[2],
        name_prefix: 'zoo_',
        auth_type: 'bearer',
        auth_config: { token: '${kept}' },
        extra_headers: { 'X-Team': '${kept}' },
      };
      const sent = () => seen.filter(({ method, path }) => method === 'POST' && !path.includes('preview'));
      beforeEach(() => {
        isRegistered('openapi');
        routes.set('GET /api/v1/sources/openapi/pets', () => ({
          status: 200,
          body: { ...SOURCE, registration, tools: ['zoo_find', 'zoo_list'] },
        }));
        routes.set('POST /api/v1/sources/openapi', ({ body }) => {
          const prefix = String(body?.['name_prefix'] ?? '');
          return { status: 201, body: { message: 'done', operations_registered: [`${prefix}find`, `${prefix}list`] } };
        });
        routes.set('GET /api/v1/tools/zoo_find', () => ({ status: 404 }));
        routes.set('GET /api/v1/toolsets', () => ({ status: 200, body: [{ id: 'care', tenant: null }] }));
        const toolset = { id: 'care', tools: ['zoo_find'], spec: {} };
        routes.set('GET /api/v1/toolsets/care', () => ({ status: 200, body: toolset }));
        const keys = [{ id: 'k1', client: 'keeper', tools: ['zoo_*'], revoked_at: null }];
        routes.set('GET /api/v1/keys', () => ({ status: 200, body: keys }));
      });

      it('stay, and so does all that is not named', async () => {
        const again = [
          'sources',
          'add',
          ...PETS,
          '--fields',
          '{"auth_config": {"token": "new"}}',
          '--header',
          'X-A: b',
        ];
        const { error } = await run(again);
        expect(error).toContain('openapi/pets changes:\n');
        expect(error).toContain('secrets: 2 sent anew');
        expect(error).not.toContain('new"');
        expect(sent()[0]?.body).toEqual({
          ...registration,
          auth_config: { token: 'new' },
          extra_headers: { 'X-Team': '${kept}', 'X-A': 'b' },
          name: 'pets',
          visibility: 'fleet',
        });
      });

      it('change only after a look at who uses them', async () => {
        const renamed = ['sources', 'set', 'pets', '--prefix', 'shop'];
        const refused = await run(renamed);
        expect(refused.code).toBe(1);
        for (const line of [
          'name_prefix: "zoo_" → "shop_"',
          'tool zoo_find → shop_find',
          'toolset care',
          'key k1 of keeper: zoo_*',
          'Nothing was changed',
        ])
          expect(refused.error).toContain(line);
        expect(sent()).toEqual([]);
        expect((await run([...renamed, '--dry-run'])).code).toBe(0);
        expect(sent()).toEqual([]);
        await run([...renamed, '--yes']);
        expect(sent()[0]?.body).toMatchObject({ ...registration, name_prefix: 'shop_' });
      });

      it('start anew with --replace', async () => {
        await run(['sources', 'add', ...PETS, '--replace', '--yes']);
        const fresh = { spec_url: PETS[2], name: 'pets', name_prefix: 'pets_', visibility: 'fleet' };
        expect(sent()[0]?.body).toEqual(fresh);
      });

      it('sets one field, and removes one', async () => {
        await run(['sources', 'set', 'pets', 'auth_config.token=t2', 'refresh_seconds=60', 'extra_headers=']);
        const { extra_headers: _, ...kept } = registration;
        expect(sent()[0]?.body).toEqual({
          ...kept,
          auth_config: { token: 't2' },
          refresh_seconds: 60,
          name: 'pets',
          visibility: 'fleet',
        });
        expect((await run(['sources', 'set', 'pets'])).error).toContain('Name what to set');
      });
    });

    it('of an MCP server begin as --prefix says', async () => {
      expect(await added('mcp', 'crm', 'https://crm.example.com/mcp', '--prefix', 'c')).toMatchObject({ prefix: 'c' });
      expect(await added('mcp', 'crm', 'https://crm.example.com/mcp')).not.toHaveProperty('prefix');
    });
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
