/** What clients read about tools: schemas that every model provider takes, and hints about effects. And what searches for tools find. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { TOOL_FORMATS } from '@toolfleet/catalog';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { geminiFaults, PROVIDER_NAMES, strictFaults } from '@toolfleet/testing/provider-rules';
import { eventually } from '@toolfleet/testing';
import { startSampleServices, type SampleServices } from '../fleet/sample-services.js';
import { TestFleet } from '../fleet/test-fleet.js';

let samples: SampleServices;
let fleet: TestFleet;

beforeAll(async () => {
  samples = await startSampleServices();
  fleet = await TestFleet.start({
    together: true,
    services: {
      budget: 1,
      records: 1,
      registry: 1,
      'builtin-executor': 1,
      'mcp-executor': 1,
      'openapi-executor': 1,
      gateway: 2,
    },
    config: samples.config,
    env: samples.env,
    tools: ['calculator', 'sample_add', 'parcels_getParcel'],
  });
});
afterAll(async () => {
  await fleet?.stop();
  await samples?.stop();
});

async function listOverMcp(query = '', mode: 'legacy' | 'auto' = 'auto') {
  const client = new Client({ name: 'reader', version: '1' }, { versionNegotiation: { mode } });
  const requestInit = { headers: { Authorization: `Bearer ${fleet.adminKey}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${fleet.url()}/mcp${query}`), { requestInit }));
  try {
    return (await client.listTools()).tools;
  } finally {
    await client.close();
  }
}

async function get(path: string): Promise<{ status: number; body: Json }> {
  const response = await fetch(`${fleet.url()}${path}`, { headers: { Authorization: `Bearer ${fleet.adminKey}` } });
  return { status: response.status, body: (await response.json()) as Json };
}

/** All keys of a value, at any depth. */
function keysIn(value: Json): Set<string> {
  if (Array.isArray(value)) return new Set(value.flatMap((item) => [...keysIn(item)]));
  if (!isJsonObject(value)) return new Set();
  return new Set(Object.entries(value).flatMap(([key, item]) => [key, ...keysIn(item)]));
}

describe('listed schemas', () => {
  it('do not name a dialect, also where the upstream does', async () => {
    const upstream = new Client({ name: 'reader', version: '1' });
    await upstream.connect(new StreamableHTTPClientTransport(new URL(`${samples.mcp}/mcp`)));
    expect(keysIn((await upstream.listTools()) as unknown as Json)).toContain('$schema');
    await upstream.close();
    expect(keysIn((await listOverMcp()) as unknown as Json)).not.toContain('$schema');
    for (const format of TOOL_FORMATS) {
      expect(keysIn((await get(`/api/v1/tools?format=${format}`)).body), format).not.toContain('$schema');
    }
    expect(keysIn((await get('/tools/schemas')).body)).not.toContain('$schema');
  });

  it.each([['legacy'], ['auto']] as const)('have no $defs over MCP at ?schema_style=inline (%s)', async (mode) => {
    expect(keysIn((await listOverMcp('', mode)) as unknown as Json)).toContain('$defs');
    const tools = await listOverMcp('?schema_style=inline', mode);
    const keys = keysIn(tools as unknown as Json);
    for (const keyword of ['$defs', '$ref', '$schema']) expect(keys, keyword).not.toContain(keyword);
    const create = tools.find(({ name }) => name === 'parcels_createParcel');
    const body = create?.inputSchema.properties?.['body'] as JsonObject;
    expect(body['type']).toBe('object');
    expect(Object.keys(body['properties'] as JsonObject).length).toBeGreaterThan(1);
  });

  it('have no $defs over HTTP with schema_style=inline, in every format', async () => {
    const paths = TOOL_FORMATS.map((format) => `/api/v1/tools?format=${format}&`);
    for (const path of [
      ...paths,
      '/api/v1/tools/parcels_createParcel?',
      '/tools/schemas?',
      '/tools/parcels_createParcel/schema?',
    ]) {
      if (!path.includes('gemini')) expect(keysIn((await get(path)).body), path).toContain('$ref');
      const { status, body } = await get(`${path}schema_style=inline`);
      expect(status, path).toBe(200);
      expect(keysIn(body), path).not.toContain('$ref');
      expect(keysIn(body), path).not.toContain('$defs');
    }
  });

  it('and names follow the published rules of each provider', async () => {
    const list = async (format: string) => (await get(`/api/v1/tools?format=${format}`)).body as JsonObject[];
    const names = (await list('native')).map(({ name }) => String(name));
    expect(names.length).toBeGreaterThan(10);
    for (const [provider, pattern] of Object.entries(PROVIDER_NAMES)) {
      expect(
        names.filter((name) => !pattern.test(name)),
        provider,
      ).toEqual([]);
    }
    const declared = (await list('gemini')).filter(({ parameters }) => parameters !== undefined);
    expect(declared.length).toBeGreaterThan(10);
    for (const { name, parameters } of declared) expect(geminiFaults(parameters!), String(name)).toEqual([]);
    const strict = (await list('openai-responses-strict')).filter((tool) => tool['strict'] === true);
    expect(strict.map(({ name }) => name)).toEqual(expect.arrayContaining(['calculator', 'sample_add']));
    for (const { name, parameters } of strict) expect(strictFaults(parameters!), String(name)).toEqual([]);
  });

  it('of the strict mode have null for what a caller leaves out', async () => {
    const { body } = await get('/api/v1/tools/parcels_listParcels?format=openai-strict');
    const { strict, parameters } = (body as { function: JsonObject })['function'] as {
      strict: boolean;
      parameters: { required: string[] };
    };
    expect(strict).toBe(true);
    const nothing = Object.fromEntries(parameters.required.map((name) => [name, null]));
    const answer = await fleet.call('parcels_listParcels', nothing);
    expect(answer.body, answer.text).toMatchObject({ success: true });
  });

  it('refuse an unknown style', async () => {
    expect(await get('/api/v1/tools?schema_style=flat')).toMatchObject({
      status: 400,
      body: { code: 'REQUEST_INVALID' },
    });
    const response = await fetch(`${fleet.url()}/mcp?schema_style=flat`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${fleet.adminKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    });
    expect(response.status).toBe(400);
    expect(await response.text()).toContain('schema_style must be one of defs, inline');
  });
});

