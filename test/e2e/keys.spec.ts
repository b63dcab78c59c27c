/** Keys, sessions and OAuth clients of a running fleet with two gateways: none outgrows its maker, and each can be revoked, also while Redis is full. */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { auth, Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as OlderClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OlderTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { eventually, freePort } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fleetctl } from '../fleet/fleetctl.js';
import { BrowserDouble } from '../doubles/browser-double.js';
import { OAuthClientDouble } from '../doubles/oauth-client.js';
import { CLIENT_ID, CLIENT_SECRET, OpenIdProvider, type Users } from '../doubles/openid-provider.js';
import { TestFleet, type Answer } from '../fleet/test-fleet.js';

/** People have the 60 requests a minute of the tier `free`. */
const SELDOM = { everyMs: 250 };
const RARELY = { everyMs: 700 };

/** The provider is asked so often about who is signed in. */
const CHECK_MINUTES = 0.1;

/** Claims of a user of the company, with the address as user id here. */
const addressed = (name: string) => ({ email: `${name}@example.com`, email_verified: true });

/** Refunds wait for people. */
const RULES = `package tools
deny contains "never" if input.tool == "none"
refund := object.get(input.arguments, "expression", "") if input.tool == "calculator"
ask contains {"question": "Refund it?", "on_approval": "park", "quorum": 2, "not_requester": true} if refund == "1000000"
ask contains {"question": "Refund it?", "on_approval": "park", "quorum": 2} if refund == "2000000"
ask contains {"question": "Refund it?", "on_approval": "park", "grant": {"max_hours": 1, "for": "Refunds"}} if refund == "3000000"
`;

let fleet: TestFleet;
let company: OpenIdProvider;
let users: Users;
const policies = mkdtempSync(join(tmpdir(), 'toolfleet-policies-'));
beforeAll(async () => {
  writeFileSync(join(policies, 'tools.rego'), RULES);
  users = {
    alice: { ...addressed('alice'), groups: ['platform'] },
    bob: addressed('bob'),
    carol: addressed('carol'),
    dave: addressed('dave'),
    erin: { ...addressed('erin'), groups: ['platform'] },
    // As Cognito and Apple write it.
    mallory: { email: 'alice@example.com', email_verified: 'false', groups: ['platform'] },
    ...Object.fromEntries(['gus', 'hal', 'ivy'].map((name) => [name, { ...addressed(name), groups: ['platform'] }])),
  };
  company = await OpenIdProvider.start(users);
  fleet = await TestFleet.start({
    services: { gateway: 2, registry: 1, budget: 1, records: 1, 'builtin-executor': 1, identity: 1 },
    together: true,
    tools: ['calculator', 'text_process'],
    config: {
      roles: { support: ['all_calls', 'all_tenants'], finance: [], minter: ['manage_keys', 'mint_for_users'] },
      sign_in: {
        issuer: company.issuer,
        client_id: CLIENT_ID,
        name: 'Example Corp',
        scopes: ['email', 'groups'],
        user_claim: 'email',
        tenant: 'acme',
        check_minutes: CHECK_MINUTES,
        roles: { platform: ['admin'] },
        clients: { registration: true },
      },
      // Keys, sessions and OAuth clients present a credential.
      tool_settings: { calculator: { requires_auth: true } },
      toolsets: { 'sums@acme': { include: { tools: ['calculator'] } } },
    },
    envOf: {
      gateway: { POLICY_DIR: policies },
      identity: { OIDC_CLIENT_SECRET: CLIENT_SECRET, EGRESS_ALLOWED_ENDPOINTS: company.issuer },
    },
  });
  await company.serve(fleet.url());
});
afterAll(async () => {
  await fleet?.stop();
  await company?.stop();
  rmSync(policies, { recursive: true });
});

interface MadeKey {
  id: string;
  token: string;
}

let clients = 0;
const create = (body: object, key = fleet.adminKey): Promise<Answer> =>
  fleet.ask({ path: '/api/v1/keys', body: { client: `c${(clients += 1)}`, ...body }, key });

async function make(body: object, key?: string): Promise<MadeKey & Record<string, unknown>> {
  const made = await create(body, key);
  expect(made.status, made.text).toBe(201);
  return made.body;
}

const statusOf = async (key: string, gateway?: number): Promise<number> =>
  (await fleet.ask({ path: '/api/v1/me', key, gateway })).status;

const revoke = (id: string, key = fleet.adminKey, query = ''): Promise<Answer> =>
  fleet.ask({ method: 'DELETE', path: `/api/v1/keys/${id}${query}`, key });

const SESSION = /^__Host-toolfleet-session$/;

const signIn = async (user: string): Promise<BrowserDouble> => {
  company.user = user;
  const browser = new BrowserDouble();
  const { url } = await browser.open(`${fleet.url()}/auth/sign-in`, { stopsAt: /\/auth\/callback/ });
  await browser.open(url, { from: company.issuer, stopsAt: /\/console$/ });
  expect(browser.cookie(SESSION)).toMatch(/^[\w-]{43}$/);
  return browser;
};
/** A request as the console sends it; `headers` replace its own. */
const askAs = (
  browser: BrowserDouble,
  ask: { path: string; body?: unknown; gateway?: number; method?: string },
  headers: Record<string, string> = {},
) => {
  const cookie = `__Host-toolfleet-session=${browser.cookie(SESSION)}`;
  const own = { cookie, 'x-toolfleet-session': '1', 'sec-fetch-site': 'same-origin', ...headers };
  return fleet.ask({
    ...ask,
    key: null,
    headers: Object.fromEntries(Object.entries(own).filter(([, value]) => value !== '')),
  });
};

/** Signs a user in for the client, by the URL of the endpoint alone. */
const connect = async (app: OAuthClientDouble, user: string, path = '/mcp'): Promise<StreamableHTTPClientTransport> => {
  company.user = user;
  const url = new URL(path, fleet.url());
  const transport = new StreamableHTTPClientTransport(url, { authProvider: app });
  await expect(new Client({ name: 'agent', version: '1' }).connect(transport)).rejects.toThrow('Unauthorized');
  const browser = new BrowserDouble();
  const page = await browser.open(app.authorizationUrl!.href, { from: 'https://agent.example' });
  expect(page.text).toContain(`${user}@example.com of acme`);
  const back = await browser.open(page.url, {
    method: 'POST',
    body: 'decision=allow',
    from: fleet.url(),
    stopsAt: /:33333/,
  });
  await transport.finishAuth(new URL(back.url).searchParams);
  return new StreamableHTTPClientTransport(url, { authProvider: app });
};

const listTools = (app: OAuthClientDouble, gateway: number) =>
  fleet.ask({
    path: '/mcp',
    key: app.kept!.access_token,
    gateway,
    body: { jsonrpc: '2.0', id: 1, method: 'tools/list' },
    headers: { accept: 'application/json, text/event-stream' },
  });

