/**
 * Tools that act as the calling user, behind two executors of each kind: personal keys at an MCP server and at an OpenAPI service, and tokens
 * that live two seconds of an authorization server that rotates refresh tokens and detects reuse.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { SignedTokens } from '@toolfleet/access';
import { issueDelegation } from '@toolfleet/access/signed-tokens';
import { SystemClock } from '@toolfleet/resilience';
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startAccountServer, type AccountServer } from '../fleet/account-server.js';
import { startAuthorizationServer, type AuthorizationServer } from '../../apps/identity/spec/authorization-server.mjs';
import { BrowserDouble } from '../doubles/browser-double.js';
import { callAsTokenUsers } from '../fleet/token-users.js';
import { TestFleet, TOKEN_SECRET, type Answer } from '../fleet/test-fleet.js';

const DISCOVERY_KEY = 'the-key-of-the-source-0123456789';
const ANN = 'key-of-ann-4f1b2c3d4e5f60718293';
const BOB = 'key-of-bob-a0b1c2d3e4f506172839';

const CLIENT_SECRET = 'secret-of-the-fleet';
/** Registered at the authorization server; the browser of the test does not follow it. */
const backTo = (source: string): string => `http://127.0.0.1:33418/connected/${source}`;
const REDIRECT = backTo('mcp/mine');
/** 200 users and five kills. */
const LONG = process.env['USER_TOKENS_LONG'] !== undefined;
/** Address of the gateway as people know it. */
const PUBLIC = 'https://fleet.example.com';
const PAGE = `${PUBLIC}/console/connected/mcp/mine`;

let upstream: AccountServer;
/** Where a source moves to. */
let other: AccountServer;
let login: AuthorizationServer;
let fleet: TestFleet;
/** Keys at the gateway of two users of one tenant. */
let ann: string;
let bob: string;
beforeAll(async () => {
  login = await startAuthorizationServer([REDIRECT, backTo('mcp/discovered'), PAGE, `${PUBLIC}/auth/callback`]);
  upstream = await startAccountServer((token) => login.accountOf(token));
  other = await startAccountServer();
  upstream.authorizationServer = login.issuer;
  upstream.accounts.set(DISCOVERY_KEY, 'the source').set(ANN, 'ann@accounts').set(BOB, 'bob@accounts');
  const user = { mode: 'api_key', help: 'https://accounts.example.com/keys' };
  fleet = await TestFleet.start({
    services: { gateway: 1, registry: 1, budget: 1, records: 1, identity: 1, 'mcp-executor': 2, 'openapi-executor': 2 },
    // Without identity (killed).
    together: ['gateway', 'registry', 'budget', 'records', 'mcp-executor', 'openapi-executor'],
    tools: ['accounts_whoami', 'mine_whoami', 'exchanged_whoami', 'discovered_whoami', 'whoami'],
    config: {
      sign_in: {
        issuer: login.issuer,
        client_id: 'fleet',
        tenant: 'acme',
        scopes: ['offline_access'],
        keep_tokens: true,
      },
      roles: { minter: ['manage_keys', 'mint_for_users'] },
      mcp_servers: {
        accounts: {
          url: `${upstream.origin}/mcp`,
          headers: { Authorization: '${DISCOVERY_KEY}' },
          auth: { user },
          overrides: { whoami: { idempotent: true, cache_ttl_seconds: 300 } },
        },
        mine: {
          url: `${upstream.origin}/mcp`,
          headers: { Authorization: '${DISCOVERY_KEY}' },
          auth: {
            user: {
              mode: 'connect',
              issuer: login.issuer,
              client_id: 'fleet',
              client_secret: '${CLIENT_SECRET}',
              scopes: ['openid', 'offline_access'],
            },
          },
        },
        discovered: {
          url: `${upstream.origin}/mcp`,
          headers: { Authorization: '${DISCOVERY_KEY}' },
          auth: { user: { mode: 'connect', client_id: 'public' } },
        },
        exchanged: {
          url: `${upstream.origin}/mcp`,
          headers: { Authorization: '${DISCOVERY_KEY}' },
          auth: { user: { mode: 'exchange', audience: 'accounts' } },
        },
      },
      openapi_tools: {
        people: { enabled: true, spec_url: `${upstream.origin}/openapi.json`, auth: { user }, cache_ttl_seconds: 300 },
      },
    },
    env: {
      EGRESS_ALLOWED_ENDPOINTS: `${upstream.origin},${other.origin},${login.issuer}`,
      MCP_ALLOWED_DOMAINS: '127.0.0.1',
      MCP_CB_FAILURES: '2',
    },
    envOf: {
      gateway: {
        GATEWAY_PUBLIC_URL: PUBLIC,
        CONSOLE_DIR: fileURLToPath(new URL('../../apps/console/dist/web', import.meta.url)),
      },
      'mcp-executor': { DISCOVERY_KEY },
      identity: { CLIENT_SECRET, OIDC_CLIENT_SECRET: CLIENT_SECRET },
    },
  });
  [ann, bob] = [fleet.keys['acme']!, fleet.adminKey];
});
afterAll(async () => {
  await fleet?.stop();
  await upstream?.stop();
  await other?.stop();
  await login?.stop();
});

