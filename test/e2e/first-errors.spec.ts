/** The mistakes of a first hour: each answer names what was wrong and what to do. */
import { mkdtempSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { auth, type OAuthClientProvider } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { eventually } from '@toolfleet/testing';
import { connect, headers as natsHeaders } from 'nats';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startCountingMcpServer } from '../fleet/counting-mcp-server.js';
import { TestFleet } from '../fleet/test-fleet.js';

const REGISTER_TOKEN = 'register-token-of-this-spec-0123456789';
const folder = mkdtempSync(join(tmpdir(), 'toolfleet-first-errors-'));
const allowedEndpoints = join(folder, 'allowed-endpoints');
let fleet: TestFleet;

beforeAll(async () => {
  fleet = await TestFleet.start({
    together: true,
    services: { budget: 1, registry: 1, 'builtin-executor': 1, 'mcp-executor': 1, gateway: 1 },
    env: { MCP_REGISTER_TOKEN: REGISTER_TOKEN, EGRESS_ENDPOINTS_FILE: allowedEndpoints },
    tools: ['calculator'],
  });
});
afterAll(async () => {
  await fleet?.stop();
  await rm(folder, { recursive: true });
});

/** A client that signs in with OAuth when it gets a 401, as the MCP inspector and mcp-remote do. */
function signingIn(): OAuthClientProvider {
  return {
    redirectUrl: 'http://localhost:9/callback',
    clientMetadata: { redirect_uris: ['http://localhost:9/callback'] },
    clientInformation: () => undefined,
    saveClientInformation: () => undefined,
    tokens: () => undefined,
    saveTokens: () => undefined,
    redirectToAuthorization: () => undefined,
    saveCodeVerifier: () => undefined,
    codeVerifier: () => '',
  };
}

describe('a URL near the right one', () => {
  const requestInit = () => ({ headers: { Authorization: `Bearer ${fleet.adminKey}` } });

  it('/mcp/ is /mcp; listChanged is true for clients that have a stream for it', async () => {
    const url = new URL(`${fleet.url()}/mcp/`);
    const old = new ClientV1({ name: 'v1', version: '1' });
    await old.connect(new TransportV1(url, { requestInit: requestInit() }));
    expect(old.getServerCapabilities()?.tools).toEqual({ listChanged: true });
    expect(JSON.stringify(await old.listTools())).toContain('calculator');
    await old.close();
    const modern = new Client({ name: 'v2', version: '1' }, { versionNegotiation: { mode: 'auto' } });
    await modern.connect(new StreamableHTTPClientTransport(url, { requestInit: requestInit() }));
    expect(modern.getServerCapabilities()?.tools).toEqual({ listChanged: true });
    const call = { name: 'calculator', arguments: { expression: '6*7' } };
    expect(JSON.stringify(await modern.callTool(call))).toContain('42');
    await modern.close();
  });

  it('/ names what is served where; a browser gets the console', async () => {
    const index = await fleet.ask({ path: '/', key: null });
    expect(index).toMatchObject({ status: 200, body: { name: 'toolfleet', mcp: '/mcp', api: '/api/v1/tools' } });
    for (const name of ['api', 'openapi', 'mcp', 'readiness'])
      expect((await fleet.ask({ path: index.body[name] })).status, name).not.toBe(404);
    const page = await fetch(fleet.url(), { headers: { accept: 'text/html,*/*' }, redirect: 'manual' });
    expect([page.status, page.headers.get('location')]).toEqual([302, '/console']);
    const posted = await fleet.ask({ path: '/', body: {} });
    expect(posted).toMatchObject({ status: 405, body: { error: expect.stringContaining('MCP is served at /mcp') } });
  });
});

