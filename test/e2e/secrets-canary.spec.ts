/**
 * Marked secrets in every place where a secret may come from: environment, credentials, arguments, bodies of upstreams. Then
 * everything the fleet wrote or answered is searched for them, as they are and encoded.
 */
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { randomBytes } from 'node:crypto';
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startCountingMcpServer, type CountingMcpServer } from '../fleet/counting-mcp-server.js';
import { ofEach, TestFleet, type Answer } from '../fleet/test-fleet.js';

/** Words that stand nowhere else, with characters that encodings change. */
const canary = (name: string) => `canary-${name}-${randomBytes(12).toString('hex')}+/x`;
const SECRETS = {
  tokenSecret: canary('token-secret-0123456789abcdef'),
  pepper: canary('pepper-0123456789'),
  registryKey: canary('registry-key-0123456789abcdef'),
  registerToken: canary('register-token'),
  upstreamKey: canary('upstream-key'),
  mcpHeader: canary('mcp-header'),
  literal: canary('literal-of-a-registration'),
  searchKey: canary('search-key'),
} as const;
const WRONG_KEY = canary('wrong-credential');
/** What callers send to tools is theirs: it is in answers and queues, in no log, metric or ledger. */
const ARGUMENT = canary('argument');

let mcpServer: CountingMcpServer;
let api: Server;
let fleet: TestFleet;
/** What upstreams were sent, to know that the secrets were in use at all. */
const received: string[] = [];
const answers: Answer[] = [];

const originOf = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

