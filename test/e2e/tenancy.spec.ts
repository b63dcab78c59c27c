/**
 * Who may see and call what, over HTTP, NATS and MCP of a running fleet: what belongs to another tenant looks like what is
 * not there, dangerous tools are on no path, and no route answers without a credential.
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ToolfleetClient } from '@toolfleet/client';
import { ToolfleetNatsClient } from '@toolfleet/client/nats';
import { ROUTES } from '@toolfleet/contracts/resources';
import { eventually, PATIENCE_MS } from '@toolfleet/testing';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { connect, headers as natsHeaders, type NatsConnection } from 'nats';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startChangingMcpServer, type ChangingMcpServer } from '../fleet/changing-mcp-server.js';
import { startCountingMcpServer, type CountingMcpServer } from '../fleet/counting-mcp-server.js';
import { fleetctl } from '../fleet/fleetctl.js';
import { askTask } from '../fleet/mcp-tasks.js';
import { TestFleet, type Answer, type Ask } from '../fleet/test-fleet.js';
import { describeCallSight } from './call-sight.js';

const DANGEROUS = ['file_write', 'file_edit', 'file_delete'];
const DANGEROUS_ERROR = 'Tool not available via direct execution';

let server: CountingMcpServer;
let changing: ChangingMcpServer;
let fleet: TestFleet;
let plugins: string;
/** A tool of an operator's own that answers for its user and never says that it depends on a session. */
const WHOAMI = `export default ({ defineTool, ok }) => defineTool({
  name: 'whoami', description: 'Tells the user of the call', category: 'data', idempotent: true, rateLimit: 0,
  inputSchema: { type: 'object', properties: {} }, contextKeys: ['user_id'],
  handler: (_args, run) => ok({ user: run.context.user_id }, 'a user'),
});`;
/** Signs in a user of acme, at an issuer of the fleet. */
let signIn: (user: string) => Promise<string>;
/** NATS users of the two tenants. */
const nats: Record<string, NatsConnection> = {};
/** A finished asynchronous call and an own tool of each tenant. */
const callOf: Record<string, string> = {};
const toolOf: Record<string, string> = {};
const TENANTS = ['acme', 'globex'] as const;
const otherOf = (tenant: string) => (tenant === 'acme' ? 'globex' : 'acme');

beforeAll(async () => {
  server = await startCountingMcpServer();
  changing = await startChangingMcpServer('Finds a book');
  plugins = await mkdtemp(join(tmpdir(), 'toolfleet-plugins-'));
  await writeFile(join(plugins, 'whoami.tool.mjs'), WHOAMI);
  const jwks = join(plugins, 'jwks.json');
  signIn = await openIssuer(jwks);
  fleet = await TestFleet.start({
    together: true,
    services: { gateway: 1, registry: 1, budget: 1, records: 1, 'builtin-executor': 1, 'mcp-executor': 1 },
    tools: ['calculator', 'file_read', 'whoami'],
    natsTenants: TENANTS,
    config: {
      call_bodies: { keep: 'all' },
      rate_limits: { tiers: { free: WIDE, wide: WIDE } },
      roles: { minter: ['manage_keys', 'mint_for_users'] },
    },
    env: {
      JWT_ISSUER: ISSUER,
      JWT_AUDIENCE: 'toolfleet',
      JWT_JWKS_URL: pathToFileURL(jwks).href,
      GATEWAY_PUBLIC_URL: 'https://fleet.test',
      EGRESS_ALLOWED_ENDPOINTS: `${server.origin},${changing.origin}`,
      BUILTIN_TOOLSETS: 'compute,files',
      BUILTIN_PLUGINS_DIR: plugins,
      MCP_ALLOWED_DOMAINS: '127.0.0.1',
      // A second asynchronous call waits in the queue while one runs.
      GATEWAY_ASYNC_CONCURRENCY: '1',
    },
  });
  for (const tenant of TENANTS) {
    const login = { user: tenant, pass: `pw-${tenant}`, inboxPrefix: `_INBOX.${tenant}` };
    nats[tenant] = await connect({ servers: `127.0.0.1:${fleet.nats.port}`, ...login });
    const accepted = await fleet.call(
      'calculator',
      { expression: '6*7' },
      { key: fleet.keys[tenant]!, fields: { mode: 'async' } },
    );
    callOf[tenant] = accepted.body.call_id;
    await eventually(`the call of ${tenant} ended`, async () => {
      const { body } = await fleet.ask({ path: `/api/v1/calls/${callOf[tenant]}`, key: fleet.keys[tenant]! });
      return body.status === 'succeeded';
    });
  }
  // The administrator is of acme: its registrations are acme's own; globex gets none.
  const registered = await fleet.ask({
    path: '/api/v1/sources/mcp',
    body: { name: 'private', url: `${server.origin}/mcp` },
  });
  expect(registered, registered.text).toMatchObject({ status: 201 });
  toolOf['acme'] = 'private_add';
  await fleet.untilListed(['private_add']);
});
afterAll(async () => {
  for (const connection of Object.values(nats)) await connection.close();
  await fleet?.stop();
  await server?.stop();
  await changing?.stop();
  if (plugins) await rm(plugins, { recursive: true, force: true });
});

const WIDE = { requests_per_minute: 1e6, requests_per_hour: 1e7, requests_per_day: 1e8 };
const ISSUER = 'https://issuer.test';

/** Writes the key set of an issuer. @returns access tokens of its users */
async function openIssuer(path: string): Promise<(user: string) => Promise<string>> {
  const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true });
  await writeFile(path, JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'k1', alg: 'ES256' }] }));
  return (user) =>
    new SignJWT({ tenant: 'acme' })
      .setProtectedHeader({ alg: 'ES256', kid: 'k1', typ: 'at+jwt' })
      .setIssuer(ISSUER)
      .setAudience('toolfleet')
      .setSubject(user)
      .setIssuedAt()
      .setExpirationTime('1h')
      .sign(privateKey);
}

async function overNats(
  tenant: string,
  verb: string,
  body: unknown,
  key?: string,
): Promise<{ status: string; body: Answer['body'] }> {
  const headers = natsHeaders();
  if (key !== undefined) headers.set('Authorization', `Bearer ${key}`);
  const reply = await nats[tenant]!.request(`tool.${verb}.${tenant}`, JSON.stringify(body), {
    timeout: 20_000,
    headers,
  });
  return { status: reply.headers?.get('Tf-Status') ?? '', body: reply.json() };
}

/** A body without what is bound to differ: ids and the given names. */
function anonymous(text: string, ...names: string[]): string {
  const anyId = text.replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<id>');
  return names.reduce((result, name) => result.replaceAll(name, '<name>'), anyId);
}

