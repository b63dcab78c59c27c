/**
 * Reads after writes are never answered with the state before the write, on any replica; nothing else is run again for them. The same fleet
 * reads a Swagger 2.0 document of a service with tokens and pictures.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startSampleServices, type SampleServices } from '../fleet/sample-services.js';
import { TestFleet, type Answer } from '../fleet/test-fleet.js';

/** Plugins with a cached read and a write of the same data. `runs` shows whether a read was answered from the cache. */
const NOTE_READ = `let runs = 0;
export default ({ defineTool, ok }) => defineTool({
  name: 'note_read', description: 'Reads the note', category: 'data', idempotent: true, rateLimit: 0,
  inputSchema: { type: 'object', properties: {} },
  handler: () => ok({ note: globalThis.note ?? 'empty', runs: (runs += 1) }, 'read'),
});`;
const NOTE_WRITE = `export default ({ defineTool, ok }) => defineTool({
  name: 'note_write', description: 'Writes the note', category: 'data', rateLimit: 0,
  inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  handler: ({ text }) => ok({ note: (globalThis.note = text) }, 'written'),
});`;

const parcelsEntry = ({ api }: SampleServices): object => ({
  enabled: true,
  spec_url: `${api}/openapi.json`,
  base_url: api,
  category: 'logistics',
  name_prefix: 'parcels_',
  auth_type: 'none',
});
/** The sample API once more, as a collection with caching. */
const DEPOT = { name_prefix: 'depot_', cache_ttl_seconds: 60 };

/** A service that Swagger 2.0 describes in Chinese; its tokens come from a form, as GitHub sends them. */
const PICTURE = Buffer.from('89504e470d0a1a0a', 'hex');
const SHOP = {
  swagger: '2.0',
  produces: ['image/png'],
  securityDefinitions: { app: { type: 'oauth2', flow: 'application', tokenUrl: '/token', scopes: {} } },
  security: [{ app: [] }],
  parameters: { Id: { name: 'id', in: 'path', required: true, type: 'string', pattern: '/^[0-9]+$/' } },
  paths: {
    '/products/{id}/picture': {
      parameters: [{ $ref: '#/parameters/Id' }],
      get: { operationId: '获取图片', summary: '图片', responses: { 200: { schema: { type: 'file' } } } },
    },
  },
};
const shop: Server = createServer((request, response) => {
  if (request.url === '/token')
    return void response
      .writeHead(200, { 'content-type': 'application/x-www-form-urlencoded' })
      .end('access_token=token-of-the-shop&scope=read');
  if (request.headers.authorization !== 'Bearer token-of-the-shop') return void response.writeHead(401).end();
  response.writeHead(200, { 'content-type': 'image/png' }).end(PICTURE);
});

