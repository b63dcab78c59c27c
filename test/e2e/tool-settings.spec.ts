/**
 * One set of tool settings for tools of every kind, from the configuration file and by registration: what an administrator sets
 * decides what a caller may do and what the upstream receives.
 */
import { readFileSync } from 'node:fs';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { TOOL_DEFINITION } from '@toolfleet/contracts/tool-definition';
import { TOOL_SETTINGS } from '@toolfleet/contracts/tool-settings';
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exportJWK, generateKeyPair, SignJWT, type JWTPayload } from 'jose';
import { connect, headers as natsHeaders } from 'nats';
import { z } from 'zod';
import { TestFleet } from '../fleet/test-fleet.js';

/** Settings of each tool of the upstream, by its name there. No tool is idempotent or protected by itself. */
const SETTINGS = {
  look: { idempotent: true, cache_ttl_seconds: 3 },
  flaky: {
    idempotent: true,
    cache_ttl_seconds: 0,
    retry_policy: { kind: 'custom', max_attempts: 2, base_delay_ms: 1, multiplier: 1 },
  },
  once: {},
  drop: { dangerous: true },
  limited: { rate_limit: 1 },
  patient: { rate_limit: 1, rate_limit_mode: 'wait' },
  // A failed call that may have had an effect is never replaced.
  stubbed: { idempotent: true, retry_policy: { kind: 'none' }, stub_data: { rate: 1.5 } },
  whoami: { session_aware: true, requires_auth: true },
  unsafe: { idempotent: false, retry_policy: { kind: 'custom', max_attempts: 2, base_delay_ms: 1, multiplier: 1 } },
  part: { select: 'tool' },
  slow: { timeout_seconds: 1 },
} as const;
type Tool = keyof typeof SETTINGS;
const TOOLS = Object.keys(SETTINGS) as Tool[];
/** For sources of several tools; `drop*` shows that patterns work, and `*` that exact names go over it. */
const { drop, ...exact } = SETTINGS;
const OVERRIDES = { '*': { rate_limit: 0 }, 'drop*': drop, ...exact };

const DEVELOPMENT_KEY = 'a-development-key-of-the-spec';
const ADMIN_KEY = 'an-admin-key-of-the-spec-0123456789abcdef';
const ISSUER = 'https://issuer.test';
const signing = await generateKeyPair('ES256');

interface Upstream {
  origin: string;
  /** Calls that arrived, by id, the argument of every call. */
  calls: Map<string, number>;
  /** Session and user that arrived with the call of `whoami`, by id. */
  callers: Map<string, { session: unknown; user: unknown }>;
  stop(): Promise<void>;
}

/** A server with tools that exist three times: at an MCP server, as functions, and as operations. `flaky` fails once, `stubbed` always. */
async function startUpstream(): Promise<Upstream> {
  const calls = new Map<string, number>();
  const callers = new Map<string, { session: unknown; user: unknown }>();
  const arrive = (id: string): number => {
    calls.set(id, (calls.get(id) ?? 0) + 1);
    return calls.get(id) as number;
  };
  const fails = (tool: string, id: string): boolean =>
    tool === 'stubbed' || (['flaky', 'once', 'unsafe'].includes(tool) && calls.get(id) === 1);
  const mcp = toNodeHandler(
    createMcpHandler(() => {
      const server = new McpServer({ name: 'settings', version: '1.0.0' });
      for (const tool of TOOLS) {
        server.registerTool(
          tool,
          { description: `The tool ${tool}.`, inputSchema: z.object({ id: z.string() }) },
          ({ id }) => ({
            content: [{ type: 'text', text: `${tool} ${id}` }],
          }),
        );
      }
      const text = 'Hello';
      server.registerPrompt('hello', { description: 'Greets.' }, () => ({
        messages: [{ role: 'user', content: { type: 'text', text } }],
      }));
      server.registerResource('guide', 'docs://guide', {}, ({ href: uri }) => ({ contents: [{ uri, text }] }));
      return server;
    }),
  );
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname } = new URL(request.url ?? '/', 'http://upstream');
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = chunks.length > 0 ? JSON.parse(Buffer.concat(chunks).toString()) : {};
    const send = (status: number, value: unknown): void =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    if (pathname === '/openapi.json') return send(200, document(origin));
    if (pathname === '/jwks')
      return send(200, { keys: [{ ...(await exportJWK(signing.publicKey)), alg: 'ES256', kid: 'k1' }] });
    if (pathname === '/interceptor') return send(200, serviceVerdict(body));
    const isMcpCall = pathname === '/mcp' && body.method === 'tools/call';
    const [tool, id] =
      pathname === '/functions'
        ? [body.function, body.args.id]
        : isMcpCall
          ? [body.params.name, body.params.arguments.id]
          : [pathname.slice(1), body.id];
    if (pathname !== '/mcp' || isMcpCall) {
      arrive(id);
      const meta = body.params?._meta ?? {};
      callers.set(id, {
        session: meta['io.toolfleet/session-id'] ?? request.headers['x-session-id'],
        user: meta['io.toolfleet/user-id'] ?? request.headers['x-user-id'],
      });
      if (tool === 'slow') await sleep(4_000);
      if (fails(tool, id)) return send(503, { error: 'busy' });
    }
    if (pathname !== '/mcp') return send(200, { tool, id });
    await mcp(request, response, body);
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    origin,
    calls,
    callers,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The operator's service: refuses an argument, of whatever tool. */
const serviceVerdict = ({ call }: { call: { arguments: unknown } }) =>
  JSON.stringify(call.arguments).includes('forbidden') ? { allow: false, reason: 'forbidden' } : { allow: true };