describe('a key', () => {
  it('ends with the key that made it', async () => {
    const short = await make({ roles: ['admin'], expires_in_seconds: 60 });
    for (const lifetime of [61, 86_400]) {
      const refused = await create({ expires_in_seconds: lifetime }, short.token);
      expect(refused, refused.text).toMatchObject({
        status: 403,
        body: { details: { fields: ['expires_in_seconds'] } },
      });
    }
    const heir = await make({ roles: ['admin'] }, short.token);
    expect(heir['expires_at']).toBe(short['expires_at']);
    expect(heir['parent_id']).toBe(short.id);
    const operator = await make(
      { roles: ['operator'], tenant_id: 'operator', expires_in_seconds: 60 },
      fleet.operatorKey,
    );
    expect((await make({ tenant_id: 'globex' }, operator.token))['expires_at']).toBe(operator['expires_at']);
  });

  it('has no role and no project that its maker lacks', async () => {
    const refused = await create({ roles: ['finance'] });
    expect(refused, refused.text).toMatchObject({ status: 403, body: { details: { fields: ['roles'] } } });
    const granted = await make({ roles: ['admin', 'finance'], tenant_id: 'acme' }, fleet.operatorKey);
    expect((await make({ roles: ['finance'] }, granted.token))['roles']).toEqual(['finance']);
    for (const projects of [['shop'], ['*']])
      expect((await create({ projects })).body).toMatchObject({ details: { fields: ['projects'] } });
    const wide = await make({ roles: ['admin'], projects: ['*'], tenant_id: 'acme' }, fleet.operatorKey);
    expect((await make({ projects: ['shop'] }, wide.token))['projects']).toEqual(['shop']);
  });

  it('has the rights of its roles, built in and of the configuration file', async () => {
    const rightsOf = async ({ token }: MadeKey) => (await fleet.ask({ path: '/api/v1/me', key: token })).body.rights;
    const approver = await make({ roles: ['approver'] });
    expect(await rightsOf(approver)).toEqual(['approve_tools', 'decide_calls']);
    expect((await fleet.ask({ path: '/api/v1/quarantine', key: approver.token })).status).toBe(200);
    const refused = await fleet.ask({ path: '/api/v1/roles', key: approver.token });
    expect(refused).toMatchObject({ status: 403, body: { details: { role: 'admin', right: 'manage_keys' } } });
    // Neither an administrator nor the name of a role in a tenant gives more.
    for (const roles of [['auditor'], ['support']]) expect((await create({ roles })).status).toBe(403);
    const support = (tenant_id: string) => make({ roles: ['support'], tenant_id }, fleet.operatorKey);
    expect(await rightsOf(await support('acme'))).toEqual(['all_calls']);
    const across = await support('operator');
    expect(await rightsOf(across)).toEqual(['all_calls', 'all_tenants']);
    await fleet.call('calculator', { expression: '2 + 2' }, { key: fleet.adminKey });
    await eventually('a call of another tenant is shown', async () => {
      const { body } = await fleet.ask({ path: '/api/v1/calls?tenant_id=acme&tool=calculator', key: across.token });
      return body.calls.length > 0;
    });
    expect((await fleet.ask({ path: '/api/v1/fleet', key: across.token })).status).toBe(403);
  });

  it('can have the roles that are listed with their rights and groups', async () => {
    const { body } = await fleet.ask({ path: '/api/v1/roles', key: fleet.adminKey });
    expect(body).toEqual(
      expect.arrayContaining([
        { name: 'member', rights: [], declared: 'built_in', groups: [] },
        { name: 'admin', rights: expect.arrayContaining(['manage_keys']), declared: 'built_in', groups: ['platform'] },
        { name: 'support', rights: ['all_calls', 'all_tenants'], declared: 'config', groups: [] },
      ]),
    );
    const other = await make({ roles: ['admin'], tenant_id: 'globex' }, fleet.operatorKey);
    const seen = (await fleet.ask({ path: '/api/v1/roles', key: other.token })).body as { groups: string[] }[];
    expect(seen.flatMap(({ groups }) => groups)).toEqual([]);
    expect((await fleet.ask({ path: '/api/v1/roles', key: fleet.keys['acme']! })).status).toBe(403);
    expect(String((await fleetctl(fleet, ['keys', 'roles'])).out)).toMatch(/admin +platform +all_calls,/);
  });

  it('is bound to exactly the toolset and version of its maker, who cannot change that toolset', async () => {
    const path = '/api/v1/toolsets/sup';
    const body = { include: { tools: ['calculator'] } };
    expect((await fleet.ask({ method: 'PUT', path, body })).status).toBe(200);
    const pinned = await make({ roles: ['admin'], toolset: 'sup@1' });
    const latest = await make({ roles: ['admin'], toolset: 'sup' });
    for (const [maker, toolset] of [
      [pinned, 'sup'],
      [pinned, 'sup@2'],
      [latest, 'sup@1'],
      [latest, 'other'],
    ] as const) {
      const refused = await create({ toolset }, maker.token);
      expect(refused, `${toolset} ${refused.text}`).toMatchObject({
        status: 403,
        body: { details: { fields: ['toolset'] } },
      });
    }
    expect((await make({}, pinned.token))['toolset']).toBe('sup@1');
    expect((await make({ toolset: 'sup@1' }, pinned.token))['toolset']).toBe('sup@1');
    expect((await make({}, latest.token))['toolset']).toBe('sup');
    const every = { include: { tools: ['*'] } };
    for (const { token: key } of [pinned, latest]) {
      for (const ask of [
        { method: 'PUT', path, body: every },
        { method: 'PUT', path: `${path}@acme`, body: every },
        { path: `${path}/rollback`, body: { version: 1 } },
        { path: `${path}/approve`, body: { tool: 'calculator', pending_revision: 'x' } },
        { method: 'DELETE', path },
      ]) {
        const refused = await fleet.ask({ ...ask, key });
        expect(refused, refused.text).toMatchObject({ status: 403, body: { code: 'PERMISSION_DENIED' } });
      }
    }
    // A toolset that the request only uses is not a binding.
    expect((await fleet.ask({ method: 'PUT', path, body, headers: { 'x-toolset': 'sup' } })).status).toBe(200);
    expect((await create({ toolset: 'sup@1' })).status).toBe(201);
  });

  it('is made, listed and revoked by a member, for itself and within its own rights', async () => {
    const [alice, bob] = [await signIn('alice'), await signIn('bob')];
    const mint = (body: object, by: BrowserDouble | string) => {
      const ask = { path: '/api/v1/keys', body: { client: `c${(clients += 1)}`, ...body } };
      return typeof by === 'string' ? fleet.ask({ ...ask, key: by }) : askAs(by, ask);
    };
    const { body: own, text } = await mint({ user_id: 'bob@example.com', tools: ['calc*'] }, bob);
    const person = { tenant_id: 'acme', user_id: 'bob@example.com', kind: 'creator' };
    expect(own, text).toMatchObject({ user_id: 'bob@example.com', is_service_account: false, roles: [], person });
    const agent = await mint({}, own.token);
    expect(agent.body).toMatchObject({ parent_id: own.id, tools: ['calc*'], user_id: 'bob@example.com', person });
    const { body: second } = await mint({}, bob);
    const refused: [object, BrowserDouble | string, string][] = [
      [{ roles: ['admin'] }, bob, 'roles'],
      [{ tools: ['*'] }, own.token, 'tools'],
      [{ tier: 'wide' }, bob, 'tier'],
      [{ projects: ['shop'] }, bob, 'projects'],
      [{ tenant_id: 'globex' }, bob, 'tenant_id'],
      [{ user_id: 'alice@example.com' }, bob, 'user_id'],
      [{ user_id: 'bob@example.com' }, alice, 'user_id'],
      [{ service_account: 'bot' }, bob, 'service_account'],
    ];
    for (const [body, by, field] of refused)
      expect((await mint(body, by)).body).toMatchObject({ code: 'PERMISSION_DENIED', details: { fields: [field] } });
    for (const body of [{ user_id: 'service:bot' }, { user_id: 'nats:acme' }])
      expect((await mint(body, fleet.operatorKey)).body).toMatchObject({ details: { fields: ['user_id'] } });

    const listed = async (by: BrowserDouble | string) => {
      const path = '/api/v1/keys';
      const { body } = typeof by === 'string' ? await fleet.ask({ path, key: by }) : await askAs(by, { path });
      return (body as MadeKey[]).map(({ id }) => id);
    };
    expect(await listed(bob)).toEqual([own.id, agent.body.id, second.id]);
    // A key ends itself and those made with it, and no others of its user.
    expect(await listed(own.token)).toEqual([own.id, agent.body.id]);
    expect(await listed(agent.body.token)).toEqual([agent.body.id]);
    expect(await listed(alice)).toEqual(expect.arrayContaining([own.id, agent.body.id, second.id]));
    const { body: ofAlice } = await mint({}, alice);
    for (const id of [ofAlice.id, second.id]) expect((await revoke(id, own.token)).status).toBe(404);
    const change = { method: 'PUT', path: `/api/v1/keys/${ofAlice.id}`, body: { tools: ['none'] } };
    expect((await askAs(bob, change)).status).toBe(404);
    expect((await fleetctl(fleet, ['keys'], own.token)).out.toString()).toMatch(/ bob@example.com +bob@example.com /);
    expect((await askAs(bob, { method: 'DELETE', path: `/api/v1/keys/${own.id}?children=true` })).body).toEqual({
      revoked: [own.id, agent.body.id],
    });
    await eventually('the key is refused', async () => (await statusOf(agent.body.token)) === 401);
    expect(await statusOf(second.token)).toBe(200);
  });

  it('is one of at most 20 of a user who manages no keys', async () => {
    const first = await make({ tenant_id: 'acme', user_id: 'many', tier: 'wide' }, fleet.operatorKey);
    for (let count = 1; count < 20; count += 1) await make({}, first.token);
    const refused = await create({}, first.token);
    expect(refused, refused.text).toMatchObject({
      status: 400,
      body: { error: expect.stringContaining('20 live keys') },
    });
    expect((await make({ service_account: 'many' }))['is_service_account']).toBe(true);
    expect((await revoke(first.id, first.token, '?children=true')).body.revoked).toHaveLength(20);
  });

  it('loses the rights that the key that made it loses', async () => {
    const maker = await make(
      { roles: ['admin', 'finance'], tools: ['calculator', 'text_*'], tenant_id: 'acme' },
      fleet.operatorKey,
    );
    const agent = await make({ service_account: 'agent', roles: ['finance'] }, maker.token);
    const tool = await make({ roles: ['finance'] }, agent.token);
    const me = async ({ token }: MadeKey) => (await fleet.ask({ path: '/api/v1/me', key: token })).body;
    expect(await me(tool)).toMatchObject({
      user_id: 'service:agent',
      roles: ['finance'],
      tools: ['calculator', 'text_*'],
    });
    const narrowed = { method: 'PUT', path: `/api/v1/keys/${maker.id}`, body: { roles: [], tools: ['calc*'] } };
    expect((await fleet.ask({ ...narrowed, key: fleet.operatorKey })).status).toBe(200);
    for (const key of [agent, tool])
      await eventually(
        'it has less',
        async () => {
          const { roles, tools } = await me(key);
          return roles.length === 0 && tools.join() === 'calculator';
        },
        RARELY,
      );
    expect(
      (await fleet.call('text_process', { text: 'a', operation: 'case', to: 'upper' }, { key: tool.token })).status,
    ).toBe(403);
  });

  it('is made with a warning for tools and a toolset that its tenant does not have', async () => {
    const made = await make({ tools: ['calculater', 'crm_*', 'text_*', '*'], toolset: 'nowhere@2' });
    expect(made['warnings']).toEqual([
      "no tool matches 'calculater'; did you mean calculator?",
      "no tool matches 'crm_*'",
      "No toolset 'nowhere@2'",
    ]);
    expect((await make({ tools: ['calculator'], toolset: 'sup@1' }))['warnings']).toEqual([]);
    const typo = await make({ roles: ['aprover'], tenant_id: 'acme' }, fleet.operatorKey);
    expect(typo['warnings']).toEqual([
      "no role is called 'aprover', only policies can give it rights; did you mean approver?",
    ]);
    const { code, out, error } = await fleetctl(fleet, ['keys', 'create', 'typo', '--tools', 'calculater']);
    expect(code).toBe(0);
    expect(error.split('\n')).toContain("Warning: no tool matches 'calculater'; did you mean calculator?");
    expect(out.toString()).toMatch(/^tf_\S+\n$/);
  });

  it('has a note, which stays when its rights change and is changed by name', async () => {
    const note = 'Answers tickets; ask Ada';
    const made = await fleetctl(fleet, ['keys', 'create', 'noted', '--note', note, '--json']);
    expect([made.code, made.error]).toEqual([0, '']);
    const { id, token } = JSON.parse(String(made.out)) as { id: string; token: string };
    const change = (body: object) => fleet.ask({ method: 'PUT', path: `/api/v1/keys/${id}`, body });
    expect((await change({ tools: ['calculator'] })).body).toMatchObject({ tools: ['calculator'], note });
    expect((await fleetctl(fleet, ['keys'], token)).out.toString()).toContain(note);
    expect((await change({ note: 'Retired' })).body.note).toBe('Retired');
    expect((await create({ note: 'x'.repeat(501) })).body).toMatchObject({ code: 'REQUEST_INVALID' });
    expect((await make({})).note).toBeNull();
  });

  it('is revoked with all keys made with it, and makes none afterwards', async () => {
    const root = await make({ roles: ['admin'] });
    const child = await make({ roles: ['admin'] }, root.token);
    const grandchild = await make({}, child.token);
    const other = await make({});
    const { code, out, error } = await fleetctl(fleet, ['keys', 'revoke', root.id, '--children']);
    expect(code, error).toBe(0);
    for (const { id } of [root, child, grandchild]) expect(out.toString()).toContain(id);
    expect(out.toString()).not.toContain(other.id);
    for (const { token } of [root, child, grandchild])
      await eventually('the key is refused', async () => (await statusOf(token)) === 401);
    expect(await statusOf(other.token)).toBe(200);

    // The other gateway has verified the key a moment ago.
    const leaver = await make({ roles: ['admin'] });
    expect(await statusOf(leaver.token, 1)).toBe(200);
    expect((await revoke(leaver.id)).status).toBe(204);
    const late = await fleet.ask({ path: '/api/v1/keys', body: { client: 'late' }, key: leaver.token, gateway: 1 });
    expect(late.status, late.text).toBe(401);
  });
});