let samples: SampleServices;
let plugins: string;
let fleet: TestFleet;
beforeAll(async () => {
  samples = await startSampleServices();
  await new Promise<void>((resolve) => shop.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(shop.address() as AddressInfo).port}`;
  plugins = await mkdtemp(join(tmpdir(), 'toolfleet-plugins-'));
  await writeFile(join(plugins, 'note-read.tool.mjs'), NOTE_READ);
  await writeFile(join(plugins, 'note-write.tool.mjs'), NOTE_WRITE);
  fleet = await TestFleet.start({
    services: { gateway: 2, registry: 1, budget: 1, 'builtin-executor': 1, 'openapi-executor': 1 },
    together: true,
    tools: ['parcels_getParcel', 'depot_getParcel', 'note_read', 'note_write'],
    config: {
      ...samples.config,
      openapi_tools: { parcels: parcelsEntry(samples), depot: { ...parcelsEntry(samples), ...DEPOT } },
    },
    env: {
      ...samples.env,
      BUILTIN_PLUGINS_DIR: plugins,
      EGRESS_ALLOWED_ENDPOINTS: `${samples.env['EGRESS_ALLOWED_ENDPOINTS']},${origin}`,
    },
  });
});
afterAll(async () => {
  await fleet?.stop();
  await samples?.stop();
  shop.closeAllConnections();
  shop.close();
  await rm(plugins, { recursive: true, force: true });
});

const provenance = ({ body }: Answer) => body.metadata.provenance;
const ID = { parcel_id: 'P-1001' };
const moveTo = (city: string, gateway = 0) =>
  fleet.call('parcels_changeAddress', { ...ID, body: { name: 'Ada', city } }, { gateway });

describe('an operation of an OpenAPI document', () => {
  const cityOf = async (gateway: number, fields = {}) => {
    const answer = await fleet.call('parcels_getParcel', ID, { gateway, fields });
    return [answer.body.output.to.city, provenance(answer)];
  };
  const quote = (kg: number, ask: Parameters<TestFleet['call']>[2] = {}) =>
    fleet.call('parcels_getQuote', { weight_kg: kg }, ask);

  it('reads what was written right before, on every gateway and in a session', async () => {
    for (const [index, city] of ['Paris', 'Rome', 'Oslo', 'Bern'].entries()) {
      const session = { session_id: 'reader' };
      await Promise.all([cityOf(0, session), cityOf(1, session), cityOf(0), cityOf(1)]);
      expect((await moveTo(city, index % 2)).body).toMatchObject({ success: true, output: { to: { city } } });
      expect(await Promise.all([cityOf(0, session), cityOf(1, session), cityOf(0), cityOf(1)])).toEqual(
        Array.from({ length: 4 }, () => [city, 'live']),
      );
    }
  });

  it('is cached for all gateways as long as the upstream allows, and until the tenant changes something there', async () => {
    expect(provenance(await quote(1))).toBe('live');
    await expect.poll(async () => provenance(await quote(1, { gateway: 1 }))).toBe('cache');
    await expect.poll(async () => provenance(await quote(1))).toBe('cache');
    const other = { key: fleet.keys['globex']! };
    await quote(1, other);
    await expect.poll(async () => provenance(await quote(1, other))).toBe('cache');

    await moveTo('Lima', 1);
    expect(provenance(await quote(1))).toBe('live');
    await expect.poll(async () => provenance(await quote(1, other))).toBe('cache');
  });

  it('keeps its cached results when a write was refused before it ran', async () => {
    await quote(2);
    await expect.poll(async () => provenance(await quote(2))).toBe('cache');
    expect((await fleet.call('parcels_changeAddress', { parcel_id: 'x' })).status).toBe(400);
    const dryRun = { fields: { dry_run: true } };
    expect((await fleet.call('parcels_changeAddress', { ...ID, body: { name: 'A', city: 'B' } }, dryRun)).status).toBe(
      200,
    );
    await expect.poll(async () => provenance(await quote(2))).toBe('cache');
  });

  it.each<[string, Parameters<TestFleet['call']>[2]]>([
    ['cache: reload', { fields: { cache: 'reload' } }],
    ['cache: no-store', { fields: { cache: 'no-store' } }],
    ['Cache-Control: no-cache', { headers: { 'cache-control': 'no-cache' } }],
    ['Cache-Control: no-store', { headers: { 'cache-control': 'no-store' } }],
  ])('runs again with %s', async (_what, ask) => {
    await quote(3);
    await expect.poll(async () => provenance(await quote(3))).toBe('cache');
    expect(provenance(await quote(3, ask))).toBe('live');
    await expect.poll(async () => provenance(await quote(3))).toBe('cache');
  });

  it('keeps a result for later calls with reload, and none with no-store', async () => {
    expect(provenance(await quote(4, { fields: { cache: 'no-store' } }))).toBe('live');
    expect(provenance(await quote(4, { fields: { cache: 'reload' } }))).toBe('live');
    await expect.poll(async () => provenance(await quote(4))).toBe('cache');
    await quote(5, { fields: { cache: 'no-store' } });
    expect(provenance(await quote(5))).toBe('live');
  });

  it('also runs again over NATS and MCP', async () => {
    const call = { name: 'parcels_getQuote', arguments: { weight_kg: 6 } };
    await quote(6);
    await expect.poll(async () => provenance(await quote(6))).toBe('cache');
    const nats = await NatsClient.connect({ url: fleet.nats.url, name: 'cached-reads' });
    const headers = { Authorization: `Bearer ${fleet.adminKey}` };
    const overNats = await nats.request('tool.call', { ...call, cache: 'reload' }, { timeoutMs: 20_000, headers });
    await nats.close();
    expect(overNats).toMatchObject({ metadata: { provenance: 'live' } });
    const overMcp = async (_meta: object) => {
      const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { ...call, _meta } };
      return fleet.ask({ path: '/mcp', body, headers: { accept: 'application/json, text/event-stream' } });
    };
    expect((await overMcp({})).text).toContain('"provenance":"cache"');
    expect((await overMcp({ cache: 'reload' })).text).toContain('"provenance":"live"');
    expect((await fleet.call(call.name, call.arguments, { fields: { cache: 'never' } })).body).toMatchObject({
      code: 'REQUEST_INVALID',
      error: expect.stringContaining('cache must be one of no-store, reload'),
    });
  });
});

it('an operation whose entry has cache_ttl_seconds is cached until a write of the same collection', async () => {
  const read = (gateway: number) => fleet.call('depot_getParcel', { parcel_id: 'P-1002' }, { gateway });
  await read(0);
  await expect.poll(async () => provenance(await read(1))).toBe('cache');
  const to = { name: 'Grace', city: 'Bergen' };
  expect((await fleet.call('depot_changeAddress', { parcel_id: 'P-1002', body: to })).body.success).toBe(true);
  const answers = await Promise.all([read(0), read(1)]);
  expect(answers.map(({ body }) => body.output.to.city)).toEqual(['Bergen', 'Bergen']);
});

it('a picture of an operation of a Swagger 2.0 document is an image block over MCP', async () => {
  const { port } = shop.address() as AddressInfo;
  const document = { ...SHOP, host: `127.0.0.1:${port}`, schemes: ['http'] };
  const body = {
    name: 'shop',
    spec_inline: JSON.stringify(document),
    name_prefix: 'shop_',
    auth_type: 'oauth2',
    auth_config: { client_id: 'fleet' },
  };
  const registered = await fleet.ask({ path: '/api/v1/sources/openapi', body });
  expect(registered.body, registered.text).toMatchObject({ operations_registered: ['shop_get_products_id_picture'] });
  const name = 'shop_get_products_id_picture';
  const params = { name, arguments: { id: '7' } };
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
  const headers = { accept: 'application/json, text/event-stream' };
  const ask = async () => (await fleet.ask({ path: '/mcp', body: call, headers })).text;
  await expect.poll(ask, { timeout: 20_000 }).toContain('"type":"image"');
  const answer = await ask();
  expect(answer).toContain(`"data":"${PICTURE.toString('base64')}"`);
  expect(answer).not.toContain('content_base64');
  const found = await fleet.ask({ path: `/api/v1/catalog/${name}` });
  expect(found.body.description).toBe('图片\n\n获取图片');
});

describe('a plugin whose reads are cached', () => {
  const read = async (gateway: number) => (await fleet.call('note_read', {}, { gateway })).body.output;

  it('reads what another of its tools wrote on another gateway', async () => {
    for (const [index, text] of ['one', 'two', 'three', 'four'].entries()) {
      // A result is kept after its answer, and a lookup that Redis answers late is a miss: then a read runs once more.
      await expect.poll(async () => (await read(1)).runs === (await read(0)).runs).toBe(true);
      expect((await fleet.call('note_write', { text }, { gateway: index % 2 })).body.success).toBe(true);
      expect(await Promise.all([read(0), read(1)])).toMatchObject([{ note: text }, { note: text }]);
    }
  });
});