/** Every operation is a POST, neither idempotent nor cached unless a setting makes it so. */
const document = (origin: string) => ({
  openapi: '3.1.0',
  info: { title: 'settings', version: '1.0.0' },
  servers: [{ url: origin }],
  paths: Object.fromEntries(
    TOOLS.map((tool) => [
      `/${tool}`,
      {
        post: {
          operationId: tool,
          requestBody: {
            required: true,
            content: {
              'application/json': {
                schema: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] },
              },
            },
          },
          responses: {
            200: { description: 'Done', content: { 'application/json': { schema: { type: 'object' } } } },
          },
        },
      },
    ]),
  ),
});

/** A plugin that lets calls of its process fail; the operator protects it in `tool_settings`. */
const PLUGIN = `export default ({ defineTool, ok }) => ['plug_open', 'plug_closed'].map((name) => defineTool({
  name, description: 'Answers', category: 'data', inputSchema: { type: 'object', properties: {} },
  stubData: { from: 'stub' }, rateLimitMode: 'reject',
  handler: () => ok({ from: 'plugin' }, 'answered'),
})).concat(defineTool({
  name: 'plug_endless', description: 'Never answers', category: 'data', inputSchema: { type: 'object', properties: {} },
  handler: () => new Promise(() => {}),
}), defineTool({
  name: 'plug_large', description: 'Answers with a text', category: 'data', rateLimit: 0, memoryLimitMb: 1,
  inputSchema: { type: 'object', properties: { bytes: { type: 'integer' }, padding: { type: 'string' } } },
  handler: ({ bytes }) => ok({ text: 'x'.repeat(bytes) }, 'answered'),
}), defineTool({
  name: 'plug_echo', description: 'Repeats', category: 'data', idempotent: true, rateLimit: 0, costMicroUsd: 4_000,
  outputSchema: { type: 'object' },
  inputSchema: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] },
  handler: ({ id }) => ok({ id }, id),
}));`;

/** An interceptor of the operator in process: the last word of the id says what it does. */
const HOUSE = `export default {
  async intercept(call, next) {
    const id = call.arguments.id ?? call.arguments.body?.id ?? '';
    const withId = (other) => ({ arguments: call.arguments.body ? { body: { id: other } } : { id: other } });
    const word = id.split(' ').at(-1);
    if (call.at === 'call') {
      if (word === 'swap') return next(withId(id + 'ped'));
      if (word === 'outlaw') return next(withId(id + 'ed'));
      if (word === 'invalidate') return next({ arguments: {} });
      if (word === 'answer') return { output: { id: 'made up' }, text: 'made up: AKIAIOSFODNN7EXAMPLE' };
      if (word === 'misanswer') return { output: 'no object' };
      if (word === 'throw') throw new Error('down');
      if (word === 'wait') return new Promise(() => {});
      return next();
    }
    const answer = await next();
    if (word === 'edit') return { output: { id: 'edited AKIAIOSFODNN7EXAMPLE' }, text: 'edited AKIAIOSFODNN7EXAMPLE', content: [] };
    if (word === 'bloat') return { text: 'x'.repeat(6 * 2 ** 20) };
    if (word === 'misfit') return { output: 'no object' };
    if (word === 'cheapen') return { ...answer, usage: { tokens: 0, microUsd: 0 } };
    return answer;
  },
};`;
/** One that fails, and lets calls pass. */
const LENIENT = `export default { intercept(call, next) {
  if (JSON.stringify(call.arguments).includes('lenient')) throw new Error('down');
  return next();
} };`;
/** What no call may have as its id, that of an interceptor included. */
const OUTLAWED = `package tools
id_of := object.get(input.arguments, "id", object.get(object.get(input.arguments, "body", {}), "id", ""))
deny contains "the id is outlawed" if endswith(id_of, " outlawed")`;

const PREFIX = 'io.modelcontextprotocol/';
/** A builtin, an MCP and an OpenAPI tool, of which each repeats its argument. */
const WATCHED = ['plug_echo', 'mf_look', 'of_look'];

let upstream: Upstream;
let fleet: TestFleet;
let plugins: string;
let ids = 0;

const functionEntry = (tool: Tool) => ({
  url: `${upstream.origin}/functions`,
  func_name: tool,
  parameters: [{ name: 'id', type: 'string', required: true }],
  rate_limit: 0,
  ...SETTINGS[tool],
});
const mcpEntry = () => ({
  url: `${upstream.origin}/mcp`,
  overrides: { ...OVERRIDES, 'prompt:*': { requires_auth: true }, 'resource:*': { requires_auth: true } },
});
const openApiEntry = (prefix: string) => ({
  spec_url: `${upstream.origin}/openapi.json`,
  name_prefix: `${prefix}_`,
  overrides: OVERRIDES,
});