const connect = (source: string, api_key: string, key: string): Promise<Answer> =>
  fleet.ask({ method: 'PUT', path: `/api/v1/connections/${source}`, body: { api_key }, key });
const disconnect = (source: string, key: string, query = ''): Promise<Answer> =>
  fleet.ask({ method: 'DELETE', path: `/api/v1/connections/${source}${query}`, key });
const connections = async (key: string, query = '') =>
  (await fleet.ask({ path: `/api/v1/connections${query}`, key })).body as { source: string; connected: boolean }[];

describe.each([
  ['mcp/accounts', 'accounts_whoami', ({ body }: Answer) => body.output as unknown],
  ['openapi/people', 'whoami', ({ body }: Answer) => (body.output as { account: unknown }).account],
])('calls of %s', (source, tool, accountIn) => {
  const call = (key: string, fields: object = {}) => fleet.call(tool, {}, { key, fields });

  it('need a connection of the user, and say how to make one', async () => {
    const before = upstream.served('ann@accounts');
    expect(await call(ann)).toMatchObject({
      status: 403,
      body: {
        code: 'AUTHORIZATION_REQUIRED',
        error: expect.stringContaining(`fleetctl connections connect ${source}`) as string,
        details: { source, url: expect.stringContaining(`${PUBLIC}/console#/connections/`) as string },
      },
    });
    expect(upstream.served('ann@accounts')).toBe(before);
  });

  it('act as their user; nothing is shared, neither by caches nor by single flight', async () => {
    expect(await connect(source, ANN, ann)).toMatchObject({ status: 204 });
    expect(await call(bob)).toMatchObject({ status: 403, body: { code: 'AUTHORIZATION_REQUIRED' } });
    expect(await connect(source, BOB, bob)).toMatchObject({ status: 204 });
    const answers = await Promise.all([ann, bob, ann, bob, ann, bob].map((key) => call(key)));
    expect(answers.map(accountIn)).toEqual([
      'ann@accounts',
      'bob@accounts',
      'ann@accounts',
      'bob@accounts',
      'ann@accounts',
      'bob@accounts',
    ]);
    // A result is not kept while Redis is late.
    const cached = () => call(ann);
    await expect.poll(cached).toMatchObject({ body: { metadata: { provenance: 'cache' } } });
    expect(accountIn(await cached())).toBe('ann@accounts');
  });

  it('never act as a user for a key that someone else made in the name of the user', async () => {
    const mint = async ({ client, ...body }: { client: string; [field: string]: string | string[] }, key: string) => {
      const made = { client: `${client}-${tool}`, ...body };
      return (await fleet.ask({ path: '/api/v1/keys', body: made, key })).body.token as string;
    };
    const minter = await mint({ client: 'minter', tenant_id: 'acme', roles: ['minter'] }, fleet.operatorKey);
    const asAnn = await mint({ client: 'as-ann', user_id: 'app' }, minter);
    const heir = await mint({ client: 'heir' }, asAnn);
    for (const key of [asAnn, heir]) {
      const refusal = {
        code: 'PERMISSION_DENIED',
        error: expect.stringContaining(`created by minter-${tool}`) as string,
      };
      expect(await call(key)).toMatchObject({ status: 403, body: refusal });
      const routes = [
        fleet.ask({ path: '/api/v1/connections', key }),
        connect(source, BOB, key),
        disconnect(source, key, '?user_id=app'),
      ];
      for (const answer of await Promise.all(routes)) expect(answer).toMatchObject({ status: 403, body: refusal });
    }
    // The user makes keys for its agents; a service account has connections of its own.
    const agent = await mint({ client: 'agent' }, ann);
    expect(accountIn(await call(agent))).toBe('ann@accounts');
    const service = await mint({ client: 'bot', service_account: 'bot' }, fleet.adminKey);
    expect(await call(service)).toMatchObject({ status: 403, body: { code: 'AUTHORIZATION_REQUIRED' } });
  });

  it('do not show the credential that the upstream echoes', async () => {
    const { text } = await call(ann, { cache: 'reload' });
    expect(text).not.toContain(ANN);
    expect(text).toContain('ann@accounts');
  });

  it('of another user go on while one user fails: breakers count users', async () => {
    upstream.failWith('ann@accounts', 500);
    for (let times = 0; times < 6; times += 1) await call(ann, { cache: 'no-store' });
    expect(accountIn(await call(bob, { cache: 'no-store' }))).toBe('bob@accounts');
    upstream.failWith('ann@accounts', 0);
  });

  it('end when the upstream refuses the key, which stays', async () => {
    upstream.accounts.delete(BOB);
    expect(await call(bob, { cache: 'reload' })).toMatchObject({
      status: 403,
      body: { code: 'AUTHORIZATION_REQUIRED', error: expect.stringContaining('refused the key') as string },
    });
    upstream.accounts.set(BOB, 'bob@accounts');
    expect(accountIn(await call(bob, { cache: 'reload' }))).toBe('bob@accounts');
  });

  it('end at once when the user or an administrator disconnects; others cannot', async () => {
    const listed = async (key: string, query = '') =>
      (await connections(key, query)).find((one) => one.source === source)?.connected;
    expect([await listed(ann), await listed(bob), await listed(bob, '?user_id=app')]).toEqual([true, true, true]);
    const body = { client: `narrow-${tool}`, tenant_id: 'acme', user_id: 'app', tools: ['calculator'] };
    const made = await fleet.ask({ path: '/api/v1/keys', body, key: fleet.operatorKey });
    expect(made.status, made.text).toBe(201);
    expect(await disconnect(source, made.body.token)).toMatchObject({ status: 404 });
    expect(await disconnect(source, ann, '?user_id=admin')).toMatchObject({ status: 403 });
    expect(await disconnect(source, bob, '?user_id=app')).toMatchObject({ status: 204 });
    await eventually('the gateway and executors forget it', async () => (await call(ann)).status === 403);
    expect(await listed(ann)).toBe(false);
    expect(accountIn(await call(bob))).toBe('bob@accounts');
    expect(await disconnect(source, bob)).toMatchObject({ status: 204 });
    await eventually('the gateway and executors forget it', async () => (await call(bob)).status === 403);
  });
});

