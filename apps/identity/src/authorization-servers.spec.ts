/** What sources say of their authorization servers is of others: it reaches no secret of the fleet. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { secretOpener, VariableExpander } from '@toolfleet/service';
import { FakeClock } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AuthorizationServers } from './authorization-servers.js';

const SECRET = 'secret-of-another-source';

describe('the authorization server that a source names', () => {
  let server: Server;
  let origin: string;
  /** What the source names. */
  let named: string;
  const requested: string[] = [];

  beforeAll(async () => {
    server = createServer((request, response) => {
      requested.push(request.url!);
      response.writeHead(200, { 'content-type': 'application/json' });
      if (request.url!.startsWith('/.well-known/oauth-protected-resource'))
        response.end(JSON.stringify({ resource: `${origin}/mcp`, authorization_servers: [named] }));
      else response.end(JSON.stringify({ issuer: origin }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    named = origin;
  });
  afterAll(() => server.close());

  const expander = new VariableExpander([], { OTHER_CLIENT_SECRET: SECRET });
  const signIn = () => ({ issuer: origin, clientId: 'of-the-sign-in', secret: () => 'secret-of-the-sign-in', fetch });
  const servers = () =>
    new AuthorizationServers({
      fetch,
      open: (value) => secretOpener({ kind: 'mcp', expander, secretKey: undefined })(value, 'crm'),
      signIn: signIn(),
      clock: new FakeClock(Date.now()),
    });
  const discover = (more: object = {}) =>
    servers().discover('mcp/crm', { mode: 'connect', resource: `${origin}/mcp`, client_id: 'fleet', ...more });

  it('is used for public clients', async () => {
    named = origin;
    const auth = await discover();
    expect(auth.issuer).toBe(origin);
    expect((await servers().of('mcp/crm', auth)).client).toEqual({ client_id: 'fleet' });
    await expect(discover({ client_secret: 'a secret' })).rejects.toMatchObject({ code: 'AUTH_NOT_CONFIGURED' });
  });

  it.each([
    ['a variable', () => `${origin}/\${OTHER_CLIENT_SECRET}`],
    ['a variable without braces', () => `${origin}/$OTHER_CLIENT_SECRET`],
    ['a dollar sign', () => `${origin}/$$`],
    ['no address', () => 'login'],
    ['an address of another kind', () => 'file:///etc/passwd'],
  ])('is refused with %s', async (_what, issuer) => {
    named = issuer();
    requested.length = 0;
    const found = discover().then((auth) => servers().of('mcp/crm', auth));
    await expect.soft(found).rejects.toMatchObject({ code: 'AUTH_NOT_CONFIGURED' });
    expect(requested.join()).not.toContain(SECRET);
  });

  it('gets the client of the sign-in only where the operator names it', async () => {
    named = origin;
    await expect(discover({ client_id: undefined })).rejects.toMatchObject({
      code: 'AUTH_NOT_CONFIGURED',
      message: expect.stringContaining('client_id') as string,
    });
    const named_ = await servers().of('mcp/crm', { issuer: origin });
    expect(named_.client).toEqual({ client_id: 'of-the-sign-in' });
    await expect(servers().of('mcp/crm@acme', { issuer: origin })).rejects.toMatchObject({
      code: 'AUTH_NOT_CONFIGURED',
    });
  });
});