describe('a refused key over MCP', () => {
  const PLAIN = 'This gateway has no OAuth sign-in and takes API keys';

  it('is reported without pointing to OAuth metadata', async () => {
    const headers = { Authorization: 'Bearer wrong', 'content-type': 'application/json' };
    const refused = await fetch(`${fleet.url()}/mcp`, { method: 'POST', body: '{}', headers });
    expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="toolfleet"']);
    expect(await refused.json()).toMatchObject({ code: 'UNAUTHENTICATED' });
  });

  it('reads as such in clients that try to sign in', async () => {
    const requestInit = { headers: { Authorization: 'Bearer wrong' } };
    const transport = new TransportV1(new URL(`${fleet.url()}/mcp`), { requestInit, authProvider: signingIn() });
    await expect(new ClientV1({ name: 'v1', version: '1' }).connect(transport)).rejects.toThrow(PLAIN);
    await expect(auth(signingIn(), { serverUrl: `${fleet.url()}/mcp` })).rejects.toThrow(PLAIN);
  });

  it.each([
    ['GET', '/.well-known/oauth-protected-resource'],
    ['GET', '/.well-known/oauth-protected-resource/mcp'],
    ['GET', '/.well-known/oauth-authorization-server'],
    ['GET', '/.well-known/oauth-authorization-server/mcp'],
    ['GET', '/.well-known/openid-configuration'],
    ['GET', '/mcp/.well-known/openid-configuration'],
    ['GET', '/authorize?response_type=code'],
    ['POST', '/register'],
    ['POST', '/token'],
  ])('%s %s is 404 with JSON that names what this fleet takes', async (method, path) => {
    const body = method === 'POST' ? { redirect_uris: [] } : undefined;
    const answer = await fleet.ask({ method, path, body, key: null });
    expect(answer.status).toBe(404);
    expect(answer.body).toMatchObject({ code: 'NOT_FOUND', error_description: expect.stringContaining(PLAIN) });
  });
});