beforeAll(async () => {
  upstream = await startUpstream();
  plugins = await mkdtemp(join(tmpdir(), 'toolfleet-plugins-'));
  await writeFile(join(plugins, 'plug.tool.mjs'), PLUGIN);
  await writeFile(join(plugins, 'house.mjs'), HOUSE);
  await writeFile(join(plugins, 'lenient.mjs'), LENIENT);
  const policies = join(plugins, 'policies');
  await cp(join(import.meta.dirname, '../../deploy/policies'), policies, { recursive: true });
  await writeFile(join(policies, 'outlawed.rego'), OUTLAWED);
  const watched = { tools: WATCHED, timeout_ms: 1_000 };
  const listed = TOOLS.filter((tool) => tool !== 'drop');
  fleet = await TestFleet.start({
    services: {
      ...{ gateway: 1, registry: 1, budget: 1, 'python-sandbox': 1 },
      ...{ 'builtin-executor': 1, 'mcp-executor': 1, 'openapi-executor': 1 },
    },
    together: ['gateway', 'registry', 'budget', 'mcp-executor', 'openapi-executor', 'python-sandbox'],
    tools: [
      'run_program',
      'execute_python',
      'text_process',
      'plug_open',
      'plug_echo',
      ...['mf', 'ff', 'of'].flatMap((prefix) => listed.map((tool) => `${prefix}_${tool}`)),
    ],
    config: {
      token_types: { [ISSUER]: ['at+jwt', 'JWT'] },
      mcp_servers: { mf: mcpEntry() },
      mcp_tools: Object.fromEntries(TOOLS.map((tool) => [`ff_${tool}`, functionEntry(tool)])),
      openapi_tools: { of: { enabled: true, ...openApiEntry('of') } },
      interceptors: {
        content: { kind: 'content', ...watched },
        service: { kind: 'http', at: ['call'], url: `${upstream.origin}/interceptor`, tools: WATCHED },
        house: { kind: 'module', at: ['call', 'result'], file: join(plugins, 'house.mjs'), ...watched },
        lenient: { kind: 'module', at: ['call'], file: join(plugins, 'lenient.mjs'), on_failure: 'open', ...watched },
      },
      tool_settings: {
        'plug_c*': { dangerous: true },
        text_process: { rate_limit: 1 },
        run_program: { rate_limit: 0 },
        execute_python: { rate_limit: 0, memory_limit_mb: 64 },
        file_delete: { dangerous: false },
      },
    },
    env: {
      BUILTIN_PLUGINS_DIR: plugins,
      BUILTIN_TOOLSETS: 'compute,files',
      // The upstream fails often, on purpose.
      MCP_CB_FAILURES: '1000',
      ENFORCE_CB_MIN_REQUESTS: '10000',
      EGRESS_ALLOWED_ENDPOINTS: upstream.origin,
      MCP_ALLOWED_DOMAINS: '127.0.0.1',
      OPENAPI_ALLOWED_DOMAINS: '127.0.0.1',
    },
    // Callers without a credential are accepted.
    envOf: {
      gateway: {
        TOOLFLEET_LOCAL: 'true',
        POLICY_DIR: policies,
        GATEWAY_SKIP_AUTH: 'true',
        TOOLFLEET_DEV_API_KEY: DEVELOPMENT_KEY,
        GATEWAY_ADMIN_KEY: ADMIN_KEY,
        JWT_ISSUER: ISSUER,
        JWT_AUDIENCE: 'toolfleet',
        JWT_JWKS_URL: `${upstream.origin}/jwks`,
      },
    },
  });
  const register = async (path: string, body: object): Promise<void> => {
    const { status, text } = await fleet.ask({ path, body });
    expect([status, text]).toEqual([201, expect.anything()]);
  };
  const small = { max_response_bytes: 100_000 };
  await register('/api/v1/sources/mcp', { name: 'ma', ...mcpEntry(), ...small, start_seconds: 20 });
  await register('/api/v1/sources/openapi', { name: 'oa', ...openApiEntry('oa'), ...small });
  for (const tool of TOOLS)
    await register('/api/v1/sources/mcp', { name: `fa_${tool}`, ...functionEntry(tool), ...small });
  await fleet.untilListed(['ma', 'fa', 'oa'].flatMap((prefix) => listed.map((tool) => `${prefix}_${tool}`)));
});
afterAll(async () => {
  await fleet?.stop();
  await upstream?.stop();
  if (plugins) await rm(plugins, { recursive: true, force: true });
});

/** Every kind of source, with the prefix of its tools. */
const SOURCES = [
  ['an MCP server of the file', 'mf'],
  ['functions of the file', 'ff'],
  ['an OpenAPI document of the file', 'of'],
  ['a registered MCP server', 'ma'],
  ['registered functions', 'fa'],
  ['a registered OpenAPI document', 'oa'],
] as const;

const caller = (prefix: string) => ({
  call: (tool: Tool, id: string, fields: object = {}) =>
    fleet.call(`${prefix}_${tool}`, prefix.startsWith('o') ? { body: { id } } : { id }, {
      key: fleet.keys['acme']!,
      fields,
    }),
  nextId: (): string => `${prefix}-${(ids += 1)}`,
});

describe.each(SOURCES)('the settings of %s', (_kind, prefix) => {
  const { call, nextId } = caller(prefix);

  it('dangerous: refused and not listed', async () => {
    const id = nextId();
    const { status, body } = await call('drop', id);
    expect([status, body.error]).toEqual([403, 'Tool not available via direct execution']);
    expect((await fleet.ask({ path: '/tools/list' })).body).not.toContain(`${prefix}_drop`);
    expect(upstream.calls.get(id)).toBeUndefined();
  });

  it('rate_limit: 429 for the second call of a minute', async () => {
    expect((await call('limited', nextId())).body).toMatchObject({ success: true });
    // While Redis answers late a gateway counts alone, and lets one more call through.
    const next = async () => {
      const { status, body } = await call('limited', nextId());
      return [status, body.code];
    };
    await expect.poll(next).toEqual([429, 'RATE_LIMITED']);
  });

  it('idempotent and retry_policy: a failed attempt is repeated, and not without them', async () => {
    const [repeated, single] = [nextId(), nextId()];
    expect((await call('flaky', repeated)).body).toMatchObject({ success: true, metadata: { attempts: 2 } });
    expect((await call('once', single)).body).toMatchObject({ success: false });
    expect([upstream.calls.get(repeated), upstream.calls.get(single)]).toEqual([2, 1]);
  });

  it('stub_data: returned with a disclaimer while the upstream fails', async () => {
    const { body } = await call('stubbed', nextId());
    expect(body).toMatchObject({
      success: true,
      output: { rate: 1.5 },
      metadata: { provenance: 'stub', fallback: 'stub_data', disclaimer: expect.any(String) },
    });
  });

  it('session_aware: the upstream receives session and user', async () => {
    const [aware, unaware] = [nextId(), nextId()];
    await call('whoami', aware, { session_id: 'session 1' });
    await call('look', unaware, { session_id: 'session 1' });
    const { session, user } = upstream.callers.get(aware)!;
    expect(session).toBe(prefix.startsWith('m') ? 'session 1' : 'session%201');
    expect(user).toMatch(/./);
    expect(upstream.callers.get(unaware)).toEqual({ session: undefined, user: undefined });
    expect((await fleet.ask({ path: `/tools/${prefix}_whoami/metadata` })).body).toMatchObject({
      session_aware: true,
      requires_auth: true,
    });
    expect((await fleet.ask({ path: `/tools/${prefix}_flaky/metadata` })).body).toMatchObject({
      idempotent: true,
      cache_ttl_seconds: 0,
      retry_policy: SETTINGS.flaky.retry_policy,
    });
  });
});