const DOCUMENT = {
  openapi: '3.1.0',
  info: { title: 'echo', version: '1' },
  components: { securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Upstream-Key' } } },
  security: [{ key: [] }],
  paths: {
    '/echo/{id}': {
      get: {
        operationId: 'echo',
        parameters: [
          { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
          { name: 'status', in: 'query', schema: { type: 'integer' } },
        ],
        responses: { '200': { description: 'what was sent' } },
      },
    },
  },
};

/** An upstream that gives back everything it was sent, secrets included, with the status it is asked for. */
async function startEchoApi(): Promise<Server> {
  const server = createServer((request: IncomingMessage, response) => {
    received.push(JSON.stringify([request.url, request.headers]));
    const url = new URL(request.url ?? '/', 'http://api');
    const body =
      url.pathname === '/openapi.json'
        ? { ...DOCUMENT, servers: [{ url: originOf(server) }] }
        : { url: request.url, headers: request.headers };
    response.writeHead(Number(url.searchParams.get('status') ?? 200), { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

beforeAll(async () => {
  [mcpServer, api] = await Promise.all([startCountingMcpServer(), startEchoApi()]);
  const apiOrigin = originOf(api);
  fleet = await TestFleet.start({
    together: true,
    services: ofEach(1),
    tools: ['calculator', 'sample_fail_with', 'echo_echo', 'execute_python'],
    config: {
      mcp_servers: {
        sample: { url: `${mcpServer.origin}/mcp`, headers: { Authorization: 'Bearer ${SAMPLE_MCP_TOKEN}' } },
      },
      openapi_tools: {
        echo: {
          enabled: true,
          spec_url: `${apiOrigin}/openapi.json`,
          base_url: apiOrigin,
          category: 'test',
          name_prefix: 'echo_',
          auth_type: 'api_key',
          auth_config: { api_key_name: 'X-Upstream-Key', api_key_location: 'header', api_key_value: '${UPSTREAM_KEY}' },
        },
      },
    },
    pepper: SECRETS.pepper,
    env: {
      GATEWAY_TOKEN_SECRET: SECRETS.tokenSecret,
      REGISTRY_SECRET_KEY: SECRETS.registryKey,
      MCP_REGISTER_TOKEN: SECRETS.registerToken,
      UPSTREAM_KEY: SECRETS.upstreamKey,
      SAMPLE_MCP_TOKEN: SECRETS.mcpHeader,
      WEB_SEARCH_API_KEY: SECRETS.searchKey,
      EGRESS_ALLOWED_ENDPOINTS: `${mcpServer.origin},${apiOrigin}`,
      MCP_ALLOWED_DOMAINS: '127.0.0.1',
      LOG_LEVEL: 'debug',
    },
  });
});
afterAll(async () => {
  await fleet?.stop();
  await mcpServer?.stop();
  api?.closeAllConnections();
  api?.close();
});

/** Uses every secret, in good calls and in such that fail. */
async function useEverything(): Promise<void> {
  const key = fleet.keys['acme']!;
  const keep = async (answer: Promise<Answer>) => void answers.push(await answer);
  await keep(fleet.call('calculator', { expression: '1+1' }, { key }));
  await keep(fleet.call('sample_add', { a: 1, b: 2 }, { key }));
  // Upstreams that repeat what they should not.
  for (const status of [200, 401, 500]) await keep(fleet.call('echo_echo', { id: 'a', status }, { key }));
  await keep(fleet.call('sample_fail_with', { message: `refused: Bearer ${SECRETS.mcpHeader}` }, { key }));
  await keep(fleet.call('sample_fail_with', { message: ARGUMENT }, { key }));
  await keep(fleet.call('sample_fail_with', { message: 1, password: ARGUMENT }, { key }));
  await keep(fleet.call('calculator', { expression: `${ARGUMENT}+` }, { key }));
  await keep(fleet.call('echo_echo', { id: ARGUMENT, status: 500 }, { key }));
  await keep(fleet.call('execute_python', { code: `raise ValueError("${ARGUMENT}")` }, { key }));
  // Credentials that are wrong, and in wrong places.
  await keep(fleet.ask({ path: '/tools/list', key: WRONG_KEY }));
  await keep(fleet.ask({ path: '/tools/list', key: null, headers: { 'x-api-key': WRONG_KEY } }));
  await keep(fleet.ask({ path: `/tools/list?api_key=${encodeURIComponent(WRONG_KEY)}`, key: null }));
  await keep(fleet.ask({ path: '/api/v1/keys', key: SECRETS.registerToken }));
  // A literal secret in a registration.
  const literal = {
    name: 'sealed',
    url: `${mcpServer.origin}/mcp`,
    headers: { Authorization: `Bearer ${SECRETS.literal}` },
  };
  await keep(
    fleet.ask({
      path: '/tools/mcp/register',
      body: literal,
      key: null,
      headers: { 'x-admin-token': SECRETS.registerToken },
    }),
  );
  await keep(fleet.ask({ path: '/api/v1/sources/mcp', body: literal }));
  await fleet.untilListed(['sealed_add']);
  await keep(fleet.call('sealed_add', { a: 1, b: 2 }));
  for (const path of ['/api/v1/tools', '/api/v1/tools/sealed_add', '/tools/schemas', '/openapi.json', '/api/v1/keys']) {
    await keep(fleet.ask({ path }));
  }
  await keep(
    fleet.call('execute_python', { code: 'import os\nresult = dict(os.environ)' }, { key, fields: { mode: 'async' } }),
  );
  const accepted = answers.at(-1)!.body.call_id as string;
  await eventually('the program ended', async () => {
    const answer = await fleet.ask({ path: `/api/v1/calls/${accepted}`, key });
    if (!['succeeded', 'failed'].includes(answer.body.status)) return false;
    answers.push(answer);
    return true;
  });
}

/** A secret as it is and as logs, URLs and headers show it. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret);
  return [
    secret,
    encodeURIComponent(secret),
    bytes.toString('base64').replace(/=+$/, '').slice(0, -2),
    bytes.toString('base64url').slice(0, -2),
    bytes.toString('hex'),
    JSON.stringify(secret).slice(1, -1),
    // The part no encoding of special characters changes.
    secret.slice(0, secret.indexOf('+')),
  ];
}

/** Names of the secrets that a text contains. */
function foundIn(text: string, secrets: Record<string, string>): string[] {
  return Object.entries(secrets)
    .filter(([, secret]) => formsOf(secret).some((form) => text.includes(form)))
    .map(([name]) => name);
}

describe('secrets', () => {
  beforeAll(useEverything);

  it('were in use', () => {
    expect(foundIn(received.join('\n'), SECRETS)).toEqual(['upstreamKey']);
    expect(foundIn([...mcpServer.credentials].join('\n'), SECRETS)).toEqual(['mcpHeader', 'literal']);
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(8);
    const echoed = answers.filter(({ text }) => text.includes('x-upstream-key'));
    expect(echoed.length, 'the upstream gave back its credential').toBeGreaterThan(0);
  });

  const everywhere = { ...SECRETS, wrongKey: WRONG_KEY };

  it('are in no answer', () => {
    for (const { text, headers } of answers) {
      expect(foundIn(text + JSON.stringify([...headers]), everywhere), text).toEqual([]);
    }
  });

  it('are in no log', () => {
    const unlogged = { ...everywhere, argument: ARGUMENT };
    for (const { name, process } of fleet.all) {
      const log = process.log() + process.errors();
      expect(log.length).toBeGreaterThan(0);
      const lines = log.split('\n').filter((line) => foundIn(line, unlogged).length > 0);
      expect(lines, name).toEqual([]);
      for (const key of [fleet.adminKey, ...Object.values(fleet.keys)]) expect(log.includes(key), name).toBe(false);
    }
  });

  it('are in no metric, health report or environment dump', async () => {
    for (const { name, process } of fleet.all) {
      expect(foundIn((await process.admin('/metrics')).body, { argument: ARGUMENT }), name).toEqual([]);
      for (const path of ['/metrics', '/health/ready', '/health/live']) {
        expect(foundIn((await process.admin(path)).body, everywhere), `${name} ${path}`).toEqual([]);
      }
    }
  });

  it('are not in Redis, neither are the keys of callers', async () => {
    const client = fleet.redis.client();
    const everything: string[] = [];
    for (const key of await client.keys('*')) {
      const value = await client.dump(key);
      everything.push(key, value ?? '', JSON.stringify(await plain(client, key)));
    }
    const text = everything.join('\n');
    expect(text).toContain('sealed');
    expect(foundIn(text, everywhere)).toEqual([]);
    for (const key of [fleet.adminKey, ...Object.values(fleet.keys)]) expect(text.includes(key)).toBe(false);
    const log = await readFile(join(fleet.redis.folder, 'appendonlydir', 'appendonly.aof.1.incr.aof'), 'latin1');
    expect(foundIn(log, everywhere)).toEqual([]);
  });

  it('are not in the ledger', async () => {
    for (const file of ['budget.db', 'budget.db-wal']) {
      const bytes = await readFile(join(fleet.folder, file)).catch(() => Buffer.alloc(0));
      expect(foundIn(bytes.toString('latin1'), { ...everywhere, argument: ARGUMENT })).toEqual([]);
    }
  });
});

/** A value of any type, uncompressed. */
async function plain(client: ReturnType<TestFleet['redis']['client']>, key: string): Promise<unknown> {
  const type = await client.type(key);
  if (type === 'string') return client.get(key);
  if (type === 'hash') return client.hgetall(key);
  if (type === 'list') return client.lrange(key, 0, -1);
  if (type === 'set') return client.smembers(key);
  if (type === 'zset') return client.zrange(key, '0', '-1');
  return type === 'stream' ? client.xrange(key, '-', '+') : type;
}