describe('a misspelt tool', () => {
  const args = { expression: '1' };
  const asAdmin = () => {
    const sent = natsHeaders();
    sent.set('Authorization', `Bearer ${fleet.adminKey}`);
    return { headers: sent, timeout: 10_000 };
  };
  const overNats = async (subject: string, body: object): Promise<string> => {
    const nats = await connect({ servers: fleet.nats.url });
    const answer = await nats.request(subject, JSON.stringify(body), asAdmin()).finally(() => nats.close());
    return answer.string();
  };
  const overHttp = async (path: string, body?: object): Promise<string> => (await fleet.ask({ path, body })).text;
  const overMcp = async (): Promise<string> => {
    const client = new Client({ name: 'spec', version: '1' });
    const requestInit = { headers: { Authorization: `Bearer ${fleet.adminKey}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(`${fleet.url()}/mcp`), { requestInit }));
    const refused = await client.callTool({ name: 'calculater', arguments: args }).catch((error: Error) => error);
    await client.close();
    return refused instanceof Error ? refused.message : JSON.stringify(refused);
  };

  it.each<[string, () => Promise<string>]>([
    ['HTTP', () => overHttp('/api/v1/tools/calculater/execute', { arguments: args })],
    ['its definition', () => overHttp('/api/v1/tools/calculater')],
    ['an asynchronous call', () => overHttp('/api/v1/tools/calculater/execute', { arguments: args, mode: 'async' })],
    ['a batch', () => overHttp('/api/v1/tools/batch-execute', [{ name: 'calculater', arguments: args }])],
    ["Shannon's path", () => overHttp('/tools/execute', { tool_name: 'calculater', parameters: args })],
    ['NATS', () => overNats('tool.call', { name: 'calculater', arguments: args })],
    ['a batch over NATS', () => overNats('tool.batch', { calls: [{ name: 'calculater', arguments: args }] })],
    ['MCP', overMcp],
  ])('over %s names the right one', async (_, ask) => {
    expect(await ask()).toContain('did you mean calculator?');
  });
});

describe('a request near the right one', () => {
  it.each<[string, object, string]>([
    [
      'calculator/execute',
      { arguments: { expression: '1' }, timeout: 5 },
      "Unknown field 'timeout'; did you mean timeout_ms?",
    ],
    ['batch-execute', { name: 'calculator', arguments: {} }, 'put this call into an array'],
  ])('of %s learns what to change', async (path, body, message) => {
    const refused = await fleet.ask({ path: `/api/v1/tools/${path}`, body });
    expect(refused).toMatchObject({
      status: 400,
      body: { code: 'REQUEST_INVALID', error: expect.stringContaining(message) },
    });
    const { doc_url: address } = refused.body as { doc_url: string };
    const page = await fetch(new URL(address, fleet.url()));
    expect(page.headers.get('content-type')).toMatch('text/html');
    expect(await page.text()).toContain(`id="${address.split('#')[1]}"><td><code>REQUEST_INVALID</code>`);
  });
});

describe('X-API-Key', () => {
  const calculate = { name: 'calculator', arguments: { expression: '6*7' } };
  it.each<[string, string, unknown]>([
    ['GET', '/api/v1/tools', undefined],
    ['POST', '/api/v1/tools/calculator/execute', { arguments: { expression: '6*7' } }],
    ['POST', '/api/v1/tools/batch-execute', [calculate]],
    ['GET', '/api/v1/usage', undefined],
    ['GET', '/api/v1/catalog', undefined],
    ['GET', '/tools/list', undefined],
    ['POST', '/tools/execute', { tool_name: 'calculator', parameters: { expression: '6*7' } }],
    ['POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params: calculate }],
  ])('opens %s %s', async (method, path, body) => {
    const headers = { 'X-API-Key': fleet.adminKey, accept: 'application/json, text/event-stream' };
    const answer = await fleet.ask({ method, path, body: body as object | undefined, key: null, headers });
    expect(answer.status, answer.text).toBe(200);
  });

  it('may hold the registration token', async () => {
    const answer = await fetch(`${fleet.url()}/api/v1/sources/mcp`, {
      method: 'POST',
      headers: { 'X-API-Key': REGISTER_TOKEN, 'content-type': 'application/json' },
      body: '{}',
    });
    expect(answer.status).toBe(400);
  });

  it('opens tool.call over NATS', async () => {
    const nats = await connect({ servers: `127.0.0.1:${fleet.nats.port}` });
    const call = async (key: string): Promise<object> => {
      const headers = natsHeaders();
      headers.set('X-API-Key', key);
      const reply = await nats.request('tool.call', JSON.stringify(calculate), { timeout: 20_000, headers });
      return reply.json();
    };
    expect(await call(fleet.adminKey)).toMatchObject({ success: true, text: '42' });
    expect(await call('wrong')).not.toMatchObject({ success: true });
    await nats.close();
  });
});

describe('a body without arguments', () => {
  it('is answered with where they belong', async () => {
    const answer = await fleet.ask({
      method: 'POST',
      path: '/api/v1/tools/calculator/execute',
      body: { expression: '1' },
    });
    expect(answer.status).toBe(400);
    expect(answer.body.error).toBe(
      `Unknown field 'expression'; arguments of the tool belong in arguments: {"arguments": {"expression": …}}`,
    );
  });
});

describe('a registration', () => {
  const register = (body: object) => fleet.ask({ method: 'POST', path: '/api/v1/sources/mcp', body });

  it('of an address on this machine names the setting that allows it', async () => {
    const { body } = await register({ name: 'mine', url: 'http://127.0.0.1:9/mcp', transport: 'streamable-http' });
    expect(JSON.stringify(body)).toMatch(
      /Refused by the egress guard \(\w+\): 127\.0\.0\.1; .*EGRESS_ALLOWED_ENDPOINTS/,
    );
  });

  it('succeeds once the origin is in the file of allowed endpoints, without a restart', async () => {
    const server = await startCountingMcpServer();
    const mine = () => register({ name: 'mine', url: `${server.origin}/mcp`, transport: 'streamable-http' });
    expect(await mine()).toMatchObject({ status: 422, body: { code: 'SOURCE_REFUSED' } });
    await writeFile(allowedEndpoints, `# servers on this machine\n${server.origin}\n`);
    await eventually('the file was read', async () => (await mine()).status < 300);
    const call = await fleet.call('mine_add', { a: 1, b: 2 });
    expect(call.body).toMatchObject({ success: true, text: '3' });
    await server.stop();
  });

  it('with a variable of the fleet names the variable and what is allowed', async () => {
    const { status, body } = await register({
      name: 'mine',
      url: 'https://mcp.example/mcp',
      transport: 'streamable-http',
      headers: { Authorization: 'Bearer ${CRM_TOKEN}' },
    });
    expect(status).toBe(400);
    expect(body.error).toMatch(/must not contain \$\{CRM_TOKEN\}.*visibility "fleet".*send the value itself/);
  });
});