describe('a result in a session', () => {
  it('belongs to the user of its call', async () => {
    const ofUser = (user_id: string) => make({ tenant_id: 'acme', user_id }, fleet.operatorKey);
    const [ann, bob] = await Promise.all([ofUser('ann'), ofUser('bob')]);
    const fields = { max_result_kb: 1, session_id: 's1' };
    const args = { text: 'word '.repeat(2_000), operation: 'case', to: 'upper' };
    const kept = await fleet.call('text_process', args, { fields, key: ann.token });
    const handle = kept.body.metadata.result_handle.handle as string;
    const read = async (key: string) =>
      (await fleet.ask({ path: `/api/v1/results/${handle}?session_id=s1`, key })).status;
    expect(await read(ann.token)).toBe(200);
    expect(await read(bob.token)).toBe(404);
    const overTool = await fleet.call('read_result', { handle }, { fields: { session_id: 's1' }, key: bob.token });
    expect(overTool.body.code ?? overTool.body.metadata.code).toBe('NOT_FOUND');
    // An administrator's key in the name of the user is not the user; one that an operator made is.
    const minter = await make({ tenant_id: 'acme', roles: ['minter'] }, fleet.operatorKey);
    expect(await read((await make({ user_id: 'ann' }, minter.token)).token)).toBe(404);
    expect(await read((await ofUser('ann')).token)).toBe(200);
  });
});