describe('a sign-in at an authorization server', () => {
  const begin = async (key: string) => {
    const path = '/api/v1/connections/mcp/mine/authorize';
    return String((await fleet.ask({ path, body: { redirect_uri: REDIRECT }, key })).body.authorization_url);
  };
  const finish = (redirect: string, key: string, redirect_uri = REDIRECT): Promise<Answer> =>
    fleet.ask({ path: '/api/v1/connections/finish', body: { redirect, redirect_uri }, key });
  const call = (key: string) => fleet.call('mine_whoami', {}, { key });

  it('uses PKCE, and goes back to loopback addresses only', async () => {
    const { searchParams } = new URL(await begin(ann));
    expect(searchParams.get('code_challenge_method')).toBe('S256');
    const path = '/api/v1/connections/mcp/mine/authorize';
    for (const redirect_uri of ['https://evil.example.com/connected/mcp/mine', backTo('mcp/discovered')])
      expect(await fleet.ask({ path, body: { redirect_uri }, key: ann })).toMatchObject({ status: 400 });
  });

  it('can be finished by the user that began it only, once, and with the state and issuer that were sent', async () => {
    const redirect = await login.signIn(await begin(ann), 'ann@login');
    expect(await finish(redirect, bob)).toMatchObject({ status: 403, body: { code: 'PERMISSION_DENIED' } });
    expect((await connections(bob)).find(({ source }) => source === 'mcp/mine')?.connected).toBe(false);
    expect(await finish(redirect.replace('state=', 'state=x'), ann)).toMatchObject({ status: 400 });
    expect(await call(ann)).toMatchObject({ status: 403, body: { code: 'AUTHORIZATION_REQUIRED' } });
    expect(await finish(redirect, ann)).toMatchObject({ status: 200, body: { source: 'mcp/mine' } });
    expect(await finish(redirect, ann)).toMatchObject({ status: 400 });
    const mixedUp = (await login.signIn(await begin(bob), 'bob@login')).replace(/iss=[^&]*/, 'iss=https%3A%2F%2Fevil');
    expect(await finish(mixedUp, bob)).toMatchObject({ status: 400 });
    const declined = new URL(await begin(bob)).searchParams.get('state')!;
    expect(
      await finish(`error=access_denied&state=${declined}&iss=${encodeURIComponent(login.issuer)}`, bob),
    ).toMatchObject({
      status: 400,
      body: { error: expect.stringContaining('access_denied') as string },
    });
  });

  it('takes no answer that came to the address of another source, from servers without iss as well', async () => {
    const redirect = await login.signIn(await begin(bob), 'bob@login');
    expect(await finish(redirect, bob, backTo('mcp/discovered'))).toMatchObject({
      status: 400,
      body: { error: expect.stringContaining('belongs to another source') as string },
    });
    expect(await finish(redirect, bob)).toMatchObject({ status: 400 });
    expect((await connections(bob)).find(({ source }) => source === 'mcp/mine')?.connected).toBe(false);
  });

  it('is at the server that the source itself names, for public clients', async () => {
    const path = '/api/v1/connections/mcp/discovered/authorize';
    const redirect_uri = backTo('mcp/discovered');
    const begun = await fleet.ask({ path, body: { redirect_uri }, key: ann });
    const url = String(begun.body.authorization_url);
    expect(new URL(url).searchParams.get('resource')).toBe(`${upstream.origin}/mcp`);
    const redirect = await login.signIn(url, 'ann@discovered');
    expect(await finish(redirect, ann, redirect_uri)).toMatchObject({
      status: 200,
      body: { source: 'mcp/discovered' },
    });
    expect((await fleet.call('discovered_whoami', {}, { key: ann })).body.output).toBe('ann@discovered');
    await eventually('a refresh', async () => {
      expect((await fleet.call('discovered_whoami', {}, { key: ann })).body.output).toBe('ann@discovered');
      return (login.refreshes.get('ann@discovered') ?? 0) > 0;
    });
  });

  it('gives each user tokens that are refreshed once for each expiry, also when identity is killed', async () => {
    const load = LONG
      ? { users: 200, seconds: 60, pauseMs: 2_000, kills: 5 }
      : { users: 5, seconds: 4, pauseMs: 50, kills: 1 };
    const source = 'mcp/mine';
    const found = await callAsTokenUsers({ fleet, login, tool: 'mine_whoami', source, redirectUri: REDIRECT, ...load });
    const refreshes = [...login.refreshes].filter(([user]) => user.startsWith('user'));
    const sum = refreshes.reduce((total, [, count]) => total + count, 0);
    if (LONG)
      if (LONG)
        process.stdout.write(`${JSON.stringify({ ...load, ...found, refreshes: sum, revoked: login.revoked })}\n`);
    expect(found.crossed).toEqual([]);
    expect([login.revoked, login.early]).toEqual([0, 0]);
    expect(refreshes).toHaveLength(load.users);
  }, 600_000);
});