// All sources at once, because these settings take time. One setting after the other: a call with effects drops what is cached.
describe.concurrent.each(SOURCES)('idempotent and cache_ttl_seconds of %s', (_kind, prefix) => {
  const { call, nextId } = caller(prefix);

  // The `expect` of a concurrent test is its own: the global one forgets the test when another one ends.
  it('cached, and live again after that time', async ({ expect: ownExpect }) => {
    const id = nextId();
    const provenance = async () => (await call('look', id)).body.metadata.provenance;
    ownExpect(await provenance()).toBe('live');
    // A result is stored after its answer.
    await ownExpect.poll(provenance).toBe('cache');
    const runs = upstream.calls.get(id)!;
    await ownExpect.poll(provenance, { interval: 200 }).toBe('live');
    // More than one when the first attempt was slow.
    ownExpect(upstream.calls.get(id)).toBeGreaterThan(runs);
  });
});

describe.concurrent.each(SOURCES)('rate_limit_mode of %s', (_kind, prefix) => {
  const { call, nextId } = caller(prefix);

  it('the second call waits instead of failing', async ({ expect: ownExpect }) => {
    ownExpect((await call('patient', nextId())).body).toMatchObject({ success: true });
    const next = () => Promise.race([call('patient', nextId()).then(({ body }) => body, String), sleep(700, 'waits')]);
    // While Redis answers late a gateway counts alone, and lets one more call through.
    await ownExpect.poll(next).toBe('waits');
  });
});

/** Calls a tool and gives the answer as text: what a caller could read. */
type EntryPoint = (tool: string, id: string, key: string | null) => Promise<string>;
const argumentsOf = (tool: string, id: string) => {
  if (PYTHON.includes(tool)) return JSON.parse(id) as object;
  return tool.startsWith('o') ? { body: { id } } : { id };
};
/** Tools with arguments of their own: the id is their JSON. */
const PYTHON = ['execute_python', 'python_executor'];

interface McpParams {
  name?: string;
  uri?: string;
  arguments?: object;
}

async function overMcp(method: string, params: McpParams, key: string | null): Promise<string> {
  const _meta = { [`${PREFIX}protocolVersion`]: '2026-07-28', [`${PREFIX}clientCapabilities`]: {} };
  const headers = {
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': method,
    'mcp-name': params.name ?? params.uri ?? '',
  };
  const body = { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } };
  return (await fleet.ask({ path: '/mcp', body, headers, key })).text;
}

async function overNats(subject: string, body: object, key: string | null): Promise<string> {
  const headers = natsHeaders();
  if (key !== null) headers.set('Authorization', `Bearer ${key}`);
  const nats = await connect({ servers: fleet.nats.url.replace('nats://', '') });
  try {
    return (await nats.request(subject, JSON.stringify(body), { timeout: 60_000, headers })).string();
  } finally {
    await nats.close();
  }
}

const ENTRY_POINTS: Record<string, EntryPoint> = {
  HTTP: async (tool, id, key) => (await fleet.call(tool, argumentsOf(tool, id), { key })).text,
  MCP: (tool, id, key) => overMcp('tools/call', { name: tool, arguments: argumentsOf(tool, id) }, key),
  NATS: (tool, id, key) => overNats('tool.call', { name: tool, arguments: argumentsOf(tool, id) }, key),
  'the queue': async (tool, id, key) => {
    const accepted = await fleet.call(tool, argumentsOf(tool, id), { key, fields: { mode: 'async' } });
    if (accepted.status !== 202) return accepted.text;
    const path = `/api/v1/calls/${accepted.body.call_id}`;
    const open = ['accepted', 'claimed'];
    await eventually('the call ends', async () => !open.includes((await fleet.ask({ path, key })).body.status));
    const { body, text } = await fleet.ask({ path, key });
    return body.status === 'succeeded' ? body.result.text : text;
  },
};

const callOf = (tool: string, id: string) => ({ name: tool, arguments: argumentsOf(tool, id) });
/** Every way in which a caller reaches a tool. */
const ALL_ENTRY_POINTS: Record<string, EntryPoint> = {
  ...ENTRY_POINTS,
  'HTTP in a batch': async (tool, id, key) =>
    (await fleet.ask({ path: '/api/v1/tools/batch-execute', body: [callOf(tool, id)], key })).text,
  'NATS in a batch': (tool, id, key) => overNats('tool.batch', { calls: [callOf(tool, id)] }, key),
  'a program': async (tool, id, key) => {
    const args = JSON.stringify(JSON.stringify(argumentsOf(tool, id)));
    return (await fleet.call('run_program', { code: `import json\ntools.${tool}(**json.loads(${args}))` }, { key }))
      .text;
  },
};