describe('a purge', () => {
  it.each([
    { tenant_id: '*' },
    { tenant_id: 'ac*' },
    { tenant_id: ' ' },
    { tenant_id: 'acme/ann' },
    { tenant_id: '..' },
    { tenant_id: 'acme', user_id: '*' },
    { tenant_id: 'acme', user_id: 'an*' },
    { tenant_id: 'acme', user_id: ' ' },
    { tenant_id: 'acme', user_id: 'a\nb' },
  ])('of %j is refused', async (scope) => {
    const { tenant_id, user_id } = scope as { tenant_id: string; user_id?: string };
    for (const rest of [
      { dry_run: true },
      { confirm: user_id === undefined ? tenant_id : `${tenant_id}/${user_id}` },
    ]) {
      const answer = await fleet.ask({ path: '/api/v1/purges', body: { ...scope, ...rest }, key: fleet.operatorKey });
      expect(answer, answer.text).toMatchObject({ status: 400, body: { code: 'REQUEST_INVALID' } });
    }
  });
});

describe('names of unknown tools and arguments', () => {
  it('are in no log and no record of a call', async () => {
    const secret = `sk-live-${randomUUID().replaceAll('-', '')}`;
    await fleet.call(secret, {});
    await fleet.call('calculator', { expression: '1', [secret]: 1 });
    await fleet.call('text_process', { [secret]: 1, [`${secret}${'x'.repeat(30_000)}`]: { [`in ${secret}`]: secret } });
    await fleet.ask({
      path: '/api/v1/tools/batch-execute',
      body: [{ type: 'tool_use', id: 't', name: secret, input: {} }],
    });
    await fleet.ask({ path: `/api/v1/tools/${secret}` });
    const last = (await fleet.call('calculator', { expression: '41+1' })).body.call_id as string;
    const recent = async () => (await fleet.ask({ path: '/api/v1/calls' })).text;
    await eventually('the last call is recorded', async () => (await recent()).includes(last));
    await eventually('the last call is logged', () => Promise.resolve(fleet.logs().includes(last)));
    expect(fleet.logs()).not.toContain(secret);
    expect(await recent()).not.toContain(secret);
    expect(await recent()).toContain('[unknown]');
  });
});

describe('while Redis is full', () => {
  it('keys are revoked, on every gateway', async () => {
    const [leaked, kept] = await Promise.all([make({ roles: ['admin'] }), make({})]);
    const child = await make({}, leaked.token);
    const client = fleet.redis.client();
    await client.config('SET', 'maxmemory', '1');
    try {
      await expect(client.set('x', 'y')).rejects.toThrow(/OOM/);
      const revoked = await revoke(leaked.id, fleet.adminKey, '?children=true');
      expect(revoked.status, revoked.text).toBe(200);
      for (const gateway of [0, 1])
        for (const { token } of [leaked, child])
          await eventually('the key is refused', async () => (await statusOf(token, gateway)) === 401);
      expect(await statusOf(kept.token)).toBe(200);
    } finally {
      await client.config('SET', 'maxmemory', '0');
    }
    const listed = await fleet.ask({ path: '/api/v1/keys' });
    for (const { id } of [leaked, child])
      expect(listed.body.find((key: MadeKey) => key.id === id)).toMatchObject({ revoked_at: expect.any(String) });
  });
});

describe('while Redis refuses writes', () => {
  it('keys are revoked on every gateway, also on one that starts then, and the revocation is stored later', async () => {
    const [leaked, kept] = await Promise.all([make({ roles: ['admin'] }), make({})]);
    const child = await make({}, leaked.token);
    const client = fleet.redis.client();
    await client.config('SET', 'min-replicas-to-write', '1');
    try {
      await expect(client.set('x', 'y')).rejects.toThrow(/NOREPLICAS/);
      const revoked = await revoke(leaked.id, fleet.adminKey, '?children=true');
      expect(revoked, revoked.text).toMatchObject({ status: 200, body: { revoked: [leaked.id, child.id] } });
      const late = await create({}, leaked.token);
      expect(late.status, late.text).toBe(401);
      const refusedBy = (gateway: number) =>
        eventually('the keys are refused', async () => {
          const statuses = [await statusOf(leaked.token, gateway), await statusOf(child.token, gateway)];
          return statuses.every((status) => status === 401);
        });
      for (const gateway of [0, 1]) await refusedBy(gateway);
      await fleet.kill('gateway', 1);
      await fleet.launch('gateway');
      await refusedBy(1);
      expect(await statusOf(kept.token, 1)).toBe(200);
      expect(await client.hexists('{auth}:revoked', leaked.id)).toBe(0);
    } finally {
      await client.config('SET', 'min-replicas-to-write', '0');
    }
    await eventually('the revocations are stored', async () => {
      const stored = await client.hmget('{auth}:revoked', leaked.id, child.id);
      return stored.every((at) => at !== null);
    });
  });
});