describe('the connect page', () => {
  const put = (api_key: string, key: string, link: string) =>
    fleet.ask({ method: 'PUT', path: '/api/v1/connections/mcp/accounts', body: { api_key, link }, key });
  const isConnected = async (key: string) =>
    (await connections(key)).find(({ source }) => source === 'mcp/accounts')?.connected;
  /** The mark in the link that the refusal of a call has. */
  const linkOf = async (key: string) => {
    const { details } = (await fleet.call('accounts_whoami', {}, { key })).body;
    const { hash } = new URL(String(details.url));
    expect(hash).toMatch(/^#\/connections\/mcp%2Faccounts\?link=[\w-]{40,200}$/);
    return new URLSearchParams(hash.split('?')[1]).get('link')!;
  };

  it('is of the user that the link was made for: for another one, or altered, it stores nothing', async () => {
    const mark = await linkOf(ann);
    const altered = mark.replace(/^./, (first) => (first === 'A' ? 'B' : 'A'));
    for (const [key, link] of [
      [bob, mark],
      [ann, altered],
      [ann, mark.slice(0, -4)],
      [ann, 'x'],
    ] as const)
      expect(await put(BOB, key, link)).toMatchObject({ status: 400, body: { details: { fields: ['link'] } } });
    const path = '/api/v1/connections/mcp/mine/authorize';
    // Made for another source.
    expect(await fleet.ask({ path, body: { redirect_uri: PAGE, link: mark }, key: ann })).toMatchObject({
      status: 400,
    });
    expect([await isConnected(ann), await isConnected(bob)]).toEqual([false, false]);
    expect(await put(ANN, ann, mark)).toMatchObject({ status: 204 });
    expect([await isConnected(ann), await isConnected(bob)]).toEqual([true, false]);
    expect(await disconnect('mcp/accounts', ann)).toMatchObject({ status: 204 });
  });

  it('is the only page of the web that authorization servers send browsers to', async () => {
    const begin = (redirect_uri: string) =>
      fleet.ask({ path: '/api/v1/connections/mcp/mine/authorize', body: { redirect_uri }, key: ann });
    for (const uri of [
      'https://fleet.example.com.evil.example/console/connected/mcp/mine',
      `${PAGE}/../../evil`,
      `${PAGE}?next=https://evil.example`,
      'https://evil.example/console/connected/mcp/mine',
      `${PUBLIC}/console/connected`,
      'javascript:alert(1)',
      'http://127.0.0.1:80@evil.example/connected/mcp/mine',
    ])
      expect(await begin(uri), uri).toMatchObject({ status: 400, body: { details: { fields: ['redirect_uri'] } } });
    const { authorization_url: url } = (await begin(PAGE)).body;
    expect(new URL(String(url)).searchParams.get('redirect_uri')).toBe(PAGE);
    const page = await fleet.ask({ path: '/console/connected/mcp/mine?code=a&state=b', key: null });
    expect(page.headers.get('referrer-policy')).toBe('no-referrer');
    expect(page.text).toContain('<div id="root">');
  });

  describe.each(['auto', 'legacy'] as const)('seen by MCP clients (%s)', (mode) => {
    const open = async (capabilities: object) => {
      const client = new Client({ name: 'e2e', version: '1' }, { versionNegotiation: { mode }, capabilities });
      const requestInit = { headers: { Authorization: `Bearer ${ann}` } };
      await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', fleet.url()), { requestInit }));
      return client;
    };
    const whoami = (client: Client) => client.callTool({ name: 'accounts_whoami', arguments: {} });

    it('is opened for the user, and the call goes on when the account is connected', async () => {
      await eventually('nothing is connected', async () => !(await isConnected(ann)));
      const client = await open({ elicitation: { url: {} } });
      const opened: string[] = [];
      let answer: 'accept' | 'decline' = 'decline';
      client.setRequestHandler('elicitation/create', ({ params }) => {
        const url = 'url' in params ? params.url : '';
        opened.push(url);
        const link = new URLSearchParams(url.split('?')[1]).get('link')!;
        // The user is still signing in when the client goes on.
        if (answer === 'accept') setTimeout(() => void put(ANN, ann, link), 200);
        return { action: answer };
      });
      expect(await whoami(client)).toMatchObject({
        isError: true,
        content: [{ text: expect.stringContaining('you declined to connect it') as string }],
      });
      answer = 'accept';
      expect(await whoami(client)).toMatchObject({ isError: false, content: [{ text: 'ann@accounts' }] });
      expect(opened).toEqual([0, 1].map(() => expect.stringContaining(`${PUBLIC}/console#/connections/`) as string));
      await client.close();
      expect(await disconnect('mcp/accounts', ann)).toMatchObject({ status: 204 });
    });

    it('is in the text for clients that open no pages', async () => {
      const client = await open({});
      await eventually('the gateway forgets the grant', async () => (await whoami(client)).isError === true);
      expect(await whoami(client)).toMatchObject({
        content: [{ text: expect.stringContaining(`${PUBLIC}/console#/connections/mcp%2Faccounts?link=`) as string }],
        _meta: { code: 'AUTHORIZATION_REQUIRED' },
      });
      await client.close();
    });
  });
});

describe('the sign-in of a user', () => {
  const signIn = async (user: string) => {
    login.user = user;
    const browser = new BrowserDouble();
    const callback = /\/auth\/callback/;
    const { url } = await browser.open(`${fleet.url()}/auth/sign-in`, { stopsAt: callback });
    await browser.open(`${fleet.url()}/auth/callback${new URL(url).search}`, { stopsAt: /\/console$/ });
    const cookie = `__Host-toolfleet-session=${browser.cookie(/^__Host-toolfleet-session$/)}`;
    const headers = { cookie, 'x-toolfleet-session': '1', 'sec-fetch-site': 'same-origin' };
    const ask = (path: string, body?: unknown) => fleet.ask({ path, body, key: null, headers });
    return {
      ask,
      call: async () => {
        const { status, body } = await ask('/api/v1/tools/exchanged_whoami/execute', { arguments: {} });
        return `${status} ${body.output ?? body.code}`;
      },
    };
  };

  it('is exchanged for a token of the source, which is replaced when it ends or is refused; keys prove no sign-in', async () => {
    const [ann2, bob2] = [await signIn('ann@sso'), await signIn('bob@sso')];
    expect(await Promise.all([ann2, bob2, ann2, bob2].map(({ call }) => call()))).toEqual([
      '200 ann@sso',
      '200 bob@sso',
      '200 ann@sso',
      '200 bob@sso',
    ]);
    expect(login.exchanges).toHaveLength(2);
    expect(login.exchanges.toSorted()).toEqual(['access_token ann@sso accounts', 'access_token bob@sso accounts']);
    await eventually('a later token', async () => (await ann2.call()) === '200 ann@sso' && login.exchanges.length > 2);
    const refused = await fleet.call('exchanged_whoami', {}, { key: ann });
    expect(refused).toMatchObject({
      status: 403,
      body: { code: 'AUTHORIZATION_REQUIRED', error: expect.stringContaining('proves none') as string },
    });
    expect(refused.body.details).toEqual({ source: 'mcp/exchanged' });
    expect(await connect('mcp/exchanged', ANN, ann)).toMatchObject({ status: 400 });
    await ann2.ask('/api/v1/sign-out', {});
    await eventually('the session has ended', async () => (await ann2.call()) === '401 UNAUTHENTICATED');
    expect(login.revoked).toBe(0);
  });
});

it('refuses a code that was used, also with the state of a new sign-in, and gives nothing to its sender', async () => {
  const begin = async (redirect_uri: string) => {
    const path = '/api/v1/connections/mcp/mine/authorize';
    return String((await fleet.ask({ path, body: { redirect_uri }, key: bob })).body.authorization_url);
  };
  const finish = (redirect: string) =>
    fleet.ask({ path: '/api/v1/connections/finish', body: { redirect, redirect_uri: PAGE }, key: bob });
  const used = await login.signIn(await begin(PAGE), 'bob@login');
  expect(await finish(used)).toMatchObject({ status: 200 });
  const replayed = new URLSearchParams(used);
  replayed.set('state', new URL(await begin(PAGE)).searchParams.get('state')!);
  expect(await finish(replayed.toString())).toMatchObject({ status: 400 });
});

it('refuses keys for sources that take none, or are not there', async () => {
  expect(await connect('mcp/nothing', ANN, ann)).toMatchObject({ status: 404 });
  expect(await connect('mcp/accounts', 'snow\u2603man', ann)).toMatchObject({ status: 400 });
});

it('the token of a call, which tools that call tools have, changes and shows no account and no sign-in', async () => {
  const clock = new SystemClock();
  const key = issueDelegation(new SignedTokens(TOKEN_SECRET, clock), {
    principal: { tenantId: 'acme', userId: 'app', roles: [], tools: ['*'], via: 'api_key' },
    callId: 'a-call',
    spends: { requestId: 'a-request' },
    scopes: ['*'],
    expiresAt: clock.now() + 60_000,
  });
  expect((await fleet.ask({ path: '/api/v1/tools', key })).status).toBe(200);
  const path = '/api/v1/connections/mcp/mine/authorize';
  const refused = await Promise.all([
    connect('mcp/accounts', BOB, key),
    disconnect('mcp/accounts', key),
    fleet.ask({ path, body: { redirect_uri: REDIRECT }, key }),
    fleet.ask({ path: '/api/v1/connections/finish', body: { redirect: 'state=x', redirect_uri: REDIRECT }, key }),
    fleet.ask({ path: '/api/v1/connections', key }),
    fleet.ask({ path: '/api/v1/sessions', key }),
    fleet.ask({ method: 'DELETE', path: '/api/v1/sessions/any', key }),
  ]);
  expect(refused.map(({ body }) => body.code)).toEqual(refused.map(() => 'PERMISSION_DENIED'));
});

it('no credential of a user is in logs, in Redis, or in a database in clear', async () => {
  expect(await connect('mcp/accounts', ANN, ann)).toMatchObject({ status: 204 });
  const redis = fleet.redis.client();
  const contents: string[] = [];
  for (const key of await redis.keys('*')) contents.push(key, (await redis.dumpBuffer(key))?.toString('latin1') ?? '');
  const files = ['identity.db', 'identity.db-wal', 'records.db', 'records.db-wal', 'budget.db', 'budget.db-wal'];
  for (const file of files) contents.push(await readFile(join(fleet.folder, file), 'latin1').catch(() => ''));
  contents.push(fleet.logs());
  expect(contents.join('').length).toBeGreaterThan(10_000);
  expect(login.issued.size).toBeGreaterThan(20);
  for (const secret of [ANN, BOB, ...login.issued])
    for (const form of [secret, Buffer.from(secret).toString('base64').replace(/=+$/, '')])
      expect(contents.filter((text) => text.includes(form))).toEqual([]);
});

it('a source that moves to another server gets no credential that was given for the old one', async () => {
  other.accounts.set(DISCOVERY_KEY, 'the source').set(ANN, 'ann elsewhere');
  const register = async ({ origin }: AccountServer) => {
    const body = {
      name: 'moving',
      url: `${origin}/mcp`,
      headers: { Authorization: '${DISCOVERY_KEY}' },
      visibility: 'fleet',
      auth: { user: { mode: 'api_key' } },
    };
    const registered = await fleet.ask({ path: '/api/v1/sources/mcp', body, key: fleet.operatorKey });
    expect(registered.status, registered.text).toBe(201);
  };
  const call = () => fleet.call('moving_whoami', {}, { key: ann });
  const give = () => connect('mcp/moving', ANN, ann);
  await register(upstream);
  await eventually('the source is there', async () => (await give()).status === 204);
  expect((await call()).body.output).toBe('ann@accounts');
  await register(other);
  await eventually('the source has moved', async () => (await call()).body.code === 'AUTHORIZATION_REQUIRED');
  expect((await call()).body.error).toContain('asks for another authorization');
  expect(other.served('ann elsewhere')).toBe(0);
  expect(await give()).toMatchObject({ status: 204 });
  expect((await call()).body.output).toBe('ann elsewhere');
});

it('a user who disconnects has no token at the authorization server either', async () => {
  const path = '/api/v1/connections/mcp/mine/authorize';
  const begun = await fleet.ask({ path, body: { redirect_uri: REDIRECT }, key: ann });
  const redirect = await login.signIn(String(begun.body.authorization_url), 'ann@revoked');
  const body = { redirect, redirect_uri: REDIRECT };
  expect(await fleet.ask({ path: '/api/v1/connections/finish', body, key: ann })).toMatchObject({ status: 200 });
  const before = login.revoked;
  expect(await disconnect('mcp/mine', ann)).toMatchObject({ status: 204 });
  await eventually('it is revoked', () => login.revoked === before + 1);
});

it('a purge of the user deletes the grants', async () => {
  const connected = async (user: string) =>
    (await connections(fleet.adminKey, `?user_id=${user}`)).filter(({ connected: is }) => is).length;
  const purge = async (user_id: string, dry_run: boolean): Promise<void> => {
    const body = { tenant_id: 'acme', user_id, ...(dry_run ? { dry_run } : { confirm: `acme/${user_id}` }) };
    const begun = await fleet.ask({ path: '/api/v1/purges', body, key: fleet.operatorKey });
    expect(begun.status, begun.text).toBe(202);
    // This fleet has no workspaces, so the step would wait.
    await eventually('the grants are counted', async () => {
      const { body: found } = await fleet.ask({ path: `/api/v1/purges/${begun.body.id}`, key: fleet.operatorKey });
      return found.counts?.grants > 0;
    });
  };
  expect(await connect('mcp/accounts', BOB, bob)).toMatchObject({ status: 204 });
  await purge('admin', true);
  expect(await connected('admin')).toBeGreaterThan(0);
  await purge('app', false);
  expect(await connected('app')).toBe(0);
});
