/**
 * Plain MCP clients use session-aware tools without any field of their own: their session is the exchange's, and their project
 * their key's, of the header `X-Project-Id` or of their tenant.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { connect as connectNats, headers as natsHeaders, type NatsConnection } from 'nats';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestFleet } from '../fleet/test-fleet.js';

const FILES = ['file_list', 'file_read', 'file_exists', 'file_search', 'file_mkdir'];

let fleet: TestFleet;
let nats: NatsConnection;
const clients: Client[] = [];

beforeAll(async () => {
  fleet = await TestFleet.start({
    together: true,
    services: { budget: 1, registry: 1, 'builtin-executor': 1, 'python-sandbox': 1, gateway: 2 },
    config: { default_projects: { globex: 'lobby' } },
    env: { BUILTIN_TOOLSETS: 'compute,files' },
    tools: [...FILES, 'execute_python'],
  });
  nats = await connectNats({ servers: fleet.nats.url });
});
afterAll(async () => {
  for (const client of clients) await client.close();
  await nats?.close();
  await fleet?.stop();
});

interface Connected {
  text(name: string, args?: object, meta?: object): Promise<string>;
}

/** A client of one protocol revision; requests alternate between both gateways. */
async function connect(mode: 'auto' | 'legacy', key: string, headers: Record<string, string> = {}): Promise<Connected> {
  const client = new Client({ name: 'plain', version: '1' }, { versionNegotiation: { mode } });
  let requests = 0;
  const alternate: typeof fetch = (_url, init) => fetch(`${fleet.url((requests += 1) % 2)}/mcp`, init);
  const requestInit = { headers: { Authorization: `Bearer ${key}`, ...headers } };
  const url = new URL(`${fleet.url()}/mcp`);
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit, fetch: alternate }));
  clients.push(client);
  return {
    text: async (name, args = {}, meta) => {
      const { content } = await client.callTool({
        name,
        arguments: args as Record<string, unknown>,
        _meta: { ...meta },
      });
      return JSON.stringify(content);
    },
  };
}

let keys = 0;
async function createKey(projects?: string[]): Promise<string> {
  const created = await fleet.ask({
    path: '/api/v1/keys',
    body: { client: `c${(keys += 1)}`, tenant_id: 'acme', projects, roles: ['admin'], tier: 'wide' },
    key: fleet.operatorKey,
  });
  expect(created.status, created.text).toBe(201);
  expect(created.body.projects).toEqual(projects ?? []);
  return created.body.token;
}

/** A call of an internal service of tenant acme. */
async function internal(name: string, args: object, fields: object, key = fleet.adminKey): Promise<any> {
  const headers = natsHeaders();
  headers.set('Authorization', `Bearer ${key}`);
  const message = JSON.stringify({ name, arguments: args, ...fields });
  return (await nats.request('tool.call', message, { timeout: 30_000, headers })).json();
}

describe.each(['auto', 'legacy'] as const)('a plain MCP client (%s)', (mode) => {
  it('has files in the session of its exchange', async () => {
    const client = await connect(mode, await createKey());
    expect(await client.text('file_mkdir', { path: 'notes' })).toContain('Directory notes exists');
    expect(await client.text('file_list')).toContain('notes/');
    expect(await client.text('file_list', {}, { session_id: 'own' })).toContain('Nothing found');
    expect(await (await connect(mode, await createKey())).text('file_list')).toContain('Nothing found');
  });

  it('works in the project of its key, together with internal callers', async () => {
    const project = `shop-${mode}`;
    const client = await connect(mode, await createKey([project, 'other']));
    expect(await client.text('file_list')).toContain('Nothing found');
    await internal(
      'file_write',
      { path: 'a.txt', content: 'from inside' },
      { project_id: project, create_project: true },
    );
    expect(await client.text('file_read', { path: 'a.txt' })).toContain('from inside');
    const second = await connect(mode, await createKey([`shop-*`]), { 'X-Project-Id': project });
    expect(await second.text('file_search', { query: 'inside' })).toContain('a.txt');
  });

  it('gets "Project not found" from every tool for a project that does not exist, and creates none', async () => {
    const client = await connect(mode, await createKey(['g-*']), { 'X-Project-Id': `g-${mode}` });
    const calls: [string, object][] = [
      ['file_list', {}],
      ['file_read', { path: 'a' }],
      ['file_exists', { path: 'a' }],
      ['file_search', { query: 'x' }],
      ['file_mkdir', { path: 'a' }],
    ];
    for (const [name, args] of calls)
      expect(await client.text(name, args), name).toContain(`Project not found: g-${mode}`);
  });

  it('is refused at once if its key may not use the project of the header', async () => {
    for (const key of [await createKey(), await createKey(['shop'])])
      await expect(connect(mode, key, { 'X-Project-Id': 'foreign' })).rejects.toThrow(
        /403|may not use project 'foreign'/,
      );
  });

  it('works in the default project of its tenant', async () => {
    const client = await connect(mode, fleet.keys['globex']!);
    await client.text('file_mkdir', { path: `by-${mode}` });
    const answer = await fleet.call('file_list', {}, { key: fleet.keys['globex']! });
    expect(answer.body.text).toContain(`by-${mode}`);
  });
});