/** Without durations, also inside JSON text that is a value of its own (batch records). */
function timeless(text: string): string {
  return text.replaceAll(/(\\*")(execution_time|[a-z_]+_ms)\1:[\d.]+/g, '$1$2$1:0');
}

/** Headers that a caller sees, but for time, length and quota. */
function shownHeaders({ headers }: Answer): string[] {
  return [...headers.keys()].filter(
    (name) => !/^(date|content-length|x-ratelimit-.*|keep-alive|connection)$/.test(name),
  );
}

describe.each(TENANTS)('data of other tenants, for %s', (tenant) => {
  const key = () => fleet.keys[tenant]!;

  it.each([
    ['GET', (id: string) => `/api/v1/calls/${id}`],
    ['GET', (id: string) => `/api/v1/calls/${id}/events`],
    ['DELETE', (id: string) => `/api/v1/calls/${id}`],
  ] as const)('answers as if the call did not exist: %s %#', async (method, path) => {
    const own = await fleet.ask({ method, path: path(callOf[tenant]!), key: key() });
    expect(own.status).toBe(200);
    const foreign = await fleet.ask({ method, path: path(callOf[otherOf(tenant)]!), key: key() });
    const missing = await fleet.ask({ method, path: path(randomUUID()), key: key() });
    expect([foreign.status, missing.status]).toEqual([404, 404]);
    expect(anonymous(foreign.text)).toBe(anonymous(missing.text));
    expect(shownHeaders(foreign)).toEqual(shownHeaders(missing));
  });

  it('answers a cancellation over NATS as if the call did not exist', async () => {
    const own = await overNats(tenant, 'cancel', { call_id: callOf[tenant] }, key());
    expect(own.body).toMatchObject({ state: 'succeeded' });
    const foreign = await overNats(tenant, 'cancel', { call_id: callOf[otherOf(tenant)] });
    const missing = await overNats(tenant, 'cancel', { call_id: randomUUID() });
    expect(foreign.body).toMatchObject({ code: 'NOT_FOUND' });
    expect(foreign.status).toBe(missing.status);
    expect(anonymous(JSON.stringify(foreign.body))).toBe(anonymous(JSON.stringify(missing.body)));
  });

  it('answers on every path as if the tool did not exist', async () => {
    const own = toolOf[tenant];
    const foreign = own ?? toolOf[otherOf(tenant)]!;
    const missing = 'private_nil';
    const asks: [string, (name: string) => Ask][] = [
      ['definition', (name) => ({ path: `/api/v1/tools/${name}` })],
      ['execute', (name) => ({ path: `/api/v1/tools/${name}/execute`, body: { arguments: { a: 1, b: 2 } } })],
      ['dry run', (name) => ({ path: `/api/v1/tools/${name}/execute`, body: { arguments: {}, dry_run: true } })],
      ['batch', (name) => ({ path: '/api/v1/tools/batch-execute', body: { calls: [{ name, arguments: {} }] } })],
      ['/tools execute', (name) => ({ path: '/tools/execute', body: { tool_name: name, parameters: { a: 1, b: 2 } } })],
      ['/tools batch', (name) => ({ path: '/tools/batch-execute', body: [{ tool_name: name, parameters: {} }] })],
      ['/tools schema', (name) => ({ path: `/tools/${name}/schema` })],
      ['/tools metadata', (name) => ({ path: `/tools/${name}/metadata` })],
    ];
    for (const [what, ask] of asks) {
      const [one, other] = await Promise.all([foreign, missing].map((name) => fleet.ask({ ...ask(name), key: key() })));
      if (own !== undefined) {
        expect(one!.status, what).toBeLessThan(404);
        continue;
      }
      expect(one!.status, what).toBe(other!.status);
      expect(timeless(anonymous(one!.text, foreign)), what).toBe(timeless(anonymous(other!.text, missing)));
    }
  });

  it('answers asynchronous calls and calls over NATS as if the tool did not exist', async () => {
    if (toolOf[tenant] !== undefined) return;
    const foreign = toolOf[otherOf(tenant)]!;
    const ended: string[] = [];
    for (const name of [foreign, 'private_nil']) {
      const called = await overNats(tenant, 'call', { name, arguments: { a: 1, b: 2 } });
      const batch = await overNats(tenant, 'batch', { calls: [{ name, arguments: {} }] });
      const accepted = await fleet.call(name, { a: 1, b: 2 }, { key: key(), fields: { mode: 'async' } });
      let result = accepted.text;
      if (accepted.status === 202) {
        await eventually('the call ended', async () => {
          const { body } = await fleet.ask({ path: `/api/v1/calls/${String(accepted.body.call_id)}`, key: key() });
          result = JSON.stringify(body.result);
          return body.status === 'failed';
        });
      }
      expect(called.body).toMatchObject({ code: 'TOOL_NOT_FOUND' });
      ended.push(timeless(anonymous(JSON.stringify([called, batch, result]), name)));
    }
    expect(ended[0]).toBe(ended[1]);
  });

  it('is in no list', async () => {
    const lists = [
      (await fleet.ask({ path: '/api/v1/tools', key: key() })).text,
      (await fleet.ask({ path: '/tools/list', key: key() })).text,
      (await fleet.ask({ path: '/tools/schemas', key: key() })).text,
      (await fleet.ask({ path: '/tools/select', body: { task: 'add two numbers', max_tools: 8 }, key: key() })).text,
      JSON.stringify((await overNats(tenant, 'list', {})).body),
      (await mcp('tools/list', {}, key())).text,
    ];
    for (const list of lists) expect(list.includes('private_add')).toBe(toolOf[tenant] !== undefined);
  });

  it('is not in usage and budgets', async () => {
    for (const path of ['/api/v1/usage', '/api/v1/budgets?agent_id=shared']) {
      const { body, text } = await fleet.ask({ path, key: key() });
      expect(body.tenant_id).toBe(tenant);
      expect(text).not.toContain(otherOf(tenant));
    }
  });

  it('refuses the endpoints of administrators', async () => {
    for (const ask of [
      { path: '/api/v1/roles' },
      { path: '/api/v1/keys', body: { client: 'x', service_account: 'x' } },
      { path: '/api/v1/quarantine' },
      { path: '/api/v1/sources/mcp', body: { name: 'x', url: 'https://example.com' } },
      { method: 'DELETE', path: '/api/v1/sources/mcp/private' },
    ]) {
      const { status } = await fleet.ask({ ...ask, key: key() });
      expect(status, `${ask.method ?? ''} ${ask.path}`).toBe(403);
    }
  });

  it('is not reached with its key on the subject of another', async () => {
    const { body } = await overNats(tenant, 'list', {}, fleet.keys[otherOf(tenant)]);
    expect(body).toMatchObject({ code: 'UNAUTHENTICATED' });
  });
});

async function mcp(method: string, params: object, key: string | null): Promise<Answer> {
  return fleet.ask({
    path: '/mcp',
    body: { jsonrpc: '2.0', id: 1, method, params },
    key,
    headers: { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-06-18' },
  });
}

describe('a key narrowed by globs', () => {
  let narrow: string;
  let theirs: string;
  beforeAll(async () => {
    const made = await fleet.ask({ path: '/api/v1/keys', body: { client: 'narrow', tools: ['text_*'] } });
    narrow = made.body.token;
    theirs = callOf['acme']!;
  });

  const accept = async (name: string, args: object, key: string): Promise<string> => {
    const accepted = await fleet.call(name, args, { key, fields: { mode: 'async' } });
    expect(accepted.status, accepted.text).toBe(202);
    return accepted.body.call_id;
  };

  it('neither reads, follows nor cancels calls it could not have made', async () => {
    const wide = fleet.keys['acme']!;
    const waiting = await accept('calculator', { expression: '6 * 7' }, wide);
    for (const id of [theirs, waiting]) {
      for (const ask of [
        { path: `/api/v1/calls/${id}` },
        { path: `/api/v1/calls/${id}/events` },
        { method: 'DELETE', path: `/api/v1/calls/${id}` },
      ]) {
        const { status, text } = await fleet.ask({ ...ask, key: narrow });
        expect([status, anonymous(text)]).toEqual([
          404,
          anonymous((await fleet.ask({ ...ask, path: ask.path.replace(id, randomUUID()), key: narrow })).text),
        ]);
      }
      expect((await overNats('acme', 'cancel', { call_id: id }, narrow)).body).toMatchObject({ code: 'NOT_FOUND' });
      const task = await askTask(fleet, 'tasks/get', id, { key: narrow });
      expect(task.text).toContain('Unknown task');
      const cancelled = await askTask(fleet, 'tasks/cancel', id, { key: narrow });
      expect(cancelled.text).toContain('Unknown task');
    }
    await eventually('it ran to its end', async () => {
      const { body } = await fleet.ask({ path: `/api/v1/calls/${waiting}`, key: wide });
      return body.status === 'succeeded';
    });
    expect((await askTask(fleet, 'tasks/get', waiting, { key: wide })).text).toContain('"completed"');
  });

  it('sees and cancels what it made, and nothing else that it could have made', async () => {
    const text = { text: 'one two', operation: 'count' };
    for (const [maker, status] of [
      [fleet.keys['acme']!, 404],
      [narrow, 200],
    ] as const) {
      const id = await accept('text_process', text, maker);
      expect((await fleet.ask({ path: `/api/v1/calls/${id}`, key: narrow })).status).toBe(status);
      const cancelled = await fleet.ask({ method: 'DELETE', path: `/api/v1/calls/${id}`, key: narrow });
      expect(cancelled.status === 202 ? 200 : cancelled.status).toBe(status);
    }
  });

  it('sees its own finished calls and usage; its administrator sees all, and an operator every tenant', async () => {
    const tools = async (key: string): Promise<Set<string>> => {
      const { calls } = (await fleet.ask({ path: '/api/v1/calls?limit=500', key })).body;
      return new Set(calls.map(({ tool }: { tool: string }) => tool));
    };
    await fleet.call('text_process', { text: 'a', operation: 'count' }, { key: narrow });
    await eventually('its call is recorded', async () => (await tools(narrow)).has('text_process'));
    expect([...(await tools(narrow))]).toEqual(['text_process']);
    expect(await tools(fleet.adminKey)).toContain('calculator');
    const rows = async (path: string, key: string) =>
      (await fleet.ask({ path: `/api/v1/usage?group_by=${path}`, key })).body.rows as {
        tool_name?: string;
        tenant_id?: string;
        calls: number;
      }[];
    await eventually('its use is in the ledger', async () => (await rows('tool', narrow)).length > 0);
    expect((await rows('tool', narrow)).map(({ tool_name: name }) => name)).toEqual(['text_process']);
    const sum = (of: { calls: number }[]) => of.reduce((total, { calls }) => total + calls, 0);
    // Rows of other calls may arrive between two readings.
    const agree = async (key: string, one: string, other: string): Promise<boolean> =>
      sum(await rows(one, key)) === sum(await rows(other, key));
    await eventually('users and tools have the same calls', () => agree(narrow, 'user', 'tool'));
    await eventually('days and their tools have the same calls', () => agree(fleet.adminKey, 'day', 'day,tool'));
    expect(sum(await rows('user', narrow))).toBeLessThan(sum(await rows('user', fleet.adminKey)));
    const tenants = async (path: string, key: string) =>
      new Set((await rows(path, key)).map(({ tenant_id: tenant }) => tenant));
    await fleet.call('calculator', { expression: '1+1' }, { key: fleet.keys['globex'] });
    await eventually('an operator sees all tenants', async () =>
      new Set(['acme', 'globex']).isSubsetOf(await tenants('tenant,day', fleet.operatorKey)),
    );
    expect(await tenants('tenant&tenant_id=globex', fleet.operatorKey)).toEqual(new Set(['globex']));
    expect(await tenants('tenant&tenant_id=globex', fleet.adminKey)).toEqual(new Set(['acme']));
  });
});

describe('the content of a call', () => {
  const SECRET = 'ONLY FOR ANN';
  const args = { text: 'only for ann. '.repeat(200), operation: 'case', to: 'upper' };
  let ann: string;
  /** Made by an administrator, in the name of the same user. */
  let twin: string;
  let bob: string;
  let auditor: string;
  /** Calls of ann: an asynchronous one, one with a handle, one of the journal. */
  const made: Record<string, string> = {};

  const newKey = async (spec: object, key = fleet.adminKey): Promise<string> => {
    const { body, text } = await fleet.ask({ path: '/api/v1/keys', body: spec, key });
    expect(body?.token, text).toBeTypeOf('string');
    return body.token;
  };
  const accept = async (key: string): Promise<string> => {
    const { body } = await fleet.call('text_process', args, { key, fields: { mode: 'async' } });
    await eventually('it has ended', async () => {
      const { body: call } = await fleet.ask({ path: `/api/v1/calls/${body.call_id}`, key });
      return call.status === 'succeeded';
    });
    return body.call_id;
  };
  beforeAll(async () => {
    const minting = { client: 'minter', tenant_id: 'acme', roles: ['minter'] };
    ann = await newKey({ client: 'ann-app', tenant_id: 'acme', user_id: 'ann' }, fleet.operatorKey);
    twin = await newKey({ client: 'twin', user_id: 'ann' }, await newKey(minting, fleet.operatorKey));
    bob = await newKey({ client: 'bob' });
    auditor = await newKey({ client: 'audrey', tenant_id: 'acme', roles: ['auditor'] }, fleet.operatorKey);
    made['async'] = await accept(ann);
    const kept = await fleet.call('text_process', args, { key: ann, fields: { max_result_kb: 1 } });
    expect(kept.body.metadata.result_handle.handle).toBe(kept.body.call_id);
    made['kept'] = kept.body.call_id;
    const keyed = await fleet.call('text_process', args, { key: ann, headers: { 'idempotency-key': 'ann' } });
    made['journal'] = keyed.body.call_id;
  });

  /** What each way to the content of a call answers: `read`, the code of a refusal, or `state`. */
  async function ways(id: string, key: string): Promise<Record<string, string>> {
    const get = (path: string) => fleet.ask({ path: `/api/v1/${path}`, key });
    const found: Record<string, string> = {};
    const note = (way: string, text: string) => {
      const code = /"code":"([A-Z_]+)"/.exec(text)?.[1];
      const isNone = code === 'NOT_FOUND' || /Unknown task|Resource not found/.test(text);
      found[way] =
        text.includes(SECRET) || text.includes('only for ann') ? 'read' : isNone ? 'none' : (code ?? 'state');
    };
    note('call', (await get(`calls/${id}`)).text);
    note('events', (await get(`calls/${id}/events`)).text);
    note('file', (await get(`calls/${id}/result`)).text);
    note('page', (await get(`results/${id}`)).text);
    note('tool', (await fleet.call('read_result', { handle: id }, { key })).text);
    const reading = { name: 'read_result', arguments: { handle: id } };
    note('NATS', JSON.stringify((await overNats('acme', 'call', reading, key)).body));
    note('resource', (await mcp('resources/read', { uri: `toolfleet://results/${id}` }, key)).text);
    note('MCP tool', (await mcp('tools/call', { name: 'read_result', arguments: { handle: id } }, key)).text);
    note('task', (await askTask(fleet, 'tasks/get', id, { key })).text);
    return found;
  }
  const every = (of: Record<string, string>, answer: string) =>
    Object.fromEntries(Object.keys(of).map((way) => [way, answer]));

  it('is for the key that made it and for its user in person; an administrator gets its state', async () => {
    const user = await signIn('ann');
    for (const [kind, id] of Object.entries(made)) {
      const own = await ways(id, ann);
      expect(own, kind).toEqual(every(own, 'read'));
      expect(await ways(id, user), kind).toEqual(own);
      for (const other of [twin, bob, await signIn('bob')])
        expect(new Set(Object.values(await ways(id, other))), kind).toEqual(new Set(['none']));
      for (const other of [fleet.adminKey])
        expect(await ways(id, other), kind).toEqual({
          ...every(own, 'PERMISSION_DENIED'),
          call: 'state',
          events: 'state',
          task: 'state',
        });
      const { body } = await fleet.ask({ path: `/api/v1/calls/${id}` });
      expect(body).toEqual({
        call_id: id,
        tool: 'text_process',
        status: 'succeeded',
        accepted_at: expect.any(String),
        finished_at: expect.any(String),
        result_omitted: { reason: 'permission', message: expect.stringContaining('role auditor') },
      });
    }
    const lines = fleet.logs().split('\n');
    expect(lines.filter((line) => line.includes('result of a call read') && line.includes(made['async']!))).toEqual([]);
    const shown = await fleetctl(fleet, ['calls', 'show', made['async']!, '--watch'], fleet.adminKey);
    expect([shown.code, shown.out.toString()]).toEqual([4, '']);
    expect(shown.error).toContain('The call ended: succeeded');
  });

  it('is read with the right read_bodies, and each reading is in the audit log and with the call', async () => {
    const id = made['async']!;
    const withheld = await fleet.ask({ path: `/api/v1/calls/${id}?content=own`, key: auditor });
    expect(withheld.body.result_omitted).toMatchObject({ reason: 'recorded' });
    const readings = async (): Promise<{ user_id: string }[]> =>
      (await fleet.ask({ path: `/api/v1/calls/${id}/body`, key: ann })).body.readings;
    await eventually(
      'it is recorded',
      async () => (await fleet.ask({ path: `/api/v1/calls/${id}/body`, key: ann })).status === 200,
    );
    expect(await readings()).toEqual([]);
    const seen = await ways(id, auditor);
    expect(seen).toEqual(every(seen, 'read'));
    const noted = await readings();
    expect(noted).toHaveLength(Object.keys(seen).length);
    expect(new Set(noted.map(({ user_id: user }) => user))).toEqual(new Set(['audrey']));
    const audited = () =>
      fleet
        .logs()
        .split('\n')
        .filter((line) => line.includes('"audit"') && line.includes(`"read_call":"${id}"`));
    await eventually('each is in the audit log', () => audited().length === noted.length);
  });

  it('is published on NATS only for a call of a NATS user without a key, and the end only of calls over NATS', async () => {
    const published = new Map<string, any>();
    const subscription = nats['acme']!.subscribe('tool.result.acme.*', {
      callback: (_error, message) => published.set(message.subject.split('.').at(-1)!, message.json()),
    });
    const call = { name: 'text_process', arguments: args, mode: 'async' };
    const shared = (await overNats('acme', 'call', call)).body.call_id;
    const own = (await overNats('acme', 'call', call, ann)).body.call_id;
    const ofHttp = await accept(ann);
    const last = (await overNats('acme', 'call', call)).body.call_id;
    await eventually('their ends are published', () => [shared, own, last].every((id) => published.has(id)));
    subscription.unsubscribe();
    expect(published.has(ofHttp)).toBe(false);
    expect(JSON.stringify(published.get(shared))).toContain(SECRET);
    const omitted = { status: 'succeeded', result_omitted: { reason: 'permission' } };
    expect(published.get(own)).toMatchObject({ call_id: own, success: true, output: null, metadata: omitted });
    expect(JSON.stringify(published.get(own))).not.toContain(SECRET);
    const read = async (handle: string, key?: string) =>
      JSON.stringify((await overNats('acme', 'call', { name: 'read_result', arguments: { handle } }, key)).body);
    expect(await read(own)).toContain('NOT_FOUND');
    expect(await read(shared)).toContain(SECRET);
    expect(await read(own, ann)).toContain(SECRET);
    expect(await read(shared, ann)).toContain('NOT_FOUND');
  });

  it('has a call that its maker cancels, and an administrator; for others there is none', async () => {
    const id = made['async']!;
    const ends = async (key: string) => {
      const http = await fleet.ask({ method: 'DELETE', path: `/api/v1/calls/${id}`, key });
      const task = await askTask(fleet, 'tasks/cancel', id, { key });
      const overNatsToo = await overNats('acme', 'cancel', { call_id: id }, key);
      const ofTask = task.text.includes('Unknown task') ? 'NOT_FOUND' : 'ok';
      return [http.body.code ?? http.status, ofTask, overNatsToo.body.code ?? 'ok'];
    };
    for (const key of [ann, await signIn('ann'), fleet.adminKey]) expect(await ends(key)).toEqual([200, 'ok', 'ok']);
    for (const key of [twin, bob]) expect(await ends(key)).toEqual(Array(3).fill('NOT_FOUND'));
    expect((await overNats('acme', 'cancel', { call_id: id })).body).toMatchObject({ code: 'NOT_FOUND' });
  });

  it('is not replayed to another key of its user by the same idempotency key', async () => {
    const repeat = (key: string) => fleet.call('text_process', args, { key, headers: { 'idempotency-key': 'ann' } });
    expect((await repeat(ann)).body.metadata).toMatchObject({ idempotent_replay: true });
    expect((await repeat(await signIn('ann'))).body.metadata).toMatchObject({ idempotent_replay: true });
    const refused = await repeat(twin);
    expect([refused.status, refused.body.code]).toEqual([422, 'IDEMPOTENCY_MISMATCH']);
    expect(refused.text).not.toContain(SECRET);
    expect((await repeat(bob)).body.metadata).not.toHaveProperty('idempotent_replay');
  });
});

describeCallSight({
  fleet: () => fleet,
  signIn: (user) => signIn(user),
  overNats: (verb, body, key) => overNats('acme', verb, body, key),
  serverUrl: () => `${server.origin}/mcp`,
});

const PREFIX = 'io.modelcontextprotocol/';
/** Opens a stream that reports changes of the tool list. */
const LISTEN = {
  jsonrpc: '2.0',
  id: 1,
  method: 'subscriptions/listen',
  params: {
    notifications: { toolsListChanged: true },
    _meta: { [`${PREFIX}protocolVersion`]: '2026-07-28', [`${PREFIX}clientCapabilities`]: {} },
  },
};

describe('a revoked key', () => {
  it('loses every stream it opened: of a call, of recent calls, of an MCP subscription', async () => {
    const made = await fleet.ask({ path: '/api/v1/keys', body: { client: 'watcher' } });
    const mine = { key: String(made.body.token), fields: { mode: 'async' } };
    const running = await fleet.call('private_count_slowly', { steps: 1_200 }, mine);
    const headers = { authorization: `Bearer ${String(made.body.token)}` };
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const streams = await Promise.all([
      fetch(`${fleet.url()}/api/v1/calls/${running.body.call_id}/events`, { headers, signal }),
      fetch(`${fleet.url()}/api/v1/calls/events`, { headers, signal }),
      fetch(`${fleet.url()}/mcp`, {
        method: 'POST',
        signal,
        headers: {
          ...headers,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': 'subscriptions/listen',
        },
        body: JSON.stringify(LISTEN),
      }),
    ]);
    for (const { status, headers: answered } of streams)
      expect([status, answered.get('content-type')]).toEqual([200, expect.stringContaining('text/event-stream')]);
    await fleet.ask({ method: 'DELETE', path: `/api/v1/keys/${made.body.id}` });
    // Each ends in order, and none by the time-out.
    const [ofCall] = await Promise.all(streams.map((stream) => stream.text()));
    expect(ofCall).not.toContain('event: done');
    await fleet.ask({ method: 'DELETE', path: `/api/v1/calls/${running.body.call_id}` });
  });

  it('starts none of the calls that were accepted from it and still wait; they are charged nothing', async () => {
    const admin = { key: fleet.adminKey, fields: { mode: 'async' } };
    const blocking = await fleet.call('private_count_slowly', { steps: 1_200 }, admin);
    await eventually('the only place is taken', () => server.counting() === 1);
    const made = await fleet.ask({ path: '/api/v1/keys', body: { client: 'leaver' } });
    const mine = { key: String(made.body.token), fields: { mode: 'async' } };
    const accepted = await fleet.call('private_save_note', { text: 'after it left' }, mine);
    expect(accepted.status, accepted.text).toBe(202);
    await fleet.ask({ method: 'DELETE', path: `/api/v1/keys/${made.body.id}` });
    await fleet.ask({ method: 'DELETE', path: `/api/v1/calls/${blocking.body.call_id}` });
    const path = `/api/v1/calls/${accepted.body.call_id}`;
    await eventually('it ended', async () => (await fleet.ask({ path })).body.status === 'failed');
    const auditor = { client: 'reviewer', tenant_id: 'acme', roles: ['auditor'] };
    const { token } = (await fleet.ask({ path: '/api/v1/keys', body: auditor, key: fleet.operatorKey })).body;
    expect((await fleet.ask({ path, key: token })).body.result).toMatchObject({
      success: false,
      metadata: { code: 'UNAUTHENTICATED' },
      usage: { tokens: 0, cost_usd: 0 },
    });
    expect(server.notes.get('after it left')).toBeUndefined();
    await eventually('its refusal is recorded', async () => {
      const { body } = await fleet.ask({ path: '/api/v1/calls?limit=500' });
      return body.calls.some(
        ({ call_id: id, code }: Record<string, string>) => id === accepted.body.call_id && code === 'UNAUTHENTICATED',
      );
    });
  });
});

describe('an administrator of a tenant', () => {
  const admin = (): string => fleet.adminKey;

  it('makes, sees and revokes keys of its own tenant only', async () => {
    const foreign = await fleet.ask({
      path: '/api/v1/keys',
      body: { client: 'foreign', tenant_id: 'globex' },
      key: fleet.operatorKey,
    });
    expect(foreign.status, foreign.text).toBe(201);
    const listed = await fleet.ask({ path: '/api/v1/keys', key: admin() });
    expect(new Set(listed.body.map((key: { tenant_id: string }) => key.tenant_id))).toEqual(new Set(['acme']));
    const revoke = { method: 'DELETE', path: `/api/v1/keys/${foreign.body.id}` };
    expect((await fleet.ask({ ...revoke, key: admin() })).status).toBe(404);
    expect((await fleet.ask({ path: '/api/v1/me', key: foreign.body.token })).status).toBe(200);
    for (const body of [
      { client: 'x', tenant_id: 'globex' },
      { client: 'x', tenant_id: 'operator' },
      { client: 'x', roles: ['operator'] },
      { client: 'x', tier: 'enterprise' },
    ]) {
      const { status, text } = await fleet.ask({ path: '/api/v1/keys', body, key: admin() });
      expect(status, text).toBe(403);
    }
    expect((await fleet.ask({ ...revoke, key: fleet.operatorKey })).status).toBe(204);
  });

  it('registers and retires sources of its own tenant only, and without variables of the fleet', async () => {
    const url = `${server.origin}/mcp`;
    const asks: [Ask, number][] = [
      [{ path: '/api/v1/sources/mcp', body: { name: 'shared', url, visibility: 'fleet' } }, 403],
      [{ path: '/tools/mcp/register', body: { name: 'shared', url, visibility: 'fleet' } }, 403],
      [
        { path: '/api/v1/sources/mcp', body: { name: 'vars', url, headers: { Authorization: '${API_KEY_PEPPER}' } } },
        400,
      ],
      [{ path: '/api/v1/sources/openapi', body: { name: 'vars', spec_url: 'https://x.example/${HOME}' } }, 400],
      [{ method: 'DELETE', path: '/api/v1/sources/mcp/shared?visibility=fleet' }, 403],
      [{ method: 'DELETE', path: '/api/v1/sources/mcp/private@globex' }, 404],
      [{ method: 'DELETE', path: '/api/v1/sources/mcp/private@operator' }, 404],
    ];
    for (const [ask, wanted] of asks) {
      const { status, text } = await fleet.ask({ ...ask, key: admin() });
      expect(status, `${ask.path} ${text}`).toBe(wanted);
    }
  });

  it('sees no more of the fleet than its members see', async () => {
    for (const path of ['/api/v1/fleet']) expect((await fleet.ask({ path, key: admin() })).status).toBe(403);
    const { calls } = (await fleet.ask({ path: '/api/v1/calls', key: admin() })).body;
    expect(new Set(calls.map((call: { tenant_id: string }) => call.tenant_id))).toEqual(new Set(['acme']));
    const waiting = await fleet.ask({ path: '/api/v1/quarantine', key: admin() });
    expect([waiting.status, waiting.body]).toEqual([200, []]);
  });
});

describe('an idempotency key', () => {
  it('of one tenant means nothing to another', async () => {
    const ask = (tenant: string, expression: string) =>
      fleet.call('calculator', { expression }, { key: fleet.keys[tenant]!, headers: { 'idempotency-key': 'same' } });
    expect((await ask('acme', '1+1')).body.output.result).toBe(2);
    expect((await ask('globex', '2+2')).body.output.result).toBe(4);
    expect((await ask('acme', '2+2')).status).toBe(422);
  });
});

describe('an answer belongs to what its tool could observe', () => {
  const inProject = (name: string, project: number, args: object, fields: object = {}) =>
    overNats(
      'acme',
      'call',
      { name, arguments: args, project_id: `p${project}`, create_project: true, ...fields },
      fleet.adminKey,
    );
  const projects = Array.from({ length: 10 }, (_, index) => index);

  it('reads of the same path at the same time get the files of their own projects', async () => {
    for (const project of projects) {
      const written = await inProject('file_write', project, { path: 'a.txt', content: `of p${project}` });
      expect(written.body, JSON.stringify(written)).toMatchObject({ success: true });
    }
    const read = [...projects, ...projects].map((project) => inProject('file_read', project, { path: 'a.txt' }));
    const contents = (await Promise.all(read)).map(({ body }) => body.output.content);
    expect(contents).toEqual([...projects, ...projects].map((project) => `of p${project}`));
  });

  it('a write is not replayed for another project, and is made for another user', async () => {
    const write = (project: number, fields: object) =>
      inProject('file_write', project, { path: 'key.txt', content: 'x' }, { idempotency_key: 'write', ...fields });
    const exists = async (project: number) =>
      (await inProject('file_exists', project, { path: 'key.txt' })).body.output.exists;
    expect((await write(0, {})).body).toMatchObject({ success: true });
    expect((await write(1, {})).body).toMatchObject({ code: 'IDEMPOTENCY_MISMATCH' });
    expect(await exists(1)).toBe(false);
    const forAnn = await write(2, { user_id: 'ann' });
    expect(forAnn.body.metadata).not.toHaveProperty('idempotent_replay');
    expect(await exists(2)).toBe(true);
    expect((await write(0, {})).body.metadata).toMatchObject({ idempotent_replay: true });
  });

  it('a session of one user is empty for another user who sends the same id', async () => {
    const write = { name: 'file_write', arguments: { path: 'a.txt', content: 'of admin' }, session_id: 'chat' };
    expect((await overNats('acme', 'call', write, fleet.adminKey)).body).toMatchObject({ success: true });
    const read = (key: string) => fleet.call('file_read', { path: 'a.txt' }, { key, fields: { session_id: 'chat' } });
    expect((await read(fleet.adminKey)).body.output.content).toBe('of admin');
    expect((await read(fleet.keys['acme']!)).body).toMatchObject({
      success: false,
      error: 'No such file or directory: a.txt',
    });
  });

  it('a user gets nothing of another user, from the cache or by the same idempotency key', async () => {
    const key = fleet.keys['acme']!;
    const headers = { 'idempotency-key': 'who' };
    const users = [];
    for (const ask of [{}, { key }, {}, { headers }, { key, headers }, { headers }])
      users.push((await fleet.call('whoami', {}, ask)).body.output.user);
    expect(users).toEqual(['admin', 'app', 'admin', 'admin', 'app', 'admin']);
  });
});

describe('a number that JSON.parse would change', () => {
  const integer = '9007199254740993';
  const refusal = 'The number 1e999 cannot be represented exactly; send it as a string';
  const call = (number: string) => `{"name":"calculator","arguments":{"expression":${number}}}`;
  const bodies: Record<string, (number: string) => string> = {
    '/api/v1/tools/calculator/execute': (number) => `{"arguments":{"expression":${number}}}`,
    '/api/v1/tools/calculator/execute#async': (number) => `{"arguments":{"expression":${number}},"mode":"async"}`,
    '/api/v1/tools/batch-execute': (number) => `{"calls":[${call(number)}]}`,
    '/tools/execute': (number) => `{"tool_name":"calculator","parameters":{"expression":${number}}}`,
    '/tools/batch-execute': (number) => `[{"tool_name":"calculator","parameters":{"expression":${number}}}]`,
    '/mcp': (number) => `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${call(number)}}`,
  };

  it.each(Object.entries(bodies))(
    'keeps the digits of an integer at %s, and is refused out of range',
    async (path, body) => {
      const send = (number: string) =>
        fetch(`${fleet.url()}${path}`, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${fleet.keys['acme']}`,
            'content-type': 'application/json',
            accept: 'application/json, text/event-stream',
          },
          body: body(number),
        });
      const taken = await send(integer);
      expect(taken.ok).toBe(true);
      expect(await taken.text()).toContain(path.endsWith('async') ? 'call_id' : integer);
      const refused = await send('1e999');
      expect(refused.status).toBe(400);
      expect(await refused.text()).toContain(refusal);
    },
  );

  it.each(['call', 'batch'])('is treated so by tool.%s over NATS', async (verb) => {
    const body = (number: string) => (verb === 'call' ? call(number) : `{"calls":[${call(number)}]}`);
    const send = (number: string) => nats['acme']!.request(`tool.${verb}.acme`, body(number), { timeout: 20_000 });
    expect((await send(integer)).string().replaceAll('\\"', '"')).toContain(`"value":"${integer}"`);
    expect((await send('1e999')).json()).toMatchObject({ code: 'REQUEST_INVALID', error: refusal });
  });

  it('is treated so in the arguments of a batch as text', async () => {
    const items = [integer, '1e999'].map((number) => ({
      id: number,
      type: 'function',
      function: { name: 'calculator', arguments: `{"expression":${number}}` },
    }));
    const batch = await fleet.ask({
      path: '/api/v1/tools/batch-execute',
      body: { calls: items },
      key: fleet.keys['acme']!,
    });
    expect(batch.status).toBe(200);
    expect(batch.text).toContain(integer);
    expect(batch.text).toContain(refusal);
  });
});

/** Spellings of a path that lead to the same route, or to none. */
const spellings = (tool: string) => [
  tool,
  tool.replace('_', '%5F'),
  `${tool}/`,
  tool.toUpperCase(),
  `%66${tool.slice(1)}`,
];

describe('dangerous tools', () => {
  const fileArguments = { path: 'a.txt', content: 'x', old_text: 'a', new_text: 'b' };

  it.each(DANGEROUS)('%s: is refused to read and to run, however it is spelled', async (tool) => {
    for (const key of [fleet.adminKey, fleet.keys['acme']!]) {
      for (const spelled of spellings(tool)) {
        const path = spelled.replace(/\/$/, '');
        const slash = spelled.endsWith('/') ? '/' : '';
        const asks: Ask[] = [
          { path: `/api/v1/tools/${path}${slash}` },
          { method: 'HEAD', path: `/api/v1/tools/${path}${slash}` },
          { path: `/api/v1/tools/${path}/execute${slash}`, body: { arguments: fileArguments } },
          { path: `/api/v1/tools/${path}/execute${slash}`, body: { arguments: fileArguments, dry_run: true } },
          { path: `/tools/${path}/schema${slash}` },
          { path: `/tools/${path}/metadata${slash}` },
          { path: '/tools/execute', body: { tool_name: spelled, parameters: fileArguments } },
        ];
        for (const ask of asks) {
          const { status, text } = await fleet.ask({ ...ask, key });
          expect([403, 404], `${ask.method ?? ''} ${ask.path} ${text}`).toContain(status);
          if (spelled === tool && ask.method !== 'HEAD') {
            expect(status, ask.path).toBe(403);
            expect(JSON.parse(text).error).toBe(DANGEROUS_ERROR);
          }
        }
      }
    }
  });

  it.each(DANGEROUS)('%s: is refused in a batch, as an asynchronous call and through MCP', async (tool) => {
    const key = fleet.keys['acme']!;
    const batch = await fleet.ask({
      path: '/api/v1/tools/batch-execute',
      body: {
        calls: [
          { name: tool, arguments: fileArguments },
          { name: 'calculator', arguments: { expression: '1+2' } },
        ],
      },
      key,
    });
    expect(batch.text).toContain(DANGEROUS_ERROR);
    expect(batch.text).toContain('TOOL_DANGEROUS');
    const shannon = await fleet.ask({
      path: '/tools/batch-execute',
      body: [{ tool_name: tool, parameters: fileArguments }],
      key,
    });
    expect(shannon.body[0].success).toBe(false);
    const called = await mcp('tools/call', { name: tool, arguments: fileArguments }, key);
    expect(called.text).toMatch(/"isError":true|"error":/);

    const accepted = await fleet.call(tool, fileArguments, { key, fields: { mode: 'async' } });
    if (accepted.status !== 202) return expect(accepted.status).toBe(403);
    const path = `/api/v1/calls/${String(accepted.body.call_id)}`;
    await eventually('the call ended', async () => (await fleet.ask({ path, key })).body.status === 'failed');
    expect((await fleet.ask({ path, key })).body.result.metadata.code).toBe('TOOL_DANGEROUS');
  });

  it('are in no list', async () => {
    const key = fleet.keys['acme']!;
    const asks: Ask[] = [
      { path: '/api/v1/tools?exclude_dangerous=false' },
      { path: '/api/v1/tools?category=file&exclude_dangerous=false' },
      { path: '/api/v1/tools?format=openai' },
      { path: '/tools/list?exclude_dangerous=false' },
      { path: '/tools/schemas?exclude_dangerous=false' },
      { path: '/tools/select', body: { task: 'write delete edit a file', max_tools: 8, exclude_dangerous: false } },
    ];
    for (const ask of asks) {
      const { status, text } = await fleet.ask({ ...ask, key });
      expect(status).toBe(200);
      for (const tool of DANGEROUS) expect(text, ask.path).not.toContain(tool);
    }
    const listed = await mcp('tools/list', {}, key);
    expect(listed.text).toContain('file_read');
    for (const tool of DANGEROUS) expect(listed.text).not.toContain(tool);
    expect(JSON.stringify((await overNats('acme', 'list', {})).body)).not.toContain('file_write');
  });
});

describe('without a valid credential', () => {
  const PUBLIC = new Set([
    'GET /',
    'GET /health',
    'GET /readiness',
    'GET /openapi.json',
    'GET /docs/errors',
    'GET /api/v1/sign-in',
    'POST /mcp/mock',
  ]);
  const routes = [...Object.keys(ROUTES), 'POST /mcp'].map((key) => {
    const [method = '', path = ''] = key.split(' ');
    return { key, method, path: path.replaceAll(/\{\w+\}/g, 'calculator') };
  });

  it('no route answers', async () => {
    expect(routes.length).toBeGreaterThan(25);
    const credentials: Record<string, string>[] = [
      {},
      { authorization: 'Bearer' },
      { authorization: 'Bearer wrong' },
      { authorization: `Bearer ${fleet.adminKey}x` },
      { authorization: `Basic ${Buffer.from(`a:${fleet.adminKey}`).toString('base64')}` },
      { 'x-api-key': 'tf_test_AAAAAAAA_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' },
      { 'x-admin-token': 'a-token-that-nobody-configured' },
    ];
    for (const { key, method, path } of routes) {
      if (PUBLIC.has(key)) continue;
      for (const headers of credentials) {
        const hasBody = method === 'POST' || method === 'PUT';
        const answer = await fleet.ask({ method, path, key: null, headers, ...(hasBody ? { body: {} } : {}) });
        expect(answer.status, `${method} ${path} with ${Object.keys(headers).join()}`).toBe(401);
        expect(answer.headers.get('www-authenticate')).toContain('Bearer');
        expect(answer.text).not.toContain('wrong');
      }
    }
  });

  it('no NATS endpoint answers', async () => {
    const anyone = await connect({ servers: `127.0.0.1:${fleet.nats.port}`, user: 'fleet', pass: 'pw-fleet' });
    try {
      for (const subject of ['tool.call', 'tool.batch', 'tool.list', 'tool.cancel']) {
        const body = {
          call: { name: 'calculator', arguments: {} },
          batch: { calls: [] },
          list: {},
          cancel: { call_id: 'x' },
        };
        const payload = JSON.stringify(body[subject.slice(5) as keyof typeof body]);
        for (const key of [undefined, 'wrong', `${fleet.adminKey}x`]) {
          const headers = natsHeaders();
          if (key !== undefined) headers.set('Authorization', `Bearer ${key}`);
          const reply = await anyone.request(subject, payload, { timeout: 10_000, headers });
          expect(reply.json(), subject).toMatchObject({ code: 'UNAUTHENTICATED' });
        }
      }
    } finally {
      await anyone.close();
    }
  });
});

describe('toolsets of the same name of two tenants', () => {
  const adminOf: Record<string, string> = {};
  const SPECS: Record<string, object> = {
    acme: {
      instructions: 'Remember what the customer said.',
      include: { tools: ['calculator'], sources: ['mcp/private'] },
      exclude: { tools: ['*_fail_with'] },
      order: ['remember'],
      overrides: {
        private_save_note: { name: 'remember', description: 'Remembers a text', preset: { delay_ms: 0 } },
        calculator: { name: 'reckon' },
      },
    },
    globex: { include: { tools: ['text_process', 'calculator'] }, read_only: true },
  };
  const SHOWN: Record<string, string[]> = {
    acme: ['remember', 'private_add', 'private_count_slowly', 'reckon'],
    globex: ['calculator', 'text_process'],
  };
  const put = (tenant: string, spec: object, name = 'helpdesk') =>
    fleet.ask({ method: 'PUT', path: `/api/v1/toolsets/${name}`, body: spec, key: adminOf[tenant]! });
  const inToolset = (method: string, params: object, key: string, path = '/mcp/t/helpdesk') =>
    fleet.ask({
      path,
      body: { jsonrpc: '2.0', id: 1, method, params },
      key,
      headers: { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-06-18' },
    });
  const names = (tools: { name: string }[]) => tools.map(({ name }) => name);

  beforeAll(async () => {
    for (const tenant of TENANTS) {
      const made = await fleet.ask({
        path: '/api/v1/keys',
        body: { client: 'toolset-admin', tenant_id: tenant, roles: ['admin'] },
        key: fleet.operatorKey,
      });
      adminOf[tenant] = made.body.token;
      const answer = await put(tenant, SPECS[tenant]!);
      expect(answer, answer.text).toMatchObject({ status: 200, body: { version: 1, tools: SHOWN[tenant] } });
    }
  });

  it('list and call their own tools concurrently, over MCP, HTTP and NATS', async () => {
    const key = (tenant: string) => fleet.keys[tenant]!;
    const rounds = Array.from({ length: 5 }, () => TENANTS).flat();
    await Promise.all(
      rounds.map(async (tenant) => {
        const overMcp = await inToolset('tools/list', {}, key(tenant));
        expect(names(overMcp.body.result.tools)).toEqual(SHOWN[tenant]);
        const overHttp = await fleet.ask({ path: '/api/v1/tools?toolset=helpdesk', key: key(tenant) });
        expect(names(overHttp.body)).toEqual(SHOWN[tenant]);
        const headers = natsHeaders();
        headers.set('X-Toolset', 'helpdesk');
        const reply = await nats[tenant]!.request(`tool.list.${tenant}`, '{}', { timeout: 20_000, headers });
        expect(names(reply.json())).toEqual(SHOWN[tenant]);
        const name = tenant === 'acme' ? 'reckon' : 'calculator';
        const params = { name, arguments: { expression: '6*7' } };
        expect((await inToolset('tools/call', params, key(tenant))).text).toContain('42');
        const call = await fleet.ask({
          path: `/api/v1/tools/${name}/execute?toolset=helpdesk`,
          body: { arguments: params.arguments },
          key: key(tenant),
        });
        expect(call.body, call.text).toMatchObject({ success: true, output: { result: 42 } });
        const called = await nats[tenant]!.request(`tool.call.${tenant}`, JSON.stringify(params), {
          timeout: 20_000,
          headers,
        });
        expect(called.json()).toMatchObject({ success: true, output: { result: 42 } });
      }),
    );
  });

  it('hide preset arguments, which callers cannot change', async () => {
    const key = fleet.keys['acme']!;
    const { body } = await fleet.ask({ path: '/api/v1/tools/remember?toolset=helpdesk', key });
    expect(body).toMatchObject({ name: 'remember', description: 'Remembers a text' });
    expect(Object.keys(body.parameters.properties)).toEqual(['text']);
    const ask = (tool: string, args: object, fields: object = {}) =>
      fleet.ask({
        path: `/api/v1/tools/${tool}/execute?toolset=helpdesk`,
        body: { arguments: args, ...fields },
        key,
      });
    for (const args of [
      { text: 'x', delay_ms: 50_000 },
      { remember: { text: 'x', delay_ms: 50_000 } },
      { private_save_note: { text: 'x', delay_ms: 50_000 } },
    ]) {
      const refused = await ask('remember', args);
      expect(refused.body, refused.text).toMatchObject({ code: 'ARGUMENTS_INVALID', details: { tool: 'remember' } });
      expect(refused.body.error).not.toContain("tool 'private_save_note'");
    }
    expect((await ask('remember', {})).body.error).toBe(
      "Invalid arguments for tool 'remember': Required parameter 'text' is missing",
    );
    const dry = await ask('remember', { text: 'of a dry run' }, { dry_run: true });
    expect(dry.body.output).toMatchObject({ tool: 'remember', arguments: { text: 'of a dry run' } });
    expect(dry.body.output.arguments).not.toHaveProperty('delay_ms');
    for (const name of ['private_save_note', 'private_fail_with', 'text_process', 'calculator'])
      expect((await ask(name, {})).body, name).toMatchObject({ code: 'TOOL_NOT_FOUND' });
    const accepted = await ask('remember', { text: 'of a toolset' }, { mode: 'async' });
    await eventually('the note is saved', async () => server.notes.get('of a toolset') === 1);
    const batch = await fleet.ask({
      path: '/api/v1/tools/batch-execute?toolset=helpdesk',
      body: { calls: [{ name: 'reckon', arguments: { expression: '1+1' } }] },
      key,
    });
    expect(batch.body[0]).toMatchObject({ success: true, function: { name: 'reckon' } });
    await eventually('the log has the original tool, and the toolset', () => {
      const line = fleet
        .logs()
        .split('\n')
        .find((one) => one.includes(String(accepted.body.call_id)) && one.includes('call finished'));
      if (line === undefined) return false;
      expect(JSON.parse(line)).toMatchObject({
        tool_name: 'private_save_note',
        toolset: { name: 'helpdesk', version: 1, tool: 'remember' },
      });
      return true;
    });
  });

  it('are what the clients and fleetctl list and call', async () => {
    const apiKey = fleet.keys['acme']!;
    const options = { apiKey, toolset: 'helpdesk' };
    const login = { url: fleet.nats.url, user: 'acme', password: 'pw-acme', tenant: 'acme' };
    const natsClient = await ToolfleetNatsClient.connect({ ...login, ...options });
    try {
      for (const client of [new ToolfleetClient({ url: fleet.url(), ...options }), natsClient]) {
        expect(names(await client.list())).toEqual(SHOWN['acme']);
        expect(await client.call('reckon', { expression: '6*7' })).toMatchObject({ output: { result: 42 } });
        expect(await client.batch([{ name: 'reckon', arguments: { expression: '6*8' } }])).toMatchObject([
          { function: { name: 'reckon' }, success: true },
        ]);
        const unknown = client.call('reckon', { expression: '1' }, { toolset: 'helpdesk@9' });
        await expect(unknown).rejects.toMatchObject({ code: 'NOT_FOUND', status: 404 });
        await expect(client.call('calculator', {})).rejects.toMatchObject({ code: 'TOOL_NOT_FOUND' });
        const { call_id: callId } = await client.callAsync('reckon', { expression: '6*9' });
        const http = new ToolfleetClient({ url: fleet.url(), apiKey });
        expect((await http.wait(callId)).result).toMatchObject({ output: { result: 54 } });
      }
    } finally {
      await natsClient.close();
    }
    const listed = await fleetctl(fleet, ['tools', '--toolset', 'helpdesk', '--json']);
    expect(names(JSON.parse(listed.out.toString())), listed.error).toEqual(SHOWN['acme']);
    const described = await fleetctl(fleet, ['describe', 'remember', '--toolset', 'helpdesk']);
    expect(described.out.toString(), described.error).toContain('fleetctl call remember --toolset helpdesk --text …');
    for (const more of [[], ['--async']]) {
      const called = await fleetctl(fleet, [
        'call',
        'reckon',
        '--toolset',
        'helpdesk',
        '--expression',
        '6 * 7',
        ...more,
      ]);
      expect([called.code, called.out.toString()], called.error).toEqual([0, expect.stringContaining('42')]);
    }
    const hidden = await fleetctl(fleet, ['call', 'calculator', '--toolset', 'helpdesk', '--expression', '1']);
    expect([hidden.code, hidden.error]).toEqual([1, expect.stringContaining("not found in toolset 'helpdesk'")]);
  });

  it('have versions: clients may pin one, administrators can restore one, and subscribers are notified', async () => {
    const key = fleet.keys['globex']!;
    const listed = async (toolset: string) =>
      names((await inToolset('tools/list', {}, key, `/mcp/t/${toolset}`)).body.result.tools);
    const stream = await fetch(`${fleet.url()}/mcp/t/helpdesk`, {
      method: 'POST',
      signal: AbortSignal.timeout(PATIENCE_MS),
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'subscriptions/listen',
      },
      body: JSON.stringify(LISTEN),
    });
    const events = stream.body!.pipeThrough(new TextDecoderStream()).getReader();
    expect((await put('globex', { include: { tools: ['calculator'] } })).body).toMatchObject({ version: 2 });
    let heard = '';
    while (!heard.includes('notifications/tools/list_changed')) heard += (await events.read()).value ?? '';
    await events.cancel();
    await eventually('the new version is listed', async () => (await listed('helpdesk')).length === 1);
    expect(await listed('helpdesk@1')).toEqual(SHOWN['globex']);
    const back = await fleet.ask({
      path: '/api/v1/toolsets/helpdesk/rollback',
      body: { version: 1 },
      key: adminOf['globex']!,
    });
    expect(back.body).toMatchObject({ version: 3, restores: 1, tools: SHOWN['globex'] });
    expect(back.body.versions.map(({ version }: { version: number }) => version)).toEqual([3, 2, 1]);
    await eventually('the old tools are back', async () => (await listed('helpdesk')).length === 2);
    for (const unknown of ['helpdesk@9', 'nothing']) {
      const refused = await inToolset('tools/list', {}, key, `/mcp/t/${unknown}`);
      expect([refused.status, refused.body.error]).toEqual([404, `No toolset '${unknown}'`]);
    }
    expect((await inToolset('tools/list', {}, key, '/mcp?toolset=a b')).status).toBe(400);
  });

  it('are the only tools of a key that is bound to one', async () => {
    const made = await fleet.ask({
      path: '/api/v1/keys',
      body: { client: 'desk', toolset: 'helpdesk' },
      key: adminOf['acme']!,
    });
    expect(made, made.text).toMatchObject({ status: 201, body: { toolset: 'helpdesk' } });
    const key = String(made.body.token);
    expect(names((await fleet.ask({ path: '/api/v1/tools', key })).body)).toEqual(SHOWN['acme']);
    expect(names((await fleet.ask({ path: '/api/v1/catalog', key })).body)).toEqual(SHOWN['acme']);
    expect((await fleet.ask({ path: `/api/v1/calls/${callOf['acme']}`, key })).status).toBe(404);
    const client = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'spec', version: '1' } };
    const { text } = await inToolset('initialize', client, key, '/mcp');
    expect(text).toContain('"instructions":"Remember what the customer said.\\n\\nTools of');
    expect((await fleet.ask({ path: '/tools/list', key })).body).toEqual(SHOWN['acme']);
    expect(names((await inToolset('tools/list', {}, key, '/mcp')).body.result.tools)).toEqual(SHOWN['acme']);
    expect(names((await overNats('acme', 'list', {}, key)).body)).toEqual(SHOWN['acme']);
    expect((await fleet.call('reckon', { expression: '2+2' }, { key })).body.output).toMatchObject({ result: 4 });
    expect((await fleet.call('calculator', { expression: '2+2' }, { key })).status).toBe(404);
    const unbound = 'sums';
    for (const ask of [
      { path: `/api/v1/tools?toolset=${unbound}`, key },
      { path: '/api/v1/tools', headers: { 'x-toolset': unbound }, key },
      { path: '/api/v1/tools?toolset=helpdesk@1', key },
    ]) {
      const refused = await fleet.ask(ask);
      expect(refused, refused.text).toMatchObject({ status: 403, body: { code: 'PERMISSION_DENIED' } });
      expect(refused.body.error).toContain("This credential is bound to toolset 'helpdesk'");
    }
    expect((await inToolset('tools/list', {}, key, `/mcp/t/${unbound}`)).status).toBe(403);
  });

  it('are changed by the administrators of their tenant, shared ones by operators', async () => {
    const path = '/api/v1/toolsets/helpdesk';
    expect((await fleet.ask({ path, key: fleet.keys['acme']! })).status).toBe(403);
    expect((await fleet.ask({ path: `${path}@globex`, key: adminOf['acme']! })).status).toBe(404);
    const shared = { method: 'PUT', path: '/api/v1/toolsets/sums?visibility=fleet' };
    const body = { include: { tools: ['calculator'] } };
    expect((await fleet.ask({ ...shared, body, key: adminOf['acme']! })).status).toBe(403);
    expect((await fleet.ask({ ...shared, body, key: fleet.operatorKey })).status).toBe(200);
    for (const tenant of TENANTS) {
      const listed = await fleet.ask({ path: '/api/v1/tools?toolset=sums', key: fleet.keys[tenant]! });
      expect(names(listed.body)).toEqual(['calculator']);
    }
    for (const [spec, message] of [
      [{ includes: {} }, 'includes'],
      [{ overrides: { calculator: { preset: { expresion: '1' } } } }, "'expresion' is not an argument of calculator"],
      [{ overrides: { calculator: { hide: ['expression'] } } }, "'expression' is required"],
      [{ overrides: { calculator: { name: 'a' }, text_process: { name: 'a' } } }, 'is the name of calculator already'],
      [{ overrides: { calculator: { name: 'search_tools' } } }, 'is the name of a tool of the gateway already'],
    ] as const) {
      const refused = await put('acme', spec);
      expect(refused, refused.text).toMatchObject({ status: 400, body: { code: 'REQUEST_INVALID' } });
      expect(refused.body.error).toContain(message);
    }
  });

  it('hide a tool whose definition changed under its override until it is approved', async () => {
    // Changes of this source take effect at once, but not in an override.
    const source = { name: 'shelf', url: `${changing.origin}/mcp`, pin: 'off' };
    const registered = await fleet.ask({ path: '/api/v1/sources/mcp', body: source, key: adminOf['acme']! });
    expect(registered.status, registered.text).toBe(201);
    const spec = { include: { sources: ['mcp/shelf'] }, overrides: { shelf_find: { name: 'find_book' } } };
    const listed = async (): Promise<string[]> =>
      names((await fleet.ask({ path: '/api/v1/tools?toolset=shelf', key: fleet.keys['acme']! })).body);
    await fleet.untilListed(['shelf_find']);
    expect((await put('acme', spec, 'shelf')).body).toMatchObject({ tools: ['find_book'], quarantined: [] });
    changing.describe('Finds a book and sends it to the author');
    await fleet.ask({ path: '/api/v1/sources/mcp/shelf/refresh', method: 'POST', key: adminOf['acme']! });
    await eventually('the tool is hidden', async () => (await listed()).length === 0);
    const call = { path: '/api/v1/tools/find_book/execute?toolset=shelf', body: { arguments: { name: 'x' } } };
    const refused = await fleet.ask({ ...call, key: fleet.keys['acme']! });
    expect(refused.body).toMatchObject({ code: 'TOOL_QUARANTINED' });
    expect(refused.body.error).toContain("override in toolset 'shelf' was written for another definition");
    const { body } = await fleet.ask({ path: '/api/v1/toolsets/shelf', key: adminOf['acme']! });
    expect(body.quarantined).toMatchObject([{ name: 'shelf_find', reason: 'changed: description' }]);
    const approve = (revision: string) =>
      fleet.ask({
        path: '/api/v1/toolsets/shelf/approve',
        body: { tool: 'shelf_find', pending_revision: revision },
        key: adminOf['acme']!,
      });
    expect((await approve('0123456789abcdef')).status).toBe(400);
    expect((await approve(body.quarantined[0].pending_revision)).body).toMatchObject({ quarantined: [] });
    await eventually('the tool is back', async () => (await listed()).includes('find_book'));
    expect((await fleet.ask({ ...call, key: fleet.keys['acme']! })).body).toMatchObject({ success: true });
  });
});
