import { describe, expect, it } from 'vitest';
import { routes, run, seen, serveGateway } from '../fleetctl.fixture.js';

serveGateway();

describe('keys and usage', () => {
  it('lists, creates and revokes keys', async () => {
    const key = {
      id: 'k1',
      tenant_id: 'acme',
      client: 'ci',
      user_id: 'service:ci',
      parent_id: 'k0',
      person: { tenant_id: 'acme', user_id: 'ann', kind: 'creator' },
      created_by: 'ann',
      tools: ['*'],
      roles: [],
      expires_at: null,
      revoked_at: null,
      last_used_at: null,
    };
    routes.set('GET /api/v1/keys', () => ({ status: 200, body: [key] }));
    routes.set('POST /api/v1/keys', () => ({ status: 201, body: { ...key, token: 'tf_dev_token', warnings: [] } }));
    routes.set('DELETE /api/v1/keys/k1', () => ({ status: 204 }));
    expect((await run(['keys'])).out).toMatch(/k1\s+ci\s+acme\s+service:ci\s+ann, k0\s+\*\s+-?\s+valid\s+never/);
    expect((await run(['keys', 'create', 'ci', '--tools', 'calc*, web_*', '--expires', '2d', '--admin'])).out).toBe(
      'tf_dev_token\n',
    );
    expect(seen.at(-1)?.body).toEqual({
      client: 'ci',
      tools: ['calc*', 'web_*'],
      expires_in_seconds: 172_800,
      roles: ['admin'],
    });
    await run(['keys', 'create', 'ci', '--projects', 'shop, blog-*']);
    expect(seen.at(-1)?.body).toEqual({ client: 'ci', projects: ['shop', 'blog-*'] });
    await run(['keys', 'create', 'ci', '--service', 'ci']);
    expect(seen.at(-1)?.body).toEqual({ client: 'ci', service_account: 'ci' });
    await run(['keys', 'create', 'ci', '--user', 'ann']);
    expect(seen.at(-1)?.body).toEqual({ client: 'ci', user_id: 'ann' });
    await run(['keys', 'create', 'ops', '--operator', '--admin']);
    expect(seen.at(-1)?.body).toEqual({ client: 'ops', tenant_id: 'operator', roles: ['admin', 'operator'] });
    expect((await run(['keys', 'revoke', 'k1'])).out).toBe('Revoked k1\n');
    routes.set('DELETE /api/v1/keys/k1', ({ path }) =>
      path.endsWith('?children=true') ? { status: 200, body: { revoked: ['k1', 'k2'] } } : { status: 204 },
    );
    expect((await run(['keys', 'revoke', 'k1', '--children'])).out).toBe('Revoked k1\nRevoked k2\n');
    expect((await run(['keys', 'create', 'ci', '--expires', 'soon'])).code).toBe(2);
  });

  it('ends all access of a user and prints what ended', async () => {
    const client = { id: 'https://agent.example/client.json', name: null };
    const ended = {
      sessions: [
        { id: 's1', client: null },
        { id: 's2', client },
      ],
      keys: [{ id: 'k1', client: 'ci' }],
    };
    routes.set('POST /api/v1/users/revoke', () => ({ status: 200, body: ended }));
    const { out } = await run(['users', 'revoke', 'ann@example.com', '--tenant', 'acme']);
    expect(seen.at(-1)?.body).toEqual({ user_id: 'ann@example.com', tenant_id: 'acme' });
    expect(out).toMatch(/sign-in\s+s1\s+browser\nclient\s+s2\s+https:\/\/agent\S+\nkey\s+k1\s+ci/);
    expect(JSON.parse((await run(['users', 'revoke', 'ann', '--json'])).out)).toEqual(ended);
    routes.set('POST /api/v1/users/revoke', () => ({ status: 200, body: { sessions: [], keys: [] } }));
    expect((await run(['users', 'revoke', 'ann'])).out).toContain('ann had no sign-in');
    for (const words of [['users'], ['users', 'revoke'], ['users', 'remove', 'ann']])
      expect((await run(words)).code).toBe(2);
  });

  it.each([
    [
      'POST /api/v1/keys',
      ['keys', 'create', 'ci'],
      { id: 'k1', client: 'ci', token: 'tf_dev_token', warnings: [] },
      'k1',
    ],
    ['POST /api/v1/tenants', ['tenants', 'create', 'acme'], { key: { id: 'k1' }, token: 'tf_dev_token' }, 'k1'],
    [
      'POST /api/v1/webhooks',
      ['webhooks', 'create', 'https://hooks.example.com/calls'],
      { webhook: { id: 'wh_1' }, secret: 'whsec_1' },
      'wh_1',
    ],
    [
      'POST /api/v1/webhooks/wh_1/rotate',
      ['webhooks', 'rotate', 'wh_1'],
      { webhook: { id: 'wh_1' }, secret: 'whsec_1' },
      'wh_1',
    ],
  ])('%s: the secret is all of standard output, and the id is on standard error or in the JSON', async (...given) => {
    const [route, argv, body, id] = given;
    routes.set(route, () => ({ status: 201, body }));
    const secret = 'token' in body ? body.token : body.secret;
    for (const interactive of [true, false]) {
      const { code, out, error } = await run(argv, { interactive });
      expect([code, out]).toEqual([0, `${secret}\n`]);
      expect(error).toMatch(new RegExp(`\\b${id}\\b.*this is the only time it is shown\n$`));
      const json = await run([...argv, '--json'], { interactive });
      expect([JSON.parse(json.out), json.error]).toEqual([body, '']);
    }
  });

  it('shows usage and budgets', async () => {
    routes.set('GET /api/v1/usage', () => ({
      status: 200,
      body: {
        tenant_id: 'acme',
        rows: [{ day: '2026-11-21', tool_name: 'calculator', calls: 3, tokens: 300, cost_usd: 0.01 }],
      },
    }));
    routes.set('GET /api/v1/budgets', () => ({
      status: 200,
      body: {
        budgets: [
          {
            scope: 'tenant',
            limit_usd: 1,
            spent_usd: 0.01,
            held_usd: 0,
            limit_tokens: null,
            spent_tokens: 0,
            held_tokens: 0,
          },
        ],
      },
    }));
    const { out } = await run(['usage', '--from', '2026-11-01']);
    expect(seen.map((one) => one.path).toSorted()).toEqual([
      '/api/v1/budgets',
      '/api/v1/usage?group_by=day%2Ctool&from=2026-11-01',
    ]);
    expect(out).toMatch(/2026-11-21\s+calculator\s+3\s+300\s+0.01/);
    expect(out).toMatch(/tenant\s+1\s+0.01\s+0\s+none\s+0/);
  });

  it('shows a forecast and bills', async () => {
    routes.set('GET /api/v1/usage/forecast', () => ({
      status: 200,
      body: {
        month: '2026-11',
        ends_at: '2026-12-01T00:00:00.000Z',
        observed_days: 3.5,
        rows: [{ key_id: 'k1', spent_usd: 4, per_day_usd: 1, forecast_usd: 13.5 }],
      },
    }));
    const shown = await run(['usage', 'forecast', '--by', 'key']);
    expect(seen.at(-1)?.path).toBe('/api/v1/usage/forecast?group_by=key');
    expect(shown.out).toMatch(/KEY\s+SPENT USD\s+A DAY\s+END OF 2026-11\nk1\s+4\s+1\s+13.5/);
    expect(shown.error).toContain('3.5 days');
    routes.set('GET /api/v1/billing', ({ path }) =>
      path.includes('format=csv')
        ? { status: 200, body: 'tenant_id,day\r\nacme,2026-11-01\r\n', type: 'text/csv' }
        : {
            status: 200,
            body: {
              from: '2026-11-01',
              to: '2026-11-30',
              micro_usd: 1_500,
              cost_usd: '0.001500',
              rows: [
                {
                  tenant_id: 'acme',
                  day: '2026-11-01',
                  tool_name: 'calculator',
                  calls: 3,
                  tokens: 0,
                  micro_usd: 1_500,
                  cost_usd: '0.001500',
                },
              ],
            },
          },
    );
    const bill = await run(['usage', 'bill', '--from', '2026-11-01', '--to', '2026-11-30']);
    expect(bill.out).toMatch(/acme\s+2026-11-01\s+calculator\s+3\s+0\s+0.001500\n\n0.001500 USD from 2026-11-01/);
    expect((await run(['usage', 'bill', '--format', 'csv'])).out).toBe('tenant_id,day\nacme,2026-11-01\n');
    expect((await run(['usage', 'bill', '--format', 'xml'])).code).toBe(2);
    expect((await run(['usage', 'bills'])).code).toBe(2);
  });

  it('lists, sets and removes budgets', async () => {
    const budget = {
      ...{ scope: 'user/2026-11:ada', subject: 'user', subject_id: 'ada', period: 'month' },
      ...{ limit_usd: 20, spent_usd: 1.5, held_usd: 0, limit_tokens: null, spent_tokens: 0, held_tokens: 0 },
    };
    routes.set('GET /api/v1/budgets', () => ({ status: 200, body: { tenant_id: 'acme', budgets: [budget] } }));
    routes.set('PUT /api/v1/budgets', () => ({ status: 200, body: budget }));
    routes.set('DELETE /api/v1/budgets', () => ({ status: 204 }));
    expect((await run(['budgets', '--tenant', 'acme'])).out).toMatch(/user\/2026-11:ada\s+20\s+1.5\s+0\s+none\s+0/);
    expect(seen.at(-1)?.path).toBe('/api/v1/budgets?tenant_id=acme');
    await run(['budgets', 'set', 'user', 'ada', '--usd', '20']);
    expect(seen.at(-1)?.body).toEqual({ subject: 'user', id: 'ada', limit_usd: 20 });
    await run(['budgets', 'set', 'tenant', 'acme', '--usd', '0.5', '--tokens', '9', '--period', 'day']);
    const both = { limit_usd: 0.5, limit_tokens: 9 };
    expect(seen.at(-1)?.body).toEqual({ subject: 'tenant', tenant_id: 'acme', period: 'day', ...both });
    expect((await run(['budgets', 'remove', 'key', 'k1', '--period', 'total'])).out).toContain('key k1');
    expect(seen.at(-1)?.path).toBe('/api/v1/budgets?subject=key&id=k1&period=total');
    seen.length = 0;
    const wrong = [
      'set user ada',
      'set users ada --usd 1',
      'set user --usd 1',
      'set user ada --usd -1',
      'remove',
      'add',
    ];
    for (const words of [...wrong, 'set user ada --usd 1 --period week'])
      expect((await run(['budgets', ...words.split(' ')])).code, words).toBe(2);
    expect(seen).toEqual([]);
  });
});
