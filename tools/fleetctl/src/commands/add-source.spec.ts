import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { folder, routes, run, seen, serveGateway, url } from '../fleetctl.fixture.js';

serveGateway();

const document = (servers: object[]) =>
  JSON.stringify({
    openapi: '3.1.0',
    info: { title: 'Pet Store', version: '1' },
    servers,
    paths: { '/pets/{id}': { get: { operationId: 'getPet', responses: {} } } },
  });
const GET_PET = { name: 'pet_store_getPet', parameters: { type: 'object', properties: {}, required: ['id'] } };

/** What a small MCP server says to a message; nothing to notifications. */
const answerMcp = ({ id, method }: { id?: number; method: string }): string | undefined => {
  const serverInfo = { name: 'crm', version: '3' };
  const results: Record<string, object> = {
    initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo },
    'tools/list': { tools: [{ name: 'find', inputSchema: { type: 'object' } }] },
  };
  const answer = results[method] ? { result: results[method] } : { error: { code: -32601, message: 'unknown' } };
  return id === undefined ? undefined : JSON.stringify({ jsonrpc: '2.0', id, ...answer });
};
/** The same server over standard input and output. */
const LOCAL_SERVER = `const answer = ${answerMcp.toString()};
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const text = answer(JSON.parse(line));
  if (text) console.log(text);
});`;

/** The same over HTTP without GET. */
async function postMcp(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const text = answerMcp((await json(request)) as Parameters<typeof answerMcp>[0]);
  if (text === undefined) response.writeHead(202).end();
  else response.setHeader('content-type', 'application/json').end(text);
}

/** Servers of documents, and two that speak MCP. */
let site: Server;
let origin: string;
let file: string;
beforeAll(async () => {
  site = createServer((request, response) => {
    if (request.url === '/openapi.json') response.end(document([{ url: '/v1' }]));
    else if (request.url === '/page') response.end('<html></html>');
    else if (request.method === 'POST' && request.url === '/mcp') void postMcp(request, response);
    else response.writeHead(request.url === '/closed' ? 401 : 404).end();
  });
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
});
afterAll(() => new Promise((resolve) => site.close(resolve)));
beforeEach(async () => {
  file = join(folder, 'pet-store.json');
  await writeFile(file, document([{ url: `${origin}/v1` }]));
  const made = { success: true, message: 'Registered 1 operations', collection_name: 'x' };
  routes.set('GET /api/v1/sources', () => ({ status: 200, body: [] }));
  routes.set('GET /api/v1/tools/pet_store_getPet', () => ({ status: 200, body: GET_PET }));
  for (const [kind, tools] of [
    ['openapi', { operations_registered: [GET_PET.name] }],
    ['mcp', { registered: ['crm_find'], quarantined: [{ name: 'crm_find', reason: 'new', pending_revision: 'r' }] }],
  ] as const)
    routes.set(`POST /api/v1/sources/${kind}`, () => ({ status: 201, body: { ...made, ...tools } }));
});

const registered = () => seen.find(({ method }) => method === 'POST');

