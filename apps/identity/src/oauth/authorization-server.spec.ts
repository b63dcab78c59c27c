/** OAuth clients against the authorization server, behind a real OpenID provider; the client is the official SDK's. */
import { auth } from '@modelcontextprotocol/client';
import { FakeClock } from '@toolfleet/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { SignInFixture } from '../../spec/sign-in.fixture.js';
import { BrowserDouble } from '../../../../test/doubles/browser-double.js';
import { OAuthClientDouble } from '../../../../test/doubles/oauth-client.js';

const DOCUMENT = 'https://agent.example/client.json';
const CALLBACK = 'http://127.0.0.1:33333/callback';

describe('the authorization server', () => {
  const clock = new FakeClock(Date.now());
  let fixture: SignInFixture;
  let browser: BrowserDouble;
  let client: OAuthClientDouble;
  /** The document of the client, as its host serves it. */
  let document: Record<string, unknown>;

  const startFixture = (clients: { registration?: boolean; documents?: string[] }) =>
    SignInFixture.start(clock, { clients }, async (input, init) => {
      const url = String(input);
      return url.startsWith('https://agent.example/') ? Response.json(document) : fetch(input, init);
    });
  beforeAll(async () => {
    fixture = await startFixture({ registration: true });
  });
  afterAll(() => fixture.stop());
  beforeEach(() => {
    browser = new BrowserDouble();
    client = new OAuthClientDouble();
    fixture.company.user = 'alice';
    document = {
      client_id: DOCUMENT,
      client_name: 'Agent',
      redirect_uris: [CALLBACK],
      token_endpoint_auth_method: 'none',
    };
  });

  const options = (more: object = {}) => ({ serverUrl: `${fixture.origin}/mcp`, ...more });
  /** Sends the user to the consent page. */
  const untilConsent = async (user = browser, app = client, server = fixture) => {
    expect(await auth(app, { serverUrl: `${server.origin}/mcp` })).toBe('REDIRECT');
    return user.open(app.authorizationUrl!.href, { from: 'https://agent.example' });
  };
  const decide = (page: { url: string }, decision: 'allow' | 'deny', from = fixture.origin, user = browser) =>
    user.open(page.url, { method: 'POST', body: `decision=${decision}`, from, stopsAt: /127\.0\.0\.1:33333/ });
  const connect = async (): Promise<URLSearchParams> => {
    const { url } = await decide(await untilConsent(), 'allow');
    const { searchParams } = new URL(url);
    const iss = searchParams.get('iss') ?? undefined;
    expect(await auth(client, options({ authorizationCode: searchParams.get('code')!, iss }))).toBe('AUTHORIZED');
    return searchParams;
  };
  const token = (form: Record<string, string>) =>
    fetch(`${fixture.origin}/oauth/token`, { method: 'POST', body: new URLSearchParams(form) });
  const clientId = () => client.client!.client_id;

  it('connects a client that registers, for the user of the company, after a consent that shows where it leads', async () => {
    const page = await untilConsent();
    expect(page.status).toBe(200);
    expect(page.text).toContain('Agent &#60;b&#62;One');
    expect(page.text).toContain('127.0.0.1:33333');
    expect(page.text).toContain('alice of acme');
    expect(page.headers.get('content-security-policy')).toContain(
      "form-action 'self' http://127.0.0.1:33333; frame-ancestors 'none'",
    );
    const { url } = await decide(page, 'allow');
    const answer = new URL(url).searchParams;
    expect(answer.get('iss')).toBe(fixture.origin);
    expect(answer.get('state')).toBe('a-state-of-the-client');
    expect(await auth(client, options({ authorizationCode: answer.get('code')!, iss: answer.get('iss')! }))).toBe(
      'AUTHORIZED',
    );
    const { session, resource } = await fixture.pages.findClient(client.kept!.access_token);
    expect(session).toMatchObject({ user_id: 'alice', tenant_id: 'acme', roles: ['admin'] });
    expect(resource).toBe('/mcp');
    expect(await fixture.pages.findClient('a'.repeat(43))).toEqual({});
  });

  it('shows a name of hidden characters and line breaks as they are', async () => {
    client = new OAuthClientDouble(DOCUMENT);
    document['client_name'] = `Agent\u202e\u200b\n${'x'.repeat(600)}`;
    const server = await startFixture({});
    try {
      const { text } = await untilConsent(new BrowserDouble(), client, server);
      expect(text).toContain('Agent‹U+202E›‹U+200B›‹U+000A›xxx');
      expect(text).not.toMatch(/[\u202e\u200b]|x{501}/);
    } finally {
      await server.stop();
    }
  });

  it('registers redirects over https and loopback only, and its metadata names only what works', async () => {
    const register = async (uri: string, more: object = {}) =>
      (
        await fetch(`${fixture.origin}/oauth/register`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ client_name: 'A', redirect_uris: [uri], token_endpoint_auth_method: 'none', ...more }),
        })
      ).status;
    for (const uri of ['http://evil.example/cb', 'http://127.0.0.1.evil.example/cb', 'http://10.0.0.1/cb'])
      for (const application_type of ['web', 'native', undefined])
        expect(await register(uri, { application_type }), uri).toBe(400);
    for (const uri of ['https://agent.example/cb', 'http://127.0.0.1:1/cb', 'http://localhost/cb', 'http://[::1]:9/cb'])
      expect(await register(uri), uri).toBe(201);
    expect(await register('com.example.agent:/cb', { application_type: 'native' })).toBe(201);
    for (const uri of ['javascript:alert(1)', 'data:text/html,x', 'file:///x'])
      expect(await register(uri, { application_type: 'native' }), uri).toBe(400);
    const response = await fetch(`${fixture.origin}/.well-known/oauth-authorization-server`);
    const metadata = (await response.json()) as Record<string, unknown>;
    expect(Object.keys(metadata).filter((name) => /dpop|pushed|request_object|mtls|backchannel/i.test(name))).toEqual(
      [],
    );
    const addresses = Object.entries(metadata).filter(([name]) => /_endpoint$|_uri$/.test(name));
    expect(addresses.map(([name]) => name).toSorted()).toEqual([
      'authorization_endpoint',
      'jwks_uri',
      'registration_endpoint',
      'revocation_endpoint',
      'token_endpoint',
    ]);
    const read = new Set(['authorization_endpoint', 'jwks_uri']);
    for (const [name, url] of addresses) {
      expect(String(url), name).toMatch(/\/oauth\//);
      expect((await fetch(String(url), { method: read.has(name) ? 'GET' : 'POST' })).status, name).not.toBe(404);
    }
  });

  it('takes a client id metadata document, and refuses one of another host or address', async () => {
    client = new OAuthClientDouble(DOCUMENT);
    const page = await untilConsent();
    expect(page.text).toContain('https://agent.example/client.json');
    await decide(page, 'allow');
    expect(clientId()).toBe(DOCUMENT);
    document['redirect_uris'] = ['https://evil.example/callback'];
    const other = await startFixture({});
    const strict = await startFixture({ documents: ['*.trusted.example'] });
    try {
      const app = new OAuthClientDouble(DOCUMENT);
      const refused = await untilConsent(new BrowserDouble(), app, other);
      expect(refused).toMatchObject({ status: 400, text: expect.stringContaining('redirect_uri') });
      document['redirect_uris'] = [CALLBACK];
      const foreign = await untilConsent(new BrowserDouble(), new OAuthClientDouble(DOCUMENT), strict);
      expect(foreign).toMatchObject({ status: 400, text: expect.stringContaining('cannot be connected') });
      // Registration is off unless it is switched on.
      expect((await fetch(`${other.origin}/oauth/register`, { method: 'POST' })).status).toBe(404);
    } finally {
      await Promise.all([other.stop(), strict.stop()]);
    }
  });

  it('asks every time, also a user who is signed in, and tells the client of a refusal', async () => {
    await connect();
    const page = await untilConsent(browser, new OAuthClientDouble());
    expect(page.text).toContain('Connect an application?');
    const { url } = await decide(page, 'deny');
    expect(new URL(url).searchParams.get('error')).toBe('access_denied');
  });

  it('takes the answer of its own page only, in the browser that began', async () => {
    const page = await untilConsent();
    expect(await decide(page, 'allow', 'https://evil.example')).toMatchObject({
      status: expect.toSatisfy((status: number) => [401, 403].includes(status)),
    });
    expect((await decide(page, 'allow', fixture.origin, new BrowserDouble())).status).toBe(401);
    expect((await new BrowserDouble().open(page.url)).status).toBe(401);
    // A forged form without the cookies of the interaction, and one with another interaction's.
    const other = new BrowserDouble();
    await untilConsent(other, new OAuthClientDouble());
    expect((await decide(page, 'allow', fixture.origin, other)).status).toBe(401);
    expect((await decide(page, 'allow')).url).toContain('code=');
  });

  it('gives a code once, to the client that asked, with its verifier', async () => {
    const { url } = await decide(await untilConsent(), 'allow');
    const code = new URL(url).searchParams.get('code')!;
    expect(code).toMatch(/^[\w-]{20,}$/);
    const form = { grant_type: 'authorization_code', code, redirect_uri: CALLBACK, client_id: clientId() };
    const bad: Record<string, string>[] = [
      { code_verifier: 'x'.repeat(43) },
      {},
      { code_verifier: client.codeVerifier(), redirect_uri: 'http://127.0.0.1:1/callback' },
    ];
    for (const more of bad) expect((await token({ ...form, ...more })).status).toBe(400);
    const answers = await Promise.all([1, 2, 3].map(() => token({ ...form, code_verifier: client.codeVerifier() })));
    expect(answers.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(1);
    const again = await token({ ...form, code_verifier: client.codeVerifier() });
    expect([again.status, ((await again.json()) as { error: string }).error]).toEqual([400, 'invalid_grant']);
  });

  it('rotates refresh tokens, and ends all of them when an old one is used again', async () => {
    await connect();
    const first = client.kept!;
    expect(await auth(client, options())).toBe('AUTHORIZED');
    const second = client.kept!;
    expect(second.refresh_token).not.toBe(first.refresh_token);
    expect((await fixture.pages.findClient(second.access_token)).session).toBeDefined();
    const form = { grant_type: 'refresh_token', client_id: clientId() };
    expect((await token({ ...form, refresh_token: first.refresh_token! })).status).toBe(400);
    expect((await token({ ...form, refresh_token: second.refresh_token! })).status).toBe(400);
    expect(await fixture.pages.findClient(second.access_token)).toEqual({});
  });

  it('ends what a client has with the session of its user, and its access tokens with their time', async () => {
    await connect();
    const { session } = await fixture.pages.findClient(client.kept!.access_token);
    // New tokens have the time of the machine.
    clock.jumpWall(601_000);
    expect(await fixture.pages.findClient(client.kept!.access_token)).toEqual({});
    clock.jumpWall(-601_000);
    expect(await auth(client, options())).toBe('AUTHORIZED');
    await fixture.sessions.revoke({ tenant_id: 'acme', session_id: session!.session_id }, clock.now());
    expect(await fixture.pages.findClient(client.kept!.access_token)).toEqual({});
    const form = { grant_type: 'refresh_token', client_id: clientId(), refresh_token: client.kept!.refresh_token! };
    expect((await token(form)).status).toBe(400);
  });

  it('gives tokens for endpoints of this fleet only', async () => {
    const resourceOf = async (resource: string) => {
      await auth(client, options());
      const url = client.authorizationUrl!;
      url.searchParams.set('resource', resource);
      return browser.open(url.href, { stopsAt: /127\.0\.0\.1:33333/ });
    };
    expect((await resourceOf('https://evil.example/mcp')).url).toContain('error=invalid_target');
    expect((await resourceOf(`${fixture.origin}/api/v1`)).url).toContain('error=invalid_target');
    const page = await resourceOf(`${fixture.origin}/mcp/t/support`);
    const { url } = await decide(page, 'allow');
    const form = {
      grant_type: 'authorization_code',
      redirect_uri: CALLBACK,
      client_id: clientId(),
      code: new URL(url).searchParams.get('code')!,
    };
    const answer = (await (await token({ ...form, code_verifier: client.codeVerifier() })).json()) as {
      access_token: string;
    };
    expect((await fixture.pages.findClient(answer.access_token)).resource).toBe('/mcp/t/support');
  });

  it('refuses redirects that no client registered, and requests without PKCE', async () => {
    await auth(client, options());
    const asked = (change: (query: URLSearchParams) => void) => {
      const url = new URL(client.authorizationUrl!);
      change(url.searchParams);
      return new BrowserDouble().open(url.href, { stopsAt: /127\.0\.0\.1:33333/ });
    };
    for (const uri of ['https://evil.example/', `${CALLBACK}/more`, 'http://127.0.0.1:33333@evil.example/callback'])
      expect(await asked((query) => query.set('redirect_uri', uri))).toMatchObject({
        status: 400,
        text: expect.stringContaining('redirect_uri'),
      });
    expect((await asked((query) => query.delete('code_challenge'))).url).toContain('error=invalid_request');
    expect((await asked((query) => query.set('code_challenge_method', 'plain'))).url).toContain(
      'error=invalid_request',
    );
  });
});