describe('hints about effects', () => {
  const SAFE = { readOnlyHint: true, destructiveHint: false, idempotentHint: true };

  it('are set for builtin tools, and by method for operations', async () => {
    const hints = new Map((await listOverMcp()).map(({ name, annotations }) => [name, annotations]));
    expect(hints.get('calculator')).toEqual({ ...SAFE, openWorldHint: false });
    expect(hints.get('parcels_getParcel')).toEqual({ ...SAFE, openWorldHint: true });
    expect(hints.get('parcels_createParcel')).toEqual({
      readOnlyHint: false,
      destructiveHint: true,
      idempotentHint: false,
      openWorldHint: true,
    });
    expect(hints.get('parcels_cancelParcel')).toMatchObject({ readOnlyHint: false, destructiveHint: true });
    for (const [name, annotations] of hints) {
      if (name.startsWith('sample_') || name === 'echo_function') continue;
      for (const hint of ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'] as const) {
        expect(annotations?.[hint], `${name} ${hint}`).toBeTypeOf('boolean');
      }
    }
    const { body } = await get('/api/v1/tools/calculator?format=mcp');
    expect(body).toMatchObject({ annotations: { readOnlyHint: true } });
  });
});

describe('a search', () => {
  const select = async (task: string, { gateway = 0, key = fleet.adminKey } = {}): Promise<string[]> => {
    const answer = await fleet.ask({ path: '/tools/select', body: { task, max_tools: 8 }, key, gateway });
    expect(answer.status, answer.text).toBe(200);
    return answer.body.selected_tools;
  };

  it('prefers what the tenant called after a similar search, and no other tenant', async () => {
    // Two tools fit nearly alike: earlier calls decide between them.
    const task = 'create or cancel';
    const called = 'parcels_cancelParcel';
    const found = await select(task);
    expect(found).toContain(called);
    expect(found[0]).not.toBe(called);
    const { body: call } = await fleet.call(called, { parcel_id: 'P-1003' });
    expect(call).toMatchObject({ success: true });
    const redis = fleet.redis.client();
    await eventually('search and call are kept', async () => {
      const { calls } = (await fleet.ask({ path: '/api/v1/calls?limit=500' })).body;
      const isKept = calls.some(({ call_id: id }: { call_id: string }) => id === call.call_id);
      return isKept && (await redis.llen('lc:s:acme')) > 0;
    });
    // One gateway learns of a tenant per interval, and a gateway reads what was learned at its first search: as if that was later.
    await redis.del('lc:l:acme');
    const later = { gateway: 1 };
    const others = { gateway: 1, key: fleet.keys['globex']! };
    await eventually('it is learned', async () => (await select(task, later))[0] === called);
    expect((await select('cancel, or create?', later))[0]).toBe(called);
    expect((await select(task, others))[0]).toBe(found[0]);
    expect((await select('the weather', later))[0]).toBe((await select('the weather', others))[0]);
  });
});