describe.each(WATCHED)('interceptors of the file around %s', (tool) => {
  const key = () => fleet.keys['acme']!;

  it.each(Object.entries(ENTRY_POINTS))('over %s', async (name, enter) => {
    const id = `${tool} ${name} AKIAIOSFODNN7EXAMPLE`;
    const call = (argument: string) => enter(tool, argument, key());
    const answer = await call(id);
    expect(answer).toContain('[cloud key removed]');
    expect(answer).not.toContain('AKIAIOSFODNN7EXAMPLE');
    // From the cache it is no other. What is cached ends after three seconds.
    let tries = 0;
    await eventually('an answer from the cache', async () => {
      const repeated = `${id} ${(tries += 1)}`;
      for (const once of [await call(repeated), await call(repeated)]) expect(once).toContain('[cloud key removed]');
      return upstream.calls.get(repeated) === (tool === 'plug_echo' ? undefined : 1);
    });
    expect(await call(`${id} forbidden`)).toContain(`refuses '${tool}': forbidden`);
    expect(upstream.calls.get(`${id} forbidden`)).toBeUndefined();
  });

  /** What an answer shows after each word, and under which id the call reaches its tool; undefined: not at all. */
  const WORDS: Record<string, { shows: string; reaches?: 'same' | 'other' }> = {
    swap: { shows: 'swapped', reaches: 'other' },
    outlaw: { shows: 'the id is outlawed' },
    invalidate: { shows: 'it changed the arguments to invalid ones' },
    answer: { shows: 'made up' },
    misanswer: { shows: 'does not match the output schema' },
    throw: { shows: 'it failed' },
    wait: { shows: 'it did not answer within 1000 ms' },
    lenient: { shows: 'lenient', reaches: 'same' },
    edit: { shows: 'edited [cloud key removed]', reaches: 'same' },
    bloat: { shows: 'bytes, and at most 5242880 are allowed', reaches: 'same' },
    misfit: { shows: 'does not match the output schema', reaches: 'same' },
    cheapen: { shows: 'it failed', reaches: 'same' },
  };
  const IS_BUSY = /did not answer within 1000 ms|BUDGET_UNAVAILABLE/;
  // Only the plugin and the OpenAPI tool declare their output.
  const words = Object.entries(WORDS).filter(([word]) => !(tool === 'mf_look' && word.startsWith('mis')));

  it.each(Object.entries(ALL_ENTRY_POINTS))('go on, change, answer, fail and are late over %s', async (name, enter) => {
    await Promise.all(
      words.map(async ([word, { shows, reaches }]) => {
        let id = `${tool} of ${name} ${word}`;
        let answer = await enter(tool, id, key());
        // On a busy machine any interceptor may be late, or the budget.
        for (let tries = 1; word !== 'wait' && IS_BUSY.test(answer) && tries < 10; tries += 1) {
          id = `${tool} of ${name} again ${tries} ${word}`;
          answer = await enter(tool, id, key());
        }
        expect(answer, word).toContain(shows);
        if (!['swap', 'lenient'].includes(word)) expect(answer, word).not.toContain('AKIAIOSFODNN7EXAMPLE');
        if (tool === 'plug_echo') return;
        const other = `${id}${word === 'swap' ? 'ped' : 'ed'}`;
        expect([upstream.calls.get(id), upstream.calls.get(other)], word).toEqual([
          reaches === 'same' ? 1 : undefined,
          reaches === 'other' ? 1 : undefined,
        ]);
      }),
    );
  });
});

describe('a call that an interceptor answers or changes', () => {
  const DID: Record<string, string> = { answer: 'answered', edit: 'changed_answer', swap: 'changed_arguments' };

  it.each(['answer', 'edit', 'bloat', 'cheapen', 'swap'])('costs its price and is in the log: %s', async (word) => {
    const { body } = await fleet.call('plug_echo', { id: `the price of ${word}` }, { key: fleet.keys['acme']! });
    expect(body.usage.cost_usd).toBe(0.004);
    const lines = () => fleet.logs().split('\n');
    const line = () => lines().find((each) => each.includes('"call finished"') && each.includes(body.call_id));
    await eventually('its line is written', () => line() !== undefined);
    const did = DID[word] ?? 'failed_closed';
    expect(JSON.parse(line()!)).toMatchObject({
      ...{ cost_usd: 0.004, attempts: 1, interceptions: expect.arrayContaining([{ interceptor: 'house', did }]) },
    });
  });
});