describe('a decision on a call', () => {
  /** The token of a key, or the browser of a signed-in user. */
  type By = string | BrowserDouble;
  const as = (by: By, ask: { path: string; body?: unknown }) =>
    typeof by === 'string' ? fleet.ask({ ...ask, key: by }) : askAs(by, ask);
  const PAIR = '1000000';
  const PAIR_WITH_REQUESTER = '2000000';
  const ONE = '3000000';
  const ask = async (by: By, expression = PAIR): Promise<string> => {
    const parked = await as(by, { path: '/api/v1/tools/calculator/execute', body: { arguments: { expression } } });
    expect(parked, parked.text).toMatchObject({ status: 202, body: { status: 'awaiting_approval' } });
    return parked.body.call_id;
  };
  const approve = (id: string, by: By, grant?: object) =>
    as(by, { path: `/api/v1/approvals/${id}/approve`, body: { grant } });
  const approved = async (id: string, by: By) => {
    const { status, text, body } = await approve(id, by);
    expect(status, text).toBe(200);
    return body as { state: string; votes: { user_id: string; person: { user_id: string; kind: string } }[] };
  };
  const refused = async (id: string, by: By): Promise<string> => {
    const { status, text, body } = await approve(id, by);
    expect([status, body?.code], text).toEqual([403, 'PERMISSION_DENIED']);
    return body.error;
  };
  const runs = (id: string) =>
    eventually('it ran', async () => {
      const { body } = await fleet.ask({ path: `/api/v1/calls/${id}` });
      return body.status === 'succeeded';
    });
  const stateOf = async (id: string) => (await fleet.ask({ path: `/api/v1/approvals/${id}` })).body.state;
  /** A key that an operator made for a user. */
  const given = (user_id: string, roles: string[]) => make({ tenant_id: 'acme', user_id, roles }, fleet.operatorKey);
  /** A key that an administrator made for a service account. */
  const minted = (service_account: string, roles: string[], by: string) => make({ service_account, roles }, by);

  it('counts as one of the administrator whose keys give it, through all generations', async () => {
    const boss = await given('boss', ['admin']);
    const nell = await minted('nell', ['approver', 'admin'], boss.token);
    const olga = await minted('olga', ['approver', 'admin'], boss.token);
    const pat = await minted('pat', ['approver'], olga.token);
    expect(pat).toMatchObject({
      user_id: 'service:pat',
      is_service_account: true,
      person: { tenant_id: 'acme', user_id: 'boss', kind: 'creator' },
    });
    const own = await ask(boss.token);
    const ofBot = await ask((await minted('bot', [], boss.token)).token);
    for (const id of [own, ofBot])
      for (const { token } of [nell, olga, pat, boss])
        expect(await refused(id, token)).toMatch(/boss(, who)? made this call; another person has to decide/);

    const other = await ask((await given('frank', [])).token);
    const vote = { person: { user_id: 'boss' } };
    for (const { token } of [boss, nell, nell, pat])
      expect(await approved(other, token)).toMatchObject({ state: 'pending', votes: [vote] });
    // Neither other rights nor the end of its parent make a key another person's.
    const changed = await fleet.ask({
      ...{ method: 'PUT', path: `/api/v1/keys/${pat.id}`, body: { roles: ['approver', 'admin'] } },
      key: fleet.operatorKey,
    });
    expect(changed.body, changed.text).toMatchObject({ roles: ['approver', 'admin'], person: { user_id: 'boss' } });
    const purge = { tenant_id: 'acme', user_id: 'service:olga', confirm: 'acme/service:olga' };
    expect((await fleet.ask({ path: '/api/v1/purges', body: purge })).status).toBe(202);
    await eventually('the key of olga is erased', async () => {
      const { body } = await fleet.ask({ path: '/api/v1/keys' });
      return !body.some(({ id }: MadeKey) => id === olga.id);
    });
    expect(await approved(other, pat.token)).toMatchObject({ state: 'pending', votes: [vote] });
    expect(await refused(own, pat.token)).toContain('Keys that boss created count as boss');
    expect([await stateOf(own), await stateOf(ofBot)]).toEqual(['pending', 'pending']);

    const gina = await given('gina', ['approver']);
    expect(await approved(other, gina.token)).toMatchObject({ state: 'approved' });
    await runs(other);
    expect(await approved(other, gina.token)).toMatchObject({ votes: [vote, { person: { user_id: 'gina' } }] });
  });

  it('is one of a signed-in user, who makes no keys of others, and whose services count as the user', async () => {
    const [alice, erin] = [await signIn('alice'), await signIn('erin')];
    const body = { client: 'deputy', roles: ['approver'] };
    const named = { path: '/api/v1/keys', body: { ...body, user_id: 'erin@example.com' } };
    expect((await askAs(alice, named)).body).toMatchObject({
      code: 'PERMISSION_DENIED',
      error: expect.stringMatching(/mint_for_users\. erin@example\.com signs in .* name a service_account/),
    });
    const deputy = await askAs(alice, { path: '/api/v1/keys', body: { ...body, service_account: 'deputy' } });
    const id = await ask((await given('frank', [])).token);
    const ofAlice = [{ person: { user_id: 'alice@example.com' } }];
    const [byKey] = (await approved(id, deputy.body.token)).votes;
    const credential = { via: 'api_key', key_id: deputy.body.id, user_id: 'service:deputy' };
    expect(byKey).toMatchObject({ ...ofAlice[0], ...credential });
    const { votes } = await approved(id, alice);
    expect(votes).toMatchObject([{ ...ofAlice[0], via: 'session', session_id: expect.any(String) }]);
    expect(await approved(id, erin)).toMatchObject({ state: 'approved' });
    await runs(id);

    const own = await ask(alice);
    expect(await refused(own, deputy.body.token)).toContain(
      'Keys that alice@example.com created count as alice@example.com',
    );
    expect(await refused(own, alice)).toContain('alice@example.com made this call');
    expect(await approved(own, erin)).toMatchObject({ state: 'pending' });
    expect(await approved(own, (await given('gina', ['approver'])).token)).toMatchObject({ state: 'approved' });
    await runs(own);
  });

  it('is one of the person that made the call in person only, where the rule allows it', async () => {
    const [one, two] = [await given('hugo', ['admin']), await given('hugo', ['approver'])];
    const own = await make({ roles: ['approver'] }, one.token);
    const id = await ask(one.token, PAIR_WITH_REQUESTER);
    for (const { token } of [one, own])
      expect(await refused(id, token)).toContain('hugo made this call; sign in, or use another key');
    expect(await approved(id, two.token)).toMatchObject({ state: 'pending', votes: [{ person: { user_id: 'hugo' } }] });
    // The key of an agent could make keys when it meets the question.
    const kim = await given('kim', ['approver']);
    const late = await make({ roles: ['approver'] }, kim.token);
    expect(late).toMatchObject({ user_id: 'kim', person: { user_id: 'kim', kind: 'creator' } });
    expect(await refused(id, late.token)).toContain('created after the question was asked');
    const later = await ask(one.token);
    expect(await approved(later, late.token)).toMatchObject({ votes: [{ person: { user_id: 'kim' } }] });
    // An operator decides as itself, by whichever of its keys.
    expect(await approved(id, fleet.operatorKey)).toMatchObject({ state: 'approved' });
    await runs(id);

    const alice = await signIn('alice');
    const agent = await askAs(alice, { path: '/api/v1/keys', body: { client: 'agent', service_account: 'agent' } });
    const ofAgent = await ask(agent.body.token, ONE);
    const granted = await askAs(alice, { path: `/api/v1/approvals/${ofAgent}/approve`, body: { grant: { hours: 1 } } });
    expect(granted.body, granted.text).toMatchObject({ state: 'approved', grant_id: expect.any(String) });
    await runs(ofAgent);
    expect((await fleet.call('calculator', { expression: ONE }, { key: agent.body.token })).status).toBe(200);
  });

  it('gives no grant of another person to the one that gave it', async () => {
    const [ivan, jane] = [await given('ivan', []), await given('jane', ['admin', 'minter'])];
    const id = await ask(ivan.token, ONE);
    expect((await approve(id, jane.token, { hours: 1 })).body).toMatchObject({ grant_id: expect.any(String) });
    await runs(id);
    const call = (key: string) => fleet.call('calculator', { expression: ONE }, { key });
    expect((await call(ivan.token)).status).toBe(200);
    const asIvan = await make({ user_id: 'ivan' }, jane.token);
    expect(await call(asIvan.token)).toMatchObject({ status: 202, body: { status: 'awaiting_approval' } });
  });
});

