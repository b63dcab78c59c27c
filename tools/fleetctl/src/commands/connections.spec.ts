import { describe, expect, it } from 'vitest';
import { routes, run, seen, serveGateway } from '../fleetctl.fixture.js';

serveGateway();

const LIST = [
  { source: 'mcp/crm', mode: 'api_key', connected: false, help: 'https://crm.example.com/keys' },
  { source: 'mcp/mail', mode: 'connect', connected: true, connected_at: '2026-11-24T08:00:00.000Z' },
  { source: 'mcp/tasks', mode: 'exchange', connected: false },
  { source: 'openapi/hr@acme', mode: 'connect', connected: false, reason: 'the token has expired' },
];
const listed = () => routes.set('GET /api/v1/connections', () => ({ status: 200, body: LIST }));

describe('connections', () => {
  it('are listed with their state, of another user for administrators', async () => {
    listed();
    const { out, code } = await run(['connections', '--user', 'ann']);
    expect(code).toBe(0);
    expect(seen.at(-1)?.path).toBe('/api/v1/connections?user_id=ann');
    expect(out).toMatch(/mcp\/crm\s+api_key\s+not connected/);
    expect(out).toMatch(/mcp\/mail\s+connect\s+connected\s+2026-11-24T08:00/);
    expect(out).toMatch(/openapi\/hr@acme\s+connect\s+the token has expired/);
    expect(JSON.parse((await run(['connections', 'list', '--json'])).out)).toEqual(LIST);
  });

  it('take a key from standard input only', async () => {
    listed();
    routes.set('PUT /api/v1/connections/mcp/crm', () => ({ status: 204 }));
    const { code, error } = await run(['connections', 'connect', 'mcp/crm'], { input: ' secret-key\n' });
    expect([code, error]).toEqual([0, expect.stringContaining('Connected: calls of mcp/crm act with your key')]);
    expect(seen.at(-1)?.body).toEqual({ api_key: 'secret-key' });
    expect((await run(['connections', 'connect', 'mcp/crm'], { input: '' })).error).toContain('has no key');
    expect((await run(['connections', 'connect', 'mcp/tasks'])).error).toContain('acts with your sign-in');
  });

  it('sign in in a browser that comes back to a loopback port', async () => {
    listed();
    routes.set('POST /api/v1/connections/openapi/hr/authorize', ({ body }) => {
      const redirect = String(body?.['redirect_uri']);
      expect(redirect).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/connected\/openapi\/hr@acme$/);
      // The browser: other paths of the port are not the answer.
      void fetch(redirect.replace(/\/connected.*/, '/favicon.ico')).then(() => fetch(`${redirect}?code=abc&state=xyz`));
      return { status: 200, body: { authorization_url: 'https://login.example.com/authorize?state=xyz' } };
    });
    routes.set('POST /api/v1/connections/finish', () => ({ status: 200, body: { source: 'openapi/hr@acme' } }));
    const { code, out, error } = await run(['connections', 'connect', 'openapi/hr']);
    expect([code, out]).toEqual([0, 'https://login.example.com/authorize?state=xyz\n']);
    expect(error).toContain('Connected: calls of openapi/hr@acme act as you');
    expect(seen.at(-1)?.body).toEqual({
      redirect: 'code=abc&state=xyz',
      redirect_uri: expect.stringMatching(/\/connected\/openapi\/hr@acme$/) as string,
    });
  });

  it('are revoked, also of another user, and sealed again until nothing is left', async () => {
    routes.set('DELETE /api/v1/connections/mcp/mail', () => ({ status: 204 }));
    expect((await run(['connections', 'revoke', 'mcp/mail', '--user', 'ann'])).code).toBe(0);
    expect(seen.at(-1)?.path).toBe('/api/v1/connections/mcp/mail?user_id=ann');
    let left = 300;
    routes.set('POST /api/v1/connections/reseal', () => {
      left = Math.max(0, left - 200);
      return { status: 200, body: { resealed: 200, left } };
    });
    expect((await run(['connections', 'reseal'])).error).toContain('400 values sealed again, 0 left');
    routes.set('POST /api/v1/connections/reseal', () => ({ status: 200, body: { resealed: 0, left: 7 } }));
    const stuck = await run(['connections', 'reseal']);
    expect([stuck.code, stuck.error]).toEqual([1, expect.stringContaining('7 values stay sealed with other keys')]);
  });

  it.each([
    'connect',
    'revoke',
    'connect crm',
    'revoke queue/x',
    'list mcp/crm',
    'connect mcp/a mcp/b',
    'remove mcp/a',
  ])('%s is a usage error and asks for nothing', async (words) => {
    expect((await run(['connections', ...words.split(' ')])).code).toBe(2);
    expect(seen).toEqual([]);
  });
});