describe('requires_auth', () => {
  /** Credentials of this fleet; sessions and OAuth clients are in `keys.spec.ts`. */
  const CREDENTIALS: Record<string, () => string | null | Promise<string>> = {
    'no credential': () => null,
    'the development key': () => DEVELOPMENT_KEY,
    'the admin key of the gateway': () => ADMIN_KEY,
    'an API key': () => fleet.keys['acme']!,
    'a JWT': () => signed('ann', { tenant: 'acme' }, 'at+jwt'),
    // As Keycloak, Entra and Auth0 give them.
    'a JWT of the type JWT': () => signed('bob', { tenant: 'acme', scope: 'openid' }, 'JWT'),
  };
  const signed = (user: string, claims: JWTPayload, typ: string) =>
    new SignJWT(claims)
      .setProtectedHeader({ alg: 'ES256', kid: 'k1', typ })
      .setIssuer(ISSUER)
      .setAudience('toolfleet')
      .setSubject(user)
      .setIssuedAt()
      .setExpirationTime('5m')
      .sign(signing.privateKey);
  it('refuses an ID token of the issuer, with the reason in the log', async () => {
    const key = await signed('bob', { tenant: 'acme', nonce: 'n' }, 'JWT');
    expect((await fleet.call('mf_whoami', { id: 'by ID token' }, { key })).status).toBe(401);
    const reason = 'it is an ID token, not an access token';
    await eventually('the reason is logged', () => fleet.logs().includes(reason));
  });

  const REFUSAL = 'requires authentication: send an API key or an access token';
  const entryPoints = ALL_ENTRY_POINTS;
  const rows = Object.keys(entryPoints).flatMap((name) =>
    Object.keys(CREDENTIALS).map((credential) => [name, credential, credential !== 'no credential'] as const),
  );

  it.each(rows)('over %s with %s: admitted is %s', async (name, credential, isAdmitted) => {
    const key = await CREDENTIALS[credential]!();
    for (const tool of ['mf_whoami', 'ff_whoami', 'of_whoami']) {
      const id = `${tool} ${name} ${credential}`;
      const answer = await entryPoints[name]!(tool, id, key);
      expect(upstream.calls.get(id), answer).toBe(isAdmitted ? 1 : undefined);
      for (const text of [REFUSAL, 'PERMISSION_DENIED']) expect(answer.includes(text), answer).toBe(!isAdmitted);
    }
    const open = `open ${name} ${credential}`;
    await entryPoints[name]!('ff_look', open, key);
    expect(upstream.calls.get(open)).toBe(1);
  });

  it('refuses a sender that only its subject on NATS names', async () => {
    const answer = await overNats('tool.call.acme', callOf('mf_whoami', 'by subject'), null);
    expect(JSON.parse(answer)).toMatchObject({ code: 'PERMISSION_DENIED', error: expect.stringContaining(REFUSAL) });
    expect(upstream.calls.get('by subject')).toBeUndefined();
    await overNats('tool.call.acme', callOf('ff_look', 'open by subject'), null);
    expect(upstream.calls.get('open by subject')).toBe(1);
  });

  it.each(Object.entries(CREDENTIALS))('decides dry runs and what the catalogue shows, with %s', async (_, read) => {
    const key = await read();
    const dry = await fleet.call('mf_whoami', { id: 'dry' }, { key, fields: { dry_run: true } });
    const { body: shown } = await fleet.ask({ path: '/api/v1/catalog/mf_whoami', key });
    expect([dry.status, shown.callable, shown.not_callable_because?.code]).toEqual(
      key === null ? [403, false, 'PERMISSION_DENIED'] : [200, true, undefined],
    );
    // Listed for everyone, as tools are that need a role.
    expect((await fleet.ask({ path: '/tools/list', key })).body).toContain('mf_whoami');
  });

  it.each(Object.entries(CREDENTIALS))('holds for prompts and resources of MCP servers, with %s', async (_, read) => {
    const key = await read();
    const uri = /docs:[^"]*guide/.exec(await overMcp('resources/list', {}, key))![0];
    for (const answer of [
      await overMcp('prompts/get', { name: 'mf_hello' }, key),
      await overMcp('resources/read', { uri }, key),
    ])
      expect(answer).toContain(key === null ? REFUSAL : '"text":"Hello"');
  });
});

/** What a setting does to a call by an entry point. `ask` calls as a plain tenant, `id` is one that no other call has. */
type Row = (call: {
  ask: (tool: string, id: string, key?: string | null) => Promise<string>;
  id: string;
  entryPoint: string;
}) => Promise<void>;
const reached = (id: string) => upstream.calls.get(id) ?? 0;

type Setting = Exclude<keyof typeof TOOL_SETTINGS, 'results'>;
const ROWS: Record<Setting | 'aliases' | 'input_schema' | 'tenant', Row> = {
  dangerous: async ({ ask, id, entryPoint }) => {
    await ask('ff_drop', id);
    // Services inside the fleet may use dangerous tools.
    expect(reached(id)).toBe(entryPoint.startsWith('NATS') ? 1 : 0);
  },
  requires_auth: async ({ ask, id }) => {
    expect(await ask('ff_whoami', id, null)).toContain('requires authentication');
    expect(reached(id)).toBe(0);
  },
  session_aware: async ({ ask, id }) => {
    await ask('ff_whoami', id);
    await ask('ff_once', `${id} unaware`);
    expect(upstream.callers.get(id)?.user).toMatch(/./);
    expect(upstream.callers.get(`${id} unaware`)).toEqual({ session: undefined, user: undefined });
  },
  idempotent: async ({ ask, id }) => {
    await ask('ff_unsafe', id);
    expect(reached(id)).toBe(1);
  },
  retry_policy: async ({ ask, id }) => {
    await ask('ff_flaky', id);
    expect(reached(id)).toBe(2);
  },
  stub_data: async ({ ask, id }) => {
    expect(await ask('ff_stubbed', id)).toMatch(/rate\W+1\.5/);
  },
  rate_limit: async ({ ask, id }) => {
    let tries = 0;
    await expect.poll(() => ask('ff_limited', `${id} ${(tries += 1)}`)).toMatch(/rate limit exceeded: 1\/min/i);
    expect(reached(`${id} ${tries}`)).toBe(0);
  },
  rate_limit_mode: async ({ ask, id }) => {
    let tries = 0;
    const next = () => Promise.race([ask('ff_patient', `${id} ${(tries += 1)}`).catch(String), sleep(2_000, 'waits')]);
    await expect.poll(next).toBe('waits');
    expect(reached(`${id} ${tries}`)).toBe(0);
  },
  cache_ttl_seconds: async ({ ask, id }) => {
    // What is cached ends after three seconds.
    let tries = 0;
    await eventually('an answer from the cache', async () => {
      const repeated = `${id} ${(tries += 1)}`;
      for (const answer of [await ask('ff_look', repeated), await ask('ff_look', repeated)])
        expect(answer).toContain(repeated);
      return reached(repeated) === 1;
    });
  },
  select: async ({ ask, id }) => {
    const answer = await ask('ff_part', id);
    expect(answer).toContain('part');
    // A batch repeats the arguments.
    expect(answer.replace(/"arguments":"(?:[^"\\]|\\.)*"/g, '')).not.toContain(id);
    expect(reached(id)).toBe(1);
  },
  timeout_seconds: async ({ ask, id }) => {
    expect(await ask('ff_slow', id)).toContain('timed out after 1000ms');
  },
  memory_limit_mb: async ({ ask }) => {
    const use = (mb: number) => ask('execute_python', JSON.stringify({ code: `len(bytes(${mb} * 2 ** 20))` }));
    expect(await use(8)).toContain(String(8 * 2 ** 20));
    expect(await use(80)).toMatch(/MemoryError|memory/);
  },
  aliases: async ({ ask }) => {
    expect(await ask('python_executor', JSON.stringify({ code: '6 * 7' }))).toContain('42');
  },
  input_schema: async ({ ask }) => {
    expect(await ask('execute_python', JSON.stringify({ code: '1', timeout_seconds: 61 }))).toContain(
      'timeout_seconds',
    );
  },
  tenant: async ({ ask, id }) => {
    await ask('fa_once', id, fleet.keys['globex']!);
    expect(reached(id)).toBe(0);
  },
};
/** Fields without a row: they describe the tool, or the spec holds them. */
const OTHERS = {
  describe: [
    ...['name', 'version', 'description', 'category', 'tags', 'annotations', 'listing', 'author', 'input_examples'],
    ...['sandboxed', 'binding'],
  ],
  held: {
    dangerous_when: 'libs/engine/src/execute-call.spec.ts',
    output_schema: 'libs/engine/src/attempt.spec.ts',
    cost_per_use_micro_usd: 'libs/engine/src/charge.spec.ts',
    cost_cap_micro_usd: 'libs/engine/src/charge.spec.ts',
    context_keys: 'libs/engine/src/execute-call.spec.ts',
    required_roles: 'libs/engine/src/execute-call.spec.ts',
    forwards_idempotency_key: 'apps/registry/src/sources/openapi.source.spec.ts',
    results: 'test/e2e/call-sight.ts',
    task_support: 'test/e2e/mcp-endpoint.spec.ts',
  },
};

describe('every field of a tool', () => {
  it('has a row', () => {
    const known = [...Object.keys(ROWS), ...OTHERS.describe, ...Object.keys(OTHERS.held)];
    expect(known.toSorted()).toEqual(Object.keys(TOOL_DEFINITION.properties as object).toSorted());
    for (const [field, path] of Object.entries(OTHERS.held))
      expect(readFileSync(join(import.meta.dirname, '../..', path), 'utf8')).toContain(field);
  });

  const rows = Object.keys(ROWS).flatMap((setting) => Object.keys(ALL_ENTRY_POINTS).map((name) => [setting, name]));
  it.each(rows)('%s refuses or changes what it says, by %s', async (setting, entryPoint) => {
    await ROWS[setting as keyof typeof ROWS]({
      ask: (tool, id, key = fleet.keys['acme']!) => ALL_ENTRY_POINTS[entryPoint!]!(tool, id, key),
      id: `row-${(ids += 1)}`,
      entryPoint: entryPoint!,
    });
  });
});

describe('the limits that tools show', () => {
  /** Seconds after which a call ends that names no limit, by tool: its default by prefix, kind, strictness or declaration. */
  const SECONDS = { ff_once: 30, ff_slow: 1, of_look: 30, plug_echo: 15, execute_python: 10, run_program: 300 };
  /** Maximum bytes of a result, and what a larger one gives. */
  const TOO_LARGE = { success: false, metadata: { code: 'RESULT_TOO_LARGE' } };
  const CUT = { success: true, metadata: { truncated: true } };
  const RESULTS: Record<string, [limit: number, beyond: object]> = {
    mf_look: [3 * 2 ** 20, TOO_LARGE],
    ff_look: [3 * 2 ** 20, TOO_LARGE],
    of_look: [3 * 2 ** 20, CUT],
    ma_look: [100_000, TOO_LARGE],
    fa_look: [100_000, TOO_LARGE],
    oa_look: [100_000, CUT],
    plug_large: [5 * 2 ** 20, TOO_LARGE],
    execute_python: [4 * 2 ** 20, { success: false, metadata: { code: 'OUTPUT_LIMIT' } }],
  };
  const REQUEST = 8 * 2 ** 20;
  const LIMITS = ['rate_limit', 'timeout_seconds', 'memory_limit_mb', 'max_request_bytes', 'max_result_bytes'];
  const shownOf = async (name: string): Promise<Record<string, unknown>> =>
    (await fleet.ask({ path: `/tools/${name}/metadata` })).body;

  it.each(Object.keys({ ...SECONDS, ...RESULTS }))('%s: the same in every list', async (name) => {
    const named = (tools: { name: string }[]) => tools.find((tool) => tool.name === name) as object;
    const read = async (path: string) => (await fleet.ask({ path })).body;
    const mcp = [
      named(await read('/api/v1/tools?format=mcp')),
      named(JSON.parse(await overMcp('tools/list', {}, fleet.adminKey)).result.tools),
    ] as { _meta: Record<string, object> }[];
    const lists = [
      named(await read('/api/v1/tools')),
      named(await read('/api/v1/catalog')),
      named(JSON.parse(await overNats('tool.list', {}, fleet.adminKey))),
      ...(await Promise.all([`/api/v1/tools/${name}`, `/api/v1/catalog/${name}`].map(read))),
      ...mcp.map(({ _meta }) => _meta['io.toolfleet/limits']),
    ];
    const shown = await shownOf(name);
    const expected = Object.fromEntries(LIMITS.map((limit) => [limit, shown[limit]]));
    expect(expected).toMatchObject({ max_request_bytes: REQUEST, rate_limit: expect.any(Number) });
    for (const list of lists) expect(list).toMatchObject(expected);
  });

  it.each(Object.entries(SECONDS))('%s: %i s', async (name, seconds) => {
    expect(await shownOf(name)).toMatchObject({ timeout_seconds: seconds });
  });

  it.each(Object.entries(RESULTS))('%s: results', async (name, [limit, beyond]) => {
    expect(await shownOf(name)).toMatchObject({ max_result_bytes: limit });
    const resultOf = async (bytes: number) => {
      const id = 'x'.repeat(bytes);
      const args: Record<string, object> = { plug_large: { bytes }, execute_python: { code: `'x' * ${bytes}` } };
      return (await fleet.call(name, args[name] ?? (name.startsWith('o') ? { body: { id } } : { id }))).body;
    };
    // Servers of MCP send the text twice, as a block and as structured content. On a busy machine a call may time out first.
    const within = () => resultOf(name.startsWith('m') ? limit / 2 - 2_000 : limit - 2_000);
    await expect.poll(within, { interval: 500 }).toMatchObject({ success: true });
    await expect.poll(() => resultOf(limit + 1), { interval: 500 }).toMatchObject(beyond);
  });

  it('requests, at every entry point', async () => {
    const key = fleet.adminKey;
    const padded = (bytes: number) => ({ bytes: 1, padding: 'x'.repeat(bytes) });
    const ask = (bytes: number) =>
      Promise.all([
        fleet.call('plug_large', padded(bytes), { key }).then(({ text }) => text),
        overMcp('tools/call', { name: 'plug_large', arguments: padded(bytes) }, key),
        overNats('tool.call', { name: 'plug_large', arguments: padded(bytes) }, key),
      ]);
    const answered = async (bytes: number, pattern: RegExp) => (await ask(bytes)).map((text) => pattern.test(text));
    const all = [true, true, true];
    await expect.poll(() => answered(REQUEST - 1_000, /"text\\*":\\*"x/), { interval: 500 }).toEqual(all);
    await expect.poll(() => answered(REQUEST, /PAYLOAD_TOO_LARGE|too large/i), { interval: 500 }).toEqual(all);
  });

  it('a run of Python and a tool that declares no time end when shown', async () => {
    const endless = await fleet.call('execute_python', { code: 'while True: pass' });
    expect(endless.body.error).toContain('10000ms');
    const { body } = await fleet.call('plug_endless', {});
    expect(body.error).toContain("'plug_endless' timed out after 15000ms");
  });

  it('a memory limit is shown where one is enforced', async () => {
    const names = ['execute_python', 'run_program', 'plug_echo', 'plug_large', 'ff_once'];
    const shown = await Promise.all(names.map(shownOf));
    expect(shown.map((tool) => tool['memory_limit_mb'])).toEqual([64, 128, 512, 512, null]);
  });
});

describe('tool_settings of the file', () => {
  it('limit builtin tools and protect plugins', async () => {
    const text = () => fleet.call('text_process', { operation: 'count', text: `text ${(ids += 1)}` });
    expect((await text()).status).toBe(200);
    expect((await text()).body).toMatchObject({ code: 'RATE_LIMITED' });
    expect((await fleet.call('plug_open', {})).body).toMatchObject({ output: { from: 'plugin' } });
    expect((await fleet.call('plug_closed', {})).status).toBe(403);
  });

  it('do not lift a protection of the tool itself', async () => {
    expect((await fleet.call('file_delete', { path: 'a' })).status).toBe(403);
  });

  it('with a fault stop the registry', async () => {
    const path = join(plugins, 'fleet.yaml');
    await writeFile(path, 'tool_settings: { "delete_*": { dangerus: true } }');
    await expect(fleet.launch('registry', { TOOLFLEET_CONFIG: path })).rejects.toThrow();
    expect(fleet.logs()).toContain('dangerus is an unknown key; did you mean dangerous?');
  });
});

describe('a registration with', () => {
  it.each([
    ['an unknown setting', { dangerus: true }, 'dangerus is an unknown key; did you mean dangerous?'],
    ['a wrong value', { rate_limit_mode: 'queue' }, 'rate_limit_mode must be one of reject, wait'],
    ['an unknown setting in overrides', { overrides: { '*': { cache: 1 } } }, 'overrides["*"].cache is an unknown key'],
  ])('%s is refused', async (_what, fields, message) => {
    for (const [kind, entry] of [
      ['mcp', mcpEntry()],
      ['mcp', functionEntry('once')],
      ['openapi', openApiEntry('odd')],
    ] as const) {
      const { status, body } = await fleet.ask({
        path: `/api/v1/sources/${kind}`,
        body: { name: 'odd', ...entry, ...fields },
      });
      expect([status, body.code, body.error]).toEqual([400, 'REQUEST_INVALID', expect.stringContaining(message)]);
    }
  });

  it('overrides that match no tool reports them', async () => {
    const overrides = { 'delte_*': { dangerous: true } };
    const mcp = await fleet.ask({ path: '/api/v1/sources/mcp', body: { name: 'mtypo', ...mcpEntry(), overrides } });
    expect(mcp.body.message).toContain('overrides match no tool: delte_*');
    const openapi = { name: 'otypo', ...openApiEntry('otypo'), overrides };
    const { body } = await fleet.ask({ path: '/api/v1/sources/openapi', body: openapi });
    expect(body.warnings).toContain('overrides match no tool: delte_*');
  });

  it('changed settings applies them without quarantine', async () => {
    await fleet.ask({
      path: '/api/v1/sources/mcp',
      body: { name: 'ma', ...mcpEntry(), overrides: { '*': { dangerous: true } } },
    });
    await eventually(
      'the new setting is in effect',
      async () => (await fleet.call('ma_once', { id: 'x' })).status === 403,
    );
    expect((await fleet.ask({ path: '/api/v1/quarantine' })).body).toEqual([]);
  });
});

describe('stubData of a plugin', () => {
  it('is returned while its executor is down', async () => {
    await fleet.kill('builtin-executor');
    const { body } = await fleet.call('plug_open', {});
    expect(body).toMatchObject({ success: true, output: { from: 'stub' }, metadata: { fallback: 'stub_data' } });
  });
});
