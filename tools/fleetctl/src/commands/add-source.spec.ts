import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
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

/** Servers of documents, and one that speaks MCP. */
let site: Server;
let origin: string;
let file: string;
beforeAll(async () => {
  site = createServer((request, response) => {
    if (request.url === '/openapi.json') response.end(document([{ url: '/v1' }]));
    else if (request.url === '/page') response.end('<html></html>');
    else response.writeHead(request.url === '/mcp' ? 405 : 404).end();
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

  it('registers a document on the web under its title', async () => {
    const { error } = await run(['sources', 'add', `${origin}/openapi.json`]);
    expect(error).toContain(`on ${origin}; adding it as pet_store`);
    expect(registered()?.body).toMatchObject({ name: 'pet_store', spec_url: `${origin}/openapi.json` });
  });

  it('registers an MCP server, and offers no tool that awaits approval', async () => {
    const { code, out, error } = await run(['sources', 'add', `${origin}/mcp`, '--name', 'crm']);
    expect([code, error]).toEqual([0, `${origin}/mcp looks like an MCP server; adding it as crm\n`]);
    expect(out).not.toContain('fleetctl call');
    expect(registered()).toMatchObject({ path: '/api/v1/sources/mcp', body: { name: 'crm', url: `${origin}/mcp` } });
  });

  it.each<[string, () => string[], number, string]>([
    ['an MCP server without a name', () => [`${origin}/mcp`], 2, '--name NAME'],
    ['a page', () => [`${origin}/page`], 1, 'is not an OpenAPI 3 document'],
    ['nothing', () => [`${origin}/nothing`], 1, 'answers with HTTP 404'],
    ['a command', () => ['mcp-files'], 2, 'mcp_servers:'],
    ['what cannot be reached', () => ['http://127.0.0.1:1/mcp'], 1, 'sources add mcp NAME'],
    ['another fleet', () => [file, '--allow'], 2, 'npm start runs here'],
  ])('refuses %s and says what to do', async (_what, words, code, message) => {
    expect(await run(['sources', 'add', ...words()])).toMatchObject({ code, error: expect.stringContaining(message) });
    expect(registered()).toBeUndefined();
  });

  it('lets a fleet of this machine connect to it, and waits until it does', async () => {
    const state = join(folder, 'state');
    const allowed = join(state, 'allowed-endpoints');
    await mkdir(state, { recursive: true });
    await writeFile(join(state, 'local.json'), JSON.stringify({ url, api_key: 'local' }));
    let refusals = 0;
    routes.set('POST /api/v1/sources/openapi', () => {
      refusals += 1;
      return refusals <= 3
        ? { status: 400, body: { error: 'Refused by the egress guard', code: 'SPEC_INVALID' } }
        : { status: 201, body: { message: 'Registered 1 operations' } };
    });
    const local = { env: { TOOLFLEET_STATE_DIR: state } };
    const first = await run(['sources', 'add', file], local);
    expect(first).toMatchObject({ code: 1, error: expect.stringContaining('--allow lets the fleet') });
    expect(await run(['sources', 'add', '--allow', file], local)).toMatchObject({ code: 0 });
    expect([refusals, await readFile(allowed, 'utf8')]).toEqual([4, `${origin}\n`]);
  });
});