describe('variables of Python', () => {
  it('stay in the session of a 2025 client, and in no session of a 2026 client', async () => {
    const key = await createKey();
    const [one, two, modern] = await Promise.all([
      connect('legacy', key),
      connect('legacy', key),
      connect('auto', key),
    ]);
    for (const client of [one, modern]) await client.text('execute_python', { code: 'kept = 42' });
    expect(await one.text('execute_python', { code: 'print(kept)' })).toContain('42');
    expect(await two.text('execute_python', { code: 'print(kept)' })).toContain('NameError');
    expect(await modern.text('execute_python', { code: 'print(kept)' })).toContain('NameError');
  });
});

describe('the project of other callers', () => {
  const noProject = {
    success: false,
    error: expect.stringMatching(/^project_id is required for file operations: send session_id.*X-Project-Id/),
  };

  it('over HTTP is that of the key or the header', async () => {
    const key = await createKey(['http-a', 'http-b']);
    const list = (headers = {}, fields = {}) => fleet.call('file_list', {}, { key, headers, fields });
    expect(
      (await fleet.call('file_mkdir', { path: 'in-b' }, { key, headers: { 'x-project-id': 'http-b' } })).status,
    ).toBe(200);
    expect((await list()).body.output.count).toBe(0);
    expect((await list({ 'x-project-id': 'http-b' })).body.output.count).toBe(1);
    const refused = await list({ 'x-project-id': 'foreign' });
    expect([refused.status, refused.body]).toMatchObject([403, { code: 'PERMISSION_DENIED' }]);
    expect((await list({}, { project_id: 'http-b' })).body).toMatchObject({ code: 'REQUEST_INVALID' });
    expect((await fleet.call('file_list', {}, { key: await createKey() })).body).toMatchObject(noProject);
  });

  it('over NATS is created only on request, and is limited by a key that lists projects', async () => {
    const write = (fields: object, key?: string) => internal('file_write', { path: 'a', content: 'x' }, fields, key);
    expect(await write({ project_id: 'made' })).toMatchObject({ success: false, error: 'Project not found: made' });
    expect(await write({ project_id: 'made', create_project: true })).toMatchObject({ success: true });
    expect(await write({ project_id: 'made' })).toMatchObject({ success: true });
    const key = await createKey(['nats-*']);
    expect(await write({ project_id: 'made' }, key)).toMatchObject({ code: 'PERMISSION_DENIED' });
    expect(await write({ project_id: 'nats-1', create_project: true }, key)).toMatchObject({ success: true });
  });

  it('cannot be granted by an administrator who may not use it', async () => {
    const admin = await createKey(['team-*']);
    const create = (projects?: string[]) =>
      fleet.ask({ path: '/api/v1/keys', body: { client: `c${(keys += 1)}`, projects }, key: admin });
    expect((await create(['team-a'])).status).toBe(201);
    expect((await create()).body.projects).toEqual(['team-*']);
    expect((await create(['shop'])).status).toBe(403);
    expect((await create(['*'])).status).toBe(403);
    expect((await create(['a,b'])).status).toBe(403);
  });
});