describe('a session', () => {
  /** Where an OAuth client sends the browser of its user. */
  const authorizationUrl = async () => {
    const app = new OAuthClientDouble();
    const transport = new StreamableHTTPClientTransport(new URL('/mcp', fleet.url()), { authProvider: app });
    await expect(new Client({ name: 'agent', version: '1' }).connect(transport)).rejects.toThrow('Unauthorized');
    return app.authorizationUrl!.href;
  };
  const me = (browser: BrowserDouble, gateway?: number) => askAs(browser, { path: '/api/v1/me', gateway });

  it('shows its user at every gateway, with the roles of its groups', async () => {
    expect((await fleet.ask({ path: '/api/v1/sign-in', key: null })).body).toEqual({
      available: true,
      name: 'Example Corp',
    });
    const [alice, bob] = [await signIn('alice'), await signIn('bob')];
    for (const gateway of [0, 1])
      expect((await me(alice, gateway)).body).toMatchObject({
        user_id: 'alice@example.com',
        tenant_id: 'acme',
        roles: ['admin'],
        via: 'session',
      });
    expect((await me(bob)).body).toMatchObject({ user_id: 'bob@example.com', roles: [], rights: [], key_id: null });
    expect(Date.parse((await me(bob)).body.expires_at)).toBeGreaterThan(Date.now());
    const call = { path: '/api/v1/tools/calculator/execute', body: { arguments: { expression: '6*7' } } };
    expect((await askAs(bob, call)).body).toMatchObject({ success: true });
    const made = await askAs(alice, { path: '/api/v1/keys', body: { client: 'lasting' } });
    expect(made, made.text).toMatchObject({ status: 201, body: { expires_at: null } });
  });

  it('is not opened for an address that its owner has not verified', async () => {
    company.user = 'mallory';
    const begins = [`${fleet.url()}/auth/sign-in`, await authorizationUrl()];
    for (const begin of begins) {
      const browser = new BrowserDouble();
      const shown = await browser.open(begin);
      expect([shown.status, shown.url]).toEqual([401, expect.stringContaining('/auth/callback')]);
      expect(shown.text).toContain('sign_in.user_claim: sub');
      expect(browser.cookie(SESSION)).toBeUndefined();
    }
  });

  it('is seen and ended by its user, and by who manages keys of the tenant', async () => {
    const [alice, bob] = [await signIn('alice'), await signIn('bob')];
    const own = (await askAs(bob, { path: '/api/v1/sessions' })).body as {
      id: string;
      user_id: string;
      current: boolean;
    }[];
    expect([...new Set(own.map(({ user_id: user }) => user))]).toEqual(['bob@example.com']);
    const all = (await askAs(alice, { path: '/api/v1/sessions' })).body as typeof own;
    expect(all.map(({ user_id: user }) => user)).toEqual(
      expect.arrayContaining(['alice@example.com', 'bob@example.com']),
    );
    const current = (sessions: typeof own) => sessions.find((session) => session.current)!.id;
    const end = (browser: BrowserDouble, id: string) =>
      askAs(browser, { path: `/api/v1/sessions/${id}`, method: 'DELETE' });
    expect((await end(bob, current(all))).status).toBe(404);
    expect((await askAs(bob, { path: '/api/v1/sessions?tenant_id=globex' })).status).toBe(403);
    const shown = await fleetctl(fleet, ['sessions']);
    expect(String(shown.out)).toMatch(new RegExp(`${current(own)} +bob@example.com +browser`));
    expect((await end(alice, current(own))).status).toBe(204);
    await eventually('the session is refused', async () => (await me(bob)).status === 401, SELDOM);
  });

  it('counts only on requests of the console itself', async () => {
    const alice = await signIn('alice');
    const forged: Record<string, string>[] = [
      { 'x-toolfleet-session': '' },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'none' },
      { 'sec-fetch-site': '', origin: 'https://evil.example' },
      { 'sec-fetch-site': '', origin: 'null' },
      { 'sec-fetch-site': '', origin: fleet.url().replace(/\d+$/, '1') },
    ];
    for (const headers of forged) {
      const answers = [
        await askAs(alice, { path: '/api/v1/me' }, headers),
        await askAs(alice, { path: '/api/v1/keys', body: { client: 'forged' } }, headers),
        await askAs(alice, { path: '/api/v1/sign-out', body: {} }, headers),
      ];
      expect([headers, ...answers.map(({ status }) => status)]).toEqual([headers, 401, 401, 401]);
    }
    expect((await askAs(alice, { path: '/api/v1/me' }, { 'sec-fetch-site': '', origin: fleet.url() })).status).toBe(
      200,
    );
    // No page of another origin gets the permission to send the header.
    const preflight = await fetch(`${fleet.url()}/api/v1/keys`, {
      method: 'OPTIONS',
      headers: {
        origin: 'https://evil.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'x-toolfleet-session',
      },
    });
    expect(preflight.headers.get('access-control-allow-origin')).toBeNull();
    const mcp = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
    expect((await askAs(alice, { path: '/mcp', body: mcp })).status).toBe(401);
    // A key in a header wins: the way in when the provider is down.
    const withKey = await askAs(alice, { path: '/api/v1/me' }, { authorization: `Bearer ${fleet.operatorKey}` });
    expect(withKey.body).toMatchObject({ tenant_id: 'operator', via: 'api_key' });
  });

  it('ends at every gateway within five seconds, by its user or by the provider', async () => {
    const [alice, bob] = [await signIn('alice'), await signIn('bob')];
    const events = await fetch(`${fleet.url(1)}/api/v1/calls/events`, {
      headers: { cookie: `__Host-toolfleet-session=${bob.cookie(SESSION)}`, 'x-toolfleet-session': '1' },
    });
    expect([events.status, (await me(bob, 1)).status, (await me(alice, 1)).status]).toEqual([200, 200, 200]);
    const out = await askAs(alice, { path: '/api/v1/sign-out', body: {} });
    expect(out.body.url).toBe(`${fleet.url()}/auth/sign-out`);
    const [ended, sealed] = out.headers.getSetCookie();
    expect(ended).toMatch(/^__Host-toolfleet-session=; .*Max-Age=0$/);
    const leave = await fleet.ask({
      path: '/auth/sign-out',
      key: null,
      headers: { cookie: sealed!.split(';', 1)[0]! },
    });
    expect(leave.text).toMatch(/name="id_token_hint" value="ey/);
    const logoutToken = await company.logoutToken({ sub: 'bob' });
    const form = new URLSearchParams({ logout_token: logoutToken });
    const logout = await fetch(`${fleet.url(1)}/auth/backchannel-logout`, { method: 'POST', body: form });
    const endedAt = performance.now();
    expect(logout.status).toBe(200);
    const refused = async (browser: BrowserDouble, gateway: number) => (await me(browser, gateway)).status === 401;
    for (const gateway of [0, 1])
      await eventually(
        `both sessions are refused by gateway ${gateway}`,
        async () => (await refused(alice, gateway)) && refused(bob, gateway),
        SELDOM,
      );
    // Its event stream ends as well.
    for await (const _chunk of events.body!);
    expect(performance.now() - endedAt).toBeLessThan(20_000);
    expect((await fetch(`${fleet.url()}/auth/backchannel-logout`, { method: 'POST', body: form })).status).toBe(400);
  });
});