describe('sources add <url|file>', () => {
  it('names the address of a server with variables, which --allow lets the fleet connect to', async () => {
    const { port } = new URL(origin);
    const variables = { port: { default: port } };
    await writeFile(file, document([{ url: 'http://127.0.0.1:{port}/v2', variables }]));
    expect((await run(['sources', 'add', file])).error).toContain(`with 1 operations on ${origin};`);
  });

  it('registers a file under its name, and prints a first call', async () => {
    const { code, out, error } = await run(['sources', 'add', file]);
    expect([code, out]).toEqual([0, 'Registered 1 operations\n\nfleetctl call pet_store_getPet --id …\n']);
    expect(error).toContain(
      `an OpenAPI 3.1.0 document (Pet Store) with 1 operations on ${origin}; adding it as pet_store`,
    );
    expect(registered()).toMatchObject({
      path: '/api/v1/sources/openapi',
      body: { name: 'pet_store', name_prefix: 'pet_store_', spec_inline: expect.stringContaining('getPet') },
    });
  });

  it('names a source by its title where the name of its file says nothing', async () => {
    const generic = join(folder, 'openapi.json');
    await writeFile(generic, document([{ url: `${origin}/v1` }]));
    expect((await run(['sources', 'add', generic])).error).toContain('adding it as pet_store');
    expect((await run(['sources', 'add', `${origin}/mcp`])).error).toContain('adding it as crm');
  });

  it('registers a document on the web under its title', async () => {
    const { error } = await run(['sources', 'add', `${origin}/openapi.json`]);
    expect(error).toContain(`on ${origin}; adding it as pet_store`);
    expect(registered()?.body).toMatchObject({ name: 'pet_store', spec_url: `${origin}/openapi.json` });
  });

  it('registers an MCP server, and offers no tool that awaits approval', async () => {
    const { code, out, error } = await run(['sources', 'add', `${origin}/mcp`, '--name', 'crm']);
    expect([code, error]).toEqual([0, `${origin}/mcp is an MCP server (crm 3) with 1 tools: find; adding it as crm\n`]);
    expect(out).not.toContain('fleetctl call');
    expect(registered()).toMatchObject({ path: '/api/v1/sources/mcp', body: { name: 'crm', url: `${origin}/mcp` } });
  });

  it('registers an MCP server that asks for a credential', async () => {
    const { error } = await run(['sources', 'add', `${origin}/closed`, '--name', 'closed']);
    expect(error).toBe(
      `${origin}/closed is an MCP server that asks for a credential (--header "Authorization: Bearer …"); adding it as closed\n`,
    );
  });

  it.each<[string, () => string[], number, string]>([
    ['an MCP server without a name', () => [`${origin}/closed`], 2, '--name NAME'],
    ['a page', () => [`${origin}/page`], 1, 'is not an OpenAPI 3 document'],
    ['nothing', () => [`${origin}/nothing`], 1, 'answers a GET with HTTP 404, and does not answer MCP'],
    ['a command for another fleet', () => ['npx -y mcp-files'], 2, 'only the fleet that npm start runs'],
    ['what cannot be reached', () => ['http://127.0.0.1:1/mcp'], 1, 'sources add mcp NAME'],
    ['another fleet', () => [file, '--allow'], 2, 'npm start runs here'],
  ])('refuses %s and says what to do', async (_what, words, code, message) => {
    expect(await run(['sources', 'add', ...words()])).toMatchObject({ code, error: expect.stringContaining(message) });
    expect(registered()).toBeUndefined();
  });

  it('lets a fleet of this machine connect to it, and waits until it does', async () => {
    const state = join(folder, 'state');
    await mkdir(state, { recursive: true });
    await writeFile(join(state, 'local.json'), JSON.stringify({ url, api_key: 'local' }));
    let refusals = 0;
    routes.set('POST /api/v1/sources/openapi', () => {
      refusals += 1;
      return refusals <= 3
        ? { status: 400, body: { error: 'Refused by the egress guard', code: 'SPEC_INVALID' } }
        : { status: 201, body: { message: 'Registered 1 operations' } };
    });
    routes.set('POST /api/v1/sources/allow', ({ body }) => ({ status: 200, body }));
    const local = { env: { TOOLFLEET_STATE_DIR: state } };
    const first = await run(['sources', 'add', file], local);
    expect(first).toMatchObject({ code: 1, error: expect.stringContaining('--allow lets the fleet') });
    expect(await run(['sources', 'add', '--allow', file], local)).toMatchObject({ code: 0 });
    expect(refusals).toBe(4);
    expect(seen.find(({ path }) => path === '/api/v1/sources/allow')?.body).toEqual({ origins: [origin] });
  });

  it('starts a command once, declares it where npm start runs the fleet, and waits for its tools', async () => {
    const state = join(folder, 'commands');
    const config = join(state, 'fleet.yaml');
    await mkdir(state, { recursive: true });
    await writeFile(join(state, 'local.json'), JSON.stringify({ url, api_key: 'local' }));
    await writeFile(
      config,
      '# mine\nmcp_servers: # local\n    # the other\n    other: { url: https://a.example }\nbudget: {}\n',
    );
    const local = { env: { TOOLFLEET_STATE_DIR: state } };
    const server = ['--', process.execPath, '-e', LOCAL_SERVER];
    const add = (...words: string[]) => run(['sources', 'add', '--name', 'all', ...words], local);
    const refused = await add(...server);
    expect(refused).toMatchObject({
      code: 1,
      error: expect.stringMatching(/is an MCP server \(crm 3\) with 1 tools: find; adding it as all\n/),
    });
    expect(refused.error).toContain('--allow lets the fleet that npm start runs here start it');
    let looks = 0;
    routes.set('GET /api/v1/sources/mcp/all', () => {
      looks += 1;
      const found = {
        id: 'mcp/all',
        name: 'all',
        state: looks < 3 ? 'pending' : 'ok',
        tools: ['prompt:all_review', 'all_find'],
      };
      return looks === 1
        ? { status: 404, body: { error: 'No source', code: 'NOT_FOUND' } }
        : { status: 200, body: found };
    });
    routes.set('GET /api/v1/tools/all_find', () => ({ status: 200, body: { ...GET_PET, name: 'all_find' } }));
    const added = await add('--allow', '--fields', '{"memory_limit_mb": 64}', ...server);
    expect(added).toMatchObject({
      code: 0,
      out: 'The fleet has started all with 1 tools\n\nfleetctl call all_find --id …\n',
    });
    const entry = { command: process.execPath, args: ['-e', LOCAL_SERVER], memory_limit_mb: 64 };
    expect(await readFile(config, 'utf8')).toBe(
      `# mine\nmcp_servers: # local\n    all: ${JSON.stringify(entry)}\n    # the other\n    other: { url: https://a.example }\nbudget: {}\n`,
    );
    expect(await add('--allow', ...server)).toMatchObject({
      code: 2,
      error: expect.stringContaining('choose another'),
    });
    await writeFile(config, 'mcp_servers: {}\n');
    expect(await add('--allow', ...server)).toMatchObject({
      code: 1,
      error: expect.stringContaining('cannot be extended; add this'),
    });
    expect(await add('--allow', 'no-such-command -y')).toMatchObject({
      code: 2,
      error: expect.stringContaining('neither a URL, nor a file, nor a command'),
    });
    // Asked for its revision and to initialize, a silent server is given up within its time.
    const asleep = ['--', process.execPath, '-e', 'setInterval(() => 0, 1_000)'];
    const since = performance.now();
    expect(await add('--allow', '--fields', '{"start_seconds": 4}', ...asleep)).toMatchObject({ code: 1 });
    expect(performance.now() - since).toBeLessThan(7_500);
    const silent = ['--', process.execPath, '-e', 'console.error("no config"); process.exit(3)'];
    expect(await add('--allow', ...silent)).toMatchObject({ code: 1, error: expect.stringContaining('no config') });
  });
});