describe('an OAuth client', () => {
  it('with the SDK 1.x signs its user in as well', async () => {
    const app = new OAuthClientDouble();
    const url = new URL('/mcp', fleet.url());
    const transport = new OlderTransport(url, { authProvider: app as never });
    await expect(new OlderClient({ name: 'agent', version: '1' }).connect(transport)).rejects.toThrow('Unauthorized');
    const browser = new BrowserDouble();
    const page = await browser.open(app.authorizationUrl!.href);
    const back = await browser.open(page.url, {
      method: 'POST',
      body: 'decision=allow',
      from: fleet.url(),
      stopsAt: /:33333/,
    });
    await transport.finishAuth(new URL(back.url).searchParams.get('code')!);
    const client = new OlderClient({ name: 'agent', version: '1' });
    await client.connect(new OlderTransport(url, { authProvider: app as never }));
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('calculator');
    await client.close();
  });

  it('signs its user in by the URL of the endpoint alone, and acts as this user', async () => {
    const app = new OAuthClientDouble();
    const transport = await connect(app, 'carol');
    const client = new Client({ name: 'agent', version: '1' });
    await client.connect(transport);
    const result = await client.callTool({ name: 'calculator', arguments: { expression: '6*7' } });
    expect(JSON.stringify(result.structuredContent)).toContain('42');
    await client.close();
    await eventually('the call is recorded for its user', async () => {
      const { body } = await fleet.ask({ path: '/api/v1/calls?tool=calculator&user_id=carol@example.com&limit=100' });
      return body.calls.some(
        ({ entry_point, key_id: key }: { entry_point: string; key_id?: string }) =>
          entry_point === 'mcp' && key === undefined,
      );
    });
    // The token is for /mcp, not for the API.
    for (const path of ['/api/v1/me', '/api/v1/catalog'])
      expect((await fleet.ask({ path, key: app.kept!.access_token })).status).toBe(401);
  });

  it('meets the authorization scenarios of the conformance suite', async () => {
    const port = await freePort();
    const registered = await fleet.ask({
      path: '/oauth/register',
      key: null,
      body: { redirect_uris: [`http://127.0.0.1:${port}/callback`], token_endpoint_auth_method: 'none' },
    });
    expect(registered.status, registered.text).toBe(201);
    const results = await mkdtemp(join(tmpdir(), 'oauth-conformance-'));
    const args = [
      'authorization',
      '--url',
      fleet.url(),
      '--client-id',
      registered.body.client_id,
      '--resource',
      `${fleet.url()}/mcp`,
      '-p',
      String(port),
      '-o',
      results,
    ];
    const suite = fileURLToPath(
      new URL('../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
    );
    const run = spawn(process.execPath, [suite, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    const ended = new Promise<number | null>((resolve) => run.on('close', resolve));
    try {
      const asked = new Promise<string>((resolve) => {
        const read = (chunk: Buffer): void => {
          output += String(chunk);
          const [url] = /http\S+\/oauth\/authorize\?\S+(?=\s)/.exec(output) ?? [];
          if (url !== undefined) resolve(url);
        };
        run.stdout.on('data', read);
        run.stderr.on('data', read);
      });
      const url = await Promise.race([asked, ended.then(() => Promise.reject(new Error(output)))]);
      const browser = new BrowserDouble();
      const page = await browser.open(url);
      await browser.open(page.url, { method: 'POST', body: 'decision=allow', from: fleet.url() });
      expect([await ended, output]).toEqual([
        0,
        expect.stringMatching(/authorization-code-grant: \d+ passed, 0 failed/),
      ]);
      expect(output).toMatch(/authorization-server-metadata-endpoint: \d+ passed, 0 failed/);
    } finally {
      run.kill();
      await rm(results, { recursive: true });
    }
  });

  it('with a token for a toolset has the tools of this toolset only', async () => {
    const app = new OAuthClientDouble();
    await connect(app, 'alice', '/mcp/t/sums');
    for (const path of ['/mcp', '/mcp/t/sums']) {
      const client = new Client({ name: 'agent', version: '1' });
      const requestInit = { headers: { authorization: `Bearer ${app.kept!.access_token}` } };
      await client.connect(new StreamableHTTPClientTransport(new URL(path, fleet.url()), { requestInit }));
      expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['calculator']);
      await client.close();
    }
  });

  it('loses access everywhere within five seconds of a logout of its user', async () => {
    const app = new OAuthClientDouble();
    await connect(app, 'dave');
    const list = (gateway: number) => listTools(app, gateway);
    for (const gateway of [0, 1]) expect((await list(gateway)).status).toBe(200);
    const form = new URLSearchParams({ logout_token: await company.logoutToken({ sub: 'dave' }) });
    expect((await fetch(`${fleet.url()}/auth/backchannel-logout`, { method: 'POST', body: form })).status).toBe(200);
    const endedAt = performance.now();
    for (const gateway of [0, 1])
      await eventually(
        `gateway ${gateway} refuses the client`,
        async () => (await list(gateway)).status === 401,
        SELDOM,
      );
    expect(performance.now() - endedAt).toBeLessThan(20_000);
  });
});

describe('a user who', () => {
  const me = (by: string | BrowserDouble, gateway = 0) =>
    typeof by === 'string'
      ? fleet.ask({ path: '/api/v1/me', key: by, gateway })
      : askAs(by, { path: '/api/v1/me', gateway });
  /** A sign-in, a client of MCP, and keys of a user who administers the tenant. */
  const arrive = async (user: string) => {
    const user_id = `${user}@example.com`;
    const [browser, app] = [await signIn(user), new OAuthClientDouble()];
    await connect(app, user);
    const mint = async (body: object) => (await askAs(browser, { path: '/api/v1/keys', body })).body as MadeKey;
    const own = await mint({ client: `${user}-bot`, roles: ['admin'] });
    const child = await make({ client: `${user}-child`, roles: ['approver'] }, own.token);
    const given = await make({ tenant_id: 'acme', user_id, roles: ['admin'] }, fleet.operatorKey);
    return { user_id, browser, app, own, child, given };
  };
  /** Why a client gets no new token. */
  const refreshed = async ({ client, kept }: OAuthClientDouble): Promise<string> => {
    const form = { grant_type: 'refresh_token', client_id: client!.client_id, refresh_token: kept!.refresh_token! };
    const answer = await fetch(`${fleet.url()}/oauth/token`, { method: 'POST', body: new URLSearchParams(form) });
    return ((await answer.json()) as { error: string }).error;
  };
  const rolesOf = async (by: string | BrowserDouble, gateway: number) =>
    ((await me(by, gateway)).body.roles ?? ['limited']) as string[];

  it('loses a group loses its roles, in the browser, in clients of MCP, and in the keys that it made', async () => {
    const gus = await arrive('gus');
    const bound = [gus.browser, gus.own.token, gus.child.token];
    for (const by of [gus.browser, gus.own.token]) expect(await rolesOf(by, 1)).toEqual(['admin']);
    const events = await fetch(`${fleet.url(1)}/api/v1/calls/events`, {
      headers: { cookie: `__Host-toolfleet-session=${gus.browser.cookie(SESSION)}`, 'x-toolfleet-session': '1' },
    });
    expect(events.status).toBe(200);
    users['gus'] = addressed('gus');
    for (const gateway of [0, 1])
      await eventually(
        `gateway ${gateway} knows`,
        async () => (await Promise.all(bound.map((by) => rolesOf(by, gateway)))).every((roles) => roles.length === 0),
        RARELY,
      );
    // A stream with the old rights ends.
    for await (const _chunk of events.body!);
    const transport = new StreamableHTTPClientTransport(new URL('/mcp', fleet.url()), { authProvider: gus.app });
    expect(await auth(gus.app, { serverUrl: `${fleet.url()}/mcp` })).toBe('AUTHORIZED');
    const client = new Client({ name: 'agent', version: '1' });
    await client.connect(transport);
    await client.close();
    const listed = await fleet.ask({ path: '/api/v1/sessions' });
    const own = (listed.body as { user_id: string; roles: string[] }[]).filter(({ user_id: id }) => id === gus.user_id);
    expect(own.map(({ roles }) => roles)).toEqual([[], []]);
    expect((await fleet.ask({ path: '/api/v1/webhooks', key: gus.own.token })).status).toBe(403);
    // An operator vouches for this one.
    expect(await rolesOf(gus.given.token, 0)).toEqual(['admin']);
    users['gus'] = { ...addressed('gus'), groups: ['platform'] };
    await eventually('the key has its role again', async () => (await rolesOf(gus.own.token, 0)).length === 1, RARELY);
  });

  it('is disabled loses sessions and clients of MCP', async () => {
    const hal = await arrive('hal');
    for (const gateway of [0, 1]) expect((await listTools(hal.app, gateway)).status).toBe(200);
    company.disabled.add('hal');
    for (const gateway of [0, 1])
      await eventually(
        `gateway ${gateway} refuses both`,
        async () =>
          (await me(hal.browser, gateway)).status === 401 && (await listTools(hal.app, gateway)).status === 401,
        RARELY,
      );
    expect(await refreshed(hal.app)).toBe('invalid_grant');
  });

  it('is revoked loses everything at every gateway within five seconds, and calls that wait do not begin', async () => {
    const ivy = await arrive('ivy');
    const refund = { arguments: { expression: '3000000' } };
    const execute = { path: '/api/v1/tools/calculator/execute', body: refund, key: ivy.own.token };
    const parked = (await fleet.ask(execute)).body.call_id as string;
    const events = await fetch(`${fleet.url(1)}/api/v1/calls/events`, {
      headers: { authorization: `Bearer ${ivy.own.token}` },
    });
    const keys = [ivy.own, ivy.child, ivy.given];
    for (const gateway of [0, 1]) {
      for (const by of [ivy.browser, ...keys.map(({ token }) => token)])
        expect((await me(by, gateway)).status).toBe(200);
      expect((await listTools(ivy.app, gateway)).status).toBe(200);
    }
    const other = await make({ tenant_id: 'acme', user_id: 'other' }, fleet.operatorKey);
    const asMember = await fleet.ask({
      path: '/api/v1/users/revoke',
      body: { user_id: ivy.user_id },
      key: other.token,
    });
    expect(asMember.status).toBe(403);
    const foreign = { user_id: ivy.user_id, tenant_id: 'globex' };
    expect((await fleet.ask({ path: '/api/v1/users/revoke', body: foreign })).status).toBe(403);
    const { code, out, error } = await fleetctl(fleet, ['users', 'revoke', ivy.user_id]);
    expect(code, error).toBe(0);
    const printed = String(out);
    for (const { id } of keys) expect(printed).toMatch(new RegExp(`key +${id}`));
    expect(printed).toMatch(/sign-in +\S+ +browser/);
    expect(printed).toMatch(/client +\S+ +Agent/);
    expect(printed).not.toContain(other.id);
    for (const gateway of [0, 1])
      await eventually(
        `gateway ${gateway} refuses all`,
        async () => {
          const statuses = await Promise.all([
            ...[ivy.browser, ...keys.map(({ token }) => token)].map(async (by) => (await me(by, gateway)).status),
            listTools(ivy.app, gateway).then(({ status }) => status),
          ]);
          return statuses.every((status) => status === 401);
        },
        RARELY,
      );
    for await (const _chunk of events.body!);
    expect((await askAs(ivy.browser, { path: '/api/v1/keys', body: { client: 'late' } })).status).toBe(401);
    expect(await refreshed(ivy.app)).toBe('invalid_grant');
    expect((await fleet.ask({ path: `/api/v1/approvals/${parked}/approve`, body: {} })).status).toBe(200);
    await eventually('the call ended without running', async () => {
      const { body } = await fleet.ask({ path: `/api/v1/calls/${parked}` });
      return body.status === 'failed';
    });
    expect(await statusOf(other.token)).toBe(200);
    const again = await fleetctl(fleet, ['users', 'revoke', ivy.user_id]);
    expect(String(again.out)).toContain('had no sign-in, no MCP client and no key');
  });
});
