/**
 * Results of two gateways that share a result store: a large result of one is read through the other, over HTTP and as an MCP
 * task; pictures and files of a result reach every reader and can be downloaded; a call gets the part of a result it selects.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { CallBody } from '@toolfleet/contracts';
import { eventually } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fleetctl } from '../fleet/fleetctl.js';
import { askTask } from '../fleet/mcp-tasks.js';
import { TestFleet } from '../fleet/test-fleet.js';

/** A picture of 30 KB, above the threshold of the store. */
const PICTURE = { type: 'image', mimeType: 'image/png', data: Buffer.alloc(30_000, 'png').toString('base64') };
const RICH = [
  { type: 'text', text: 'drawn' },
  PICTURE,
  { type: 'resource', resource: { uri: 'file:///out/r%C3%A9sum%C3%A9.csv', mimeType: 'text/csv', text: 'a,b\n' } },
  { type: 'resource_link', uri: 'https://files.example/plan.pdf', name: 'plan' },
];
const DRAW = `export default ({ defineTool, ok, ToolError }) => defineTool({
  name: 'draw', description: 'Draws', category: 'data', rateLimit: 0, cacheTtlSeconds: 0,
  inputSchema: { type: 'object', properties: { fails: { type: 'boolean' } } },
  handler: ({ fails }) => ok({ drawn: !fails }, 'drawn', {
    content: ${JSON.stringify(RICH)},
    failure: fails ? new ToolError('TOOL_ERROR', { message: 'no ink' }) : undefined,
  }),
});`;

/** A table with an output schema that requires all of its members and allows no others. */
const LIST_ROWS = `export default ({ defineTool, ok }) => defineTool({
  name: 'list_rows', description: 'Lists rows', category: 'data', rateLimit: 0, idempotent: true,
  inputSchema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
  outputSchema: {
    type: 'object', properties: { rows: { type: 'array' }, total: { type: 'integer' } },
    required: ['rows', 'total'], additionalProperties: false,
  },
  handler: ({ n }) => {
    const rows = Array.from({ length: n }, (_, id) => ({ id, name: 'row ' + id, note: 'x'.repeat(100) }));
    return ok({ rows, total: n }, n + ' rows');
  },
});`;

let folder: string;
let fleet: TestFleet;
let nats: NatsClient;
const clients: Client[] = [];
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'toolfleet-results-'));
  const [store, plugins] = [join(folder, 'results'), join(folder, 'plugins')];
  await Promise.all([mkdir(store), mkdir(plugins)]);
  await writeFile(join(plugins, 'draw.tool.mjs'), DRAW);
  await writeFile(join(plugins, 'list-rows.tool.mjs'), LIST_ROWS);
  fleet = await TestFleet.start({
    together: true,
    services: { gateway: 2, registry: 1, budget: 1, 'builtin-executor': 1 },
    tools: ['text_process', 'draw', 'list_rows'],
    env: {
      RESULT_STORE: 'directory',
      RESULT_STORE_DIR: store,
      RESULT_STORE_THRESHOLD_KB: '16',
      BUILTIN_PLUGINS_DIR: plugins,
    },
  });
  nats = await NatsClient.connect({ url: fleet.nats.url, name: 'results' });
});
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await nats?.close();
  await fleet?.stop();
  await rm(folder, { recursive: true, force: true });
});

const objects = async (): Promise<string[]> =>
  (await readdir(join(folder, 'results'), { recursive: true })).filter((name) => name.endsWith('.json'));
const words = (word: string) => ({ text: `${word} `.repeat(5_000), operation: 'case', to: 'upper' });

it('replays a call with an idempotency key', async () => {
  const before = await objects();
  const headers = { 'idempotency-key': randomUUID() };
  const first = await fleet.call('text_process', words('one'), { headers });
  expect(first.body.output.text ?? first.text).toContain('ONE ONE');
  expect(await objects()).toHaveLength(before.length + 1);
  const again = await fleet.call('text_process', words('one'), { headers, gateway: 1 });
  expect(again.body).toMatchObject({ output: first.body.output, metadata: { idempotent_replay: true } });
});

it('returns the result of an asynchronous call, also as a task of MCP', async () => {
  const before = await objects();
  const { id } = await ended('text_process', words('two'));
  expect(await objects()).toHaveLength(before.length + 1);
  for (const gateway of [0, 1]) {
    const { body, text } = await fleet.ask({ path: `/api/v1/calls/${id}`, gateway });
    expect(text.length).toBeGreaterThan(20_000);
    expect(JSON.stringify(body.result.output)).toContain('TWO TWO');
    expect((await askTask(fleet, 'tasks/get', id, { gateway })).text).toContain('TWO TWO');
  }
});

/** Starts an asynchronous call and waits until the other gateway reports its end. */
async function ended(tool: string, args: object): Promise<{ id: string; result: CallBody }> {
  const accepted = await fleet.call(tool, args, { fields: { mode: 'async' } });
  expect(accepted.status, accepted.text).toBe(202);
  const id: string = accepted.body.call_id;
  let result: CallBody | undefined;
  await eventually(`call ${id} has ended`, async () => {
    ({ result } = (await fleet.ask({ path: `/api/v1/calls/${id}`, gateway: 1 })).body);
    return result !== undefined;
  });
  return { id, result: result! };
}

it.each([{ fails: false }, { fails: true }])(
  'pictures and files of an asynchronous call reach polls, events and MCP tasks (%o)',
  async (args) => {
    const { id, result } = await ended('draw', args);
    expect(result).toMatchObject({ success: !args.fails, content: RICH });
    const { text } = await fleet.ask({ path: `/api/v1/calls/${id}/events`, gateway: 1 });
    const done = /event: done\ndata: (.*)\n/.exec(text)![1]!;
    expect(JSON.parse(done)).toMatchObject({ result: { content: RICH } });
    expect((await askTask(fleet, 'tasks/get', id, { gateway: 1 })).body.result).toMatchObject({
      status: 'completed',
      result: { isError: args.fails, content: RICH },
    });
  },
);

it('the output and each content block of an ended call can be downloaded', async () => {
  const { id } = await ended('draw', {});
  const keyed = await fleet.call('draw', {}, { headers: { 'idempotency-key': randomUUID() } });
  for (const callId of [id, keyed.body.call_id]) {
    const download = (path: string, key?: string) =>
      fetch(`${fleet.url(1)}/api/v1/calls/${callId}/${path}`, {
        headers: { authorization: `Bearer ${key ?? fleet.adminKey}` },
      });
    const file = async (path: string) => {
      const response = await download(path);
      const { headers } = response;
      return [
        response.status,
        headers.get('content-type'),
        headers.get('content-disposition'),
        Buffer.from(await response.arrayBuffer()).toString('base64'),
      ];
    };
    const base64 = (text: string) => Buffer.from(text).toString('base64');
    expect(await file('result')).toEqual([
      200,
      'application/json; charset=utf-8',
      'attachment; filename="draw.json"',
      base64('{\n  "drawn": true\n}\n'),
    ]);
    expect(await file('content/0')).toEqual([
      200,
      'text/plain; charset=utf-8',
      'attachment; filename="draw-1.txt"',
      base64('drawn'),
    ]);
    expect(await file('content/1')).toEqual([200, 'image/png', 'attachment; filename="draw-2.png"', PICTURE.data]);
    expect(await file('content/2')).toEqual([
      200,
      'text/csv; charset=utf-8',
      `attachment; filename="r_sum_.csv"; filename*=UTF-8''r%C3%A9sum%C3%A9.csv`,
      base64('a,b\n'),
    ]);
    const safe = await download('content/1');
    expect(safe.headers.get('x-content-type-options')).toBe('nosniff');
    expect(safe.headers.get('content-security-policy')).toContain('sandbox');
    for (const [path, message] of [
      ['content/3', /Content block 3 of call .* is a resource_link/],
      ['content/4', /has no content block 4; it has 4, counted from 0/],
      ['content/x', /has no content block x/],
    ] as const) {
      const refused = await download(path);
      const body = { code: 'NOT_FOUND', error: expect.stringMatching(message) };
      expect([refused.status, await refused.json()]).toMatchObject([404, body]);
    }
    expect((await download('result', fleet.keys['globex'])).status).toBe(404);
  }
  const missing = await fleet.ask({ path: '/api/v1/calls/none/result' });
  expect(missing).toMatchObject({ status: 404, body: { code: 'NOT_FOUND' } });
});

it('fleetctl writes pictures and files to files and to standard output, also those of a background call', async () => {
  const shown = await fleetctl(fleet, ['call', 'draw']);
  expect([shown.code, shown.out.toString()]).toEqual([0, 'drawn\na,b\nplan: https://files.example/plan.pdf\n']);
  expect(shown.error).toContain('draw-1.png: image/png, 30000 bytes; --output FILE or DIR/ writes it\n');
  const saved = await fleetctl(fleet, ['call', 'draw', '--async', '--output', 'out/']);
  expect(saved).toMatchObject({ code: 0, error: expect.stringContaining('Wrote out/draw.json\n') });
  expect((await readdir(join(fleet.folder, 'out'))).toSorted()).toEqual(['draw-1.png', 'draw.json', 'résumé.csv']);
  expect((await readFile(join(fleet.folder, 'out/draw-1.png'))).toString('base64')).toBe(PICTURE.data);
  const { id } = await ended('text_process', words('three'));
  const piped = await fleetctl(fleet, ['calls', 'show', id, '--output', '-']);
  expect(JSON.parse(piped.out.toString())).toEqual(
    (await fleet.ask({ path: `/api/v1/calls/${id}` })).body.result.output,
  );
});

describe('a call that selects a part of its result', () => {
  const select = '$.rows[?@.id >= 2].name';
  const NAMES = ['row 2', 'row 3'];

  it('gets it over HTTP, NATS, in a batch and asynchronously, and a replay another part', async () => {
    const args = { n: 4 };
    expect((await fleet.call('list_rows', args, { fields: { select } })).body).toMatchObject({
      output: NAMES,
      text: JSON.stringify(NAMES),
      metadata: { select: { expression: select, matched: true } },
    });
    const headers = { Authorization: `Bearer ${fleet.adminKey}` };
    const message = { name: 'list_rows', arguments: args, select: 'total' };
    expect(await nats.request('tool.call', message, { timeoutMs: 20_000, headers })).toMatchObject({ output: 4 });
    const batch = await fleet.ask({
      path: '/api/v1/tools/batch-execute',
      body: {
        select,
        calls: [
          { name: 'list_rows', arguments: args },
          { name: 'list_rows', arguments: args, select: 'total' },
          { type: 'tool_use', id: 't', name: 'list_rows', input: args, select: 'rows[0].name' },
        ],
      },
    });
    expect(JSON.parse(batch.body[0].result).output).toEqual(NAMES);
    expect(JSON.parse(batch.body[1].result).output).toBe(4);
    expect(batch.body[2].content).toEqual([{ type: 'text', text: 'row 0' }]);
    const key = { headers: { 'idempotency-key': randomUUID() } };
    const accepted = await fleet.call(
      'list_rows',
      { n: 300 },
      { ...key, fields: { mode: 'async', select: 'rows[*].id' } },
    );
    const path = `/api/v1/calls/${accepted.body.call_id}`;
    await eventually('the call has ended', async () => (await fleet.ask({ path, gateway: 1 })).body.result);
    expect((await fleet.ask({ path, gateway: 1 })).body.result.output).toEqual(
      Array.from({ length: 300 }, (_, id) => id),
    );
    const replay = await fleet.call('list_rows', { n: 300 }, { ...key, fields: { select: 'total' } });
    expect(replay.body).toMatchObject({ output: 300, metadata: { idempotent_replay: true } });
    const wrong = await fleet.call('list_rows', args, { fields: { select: '$.rows[' } });
    expect(wrong).toMatchObject({ status: 400, body: { code: 'REQUEST_INVALID', details: { position: 7 } } });
  });

  it.each(['auto', 'legacy'] as const)('MCP: the client of the SDK accepts it (%s)', async (mode) => {
    const client = await mcpClient(mode);
    const { tools } = await client.listTools();
    expect(tools.find(({ name }) => name === 'list_rows')?.outputSchema).toMatchObject({
      properties: { total: { type: 'integer' } },
    });
    const call = (n: number, wanted?: string) =>
      client.callTool({ name: 'list_rows', arguments: { n }, _meta: wanted === undefined ? {} : { select: wanted } });
    expect((await call(2)).structuredContent).toMatchObject({ total: 2 });
    expect(await call(4, select)).toMatchObject({
      isError: false,
      content: [{ type: 'text', text: JSON.stringify(NAMES) }],
      structuredContent: { toolfleet_selection: NAMES },
    });
    expect(await call(4, 'none')).toMatchObject({
      content: [{ text: expect.stringContaining('{rows: [4 × {id: number') }],
      structuredContent: { toolfleet_selection: null },
    });
    expect(await call(4, 'a b')).toMatchObject({ isError: true, _meta: { code: 'REQUEST_INVALID' } });
  });
});

async function mcpClient(mode: 'auto' | 'legacy', key = fleet.adminKey): Promise<Client> {
  const client = new Client({ name: 'e2e', version: '1' }, { versionNegotiation: { mode } });
  const requestInit = { headers: { Authorization: `Bearer ${key}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${fleet.url(0)}/mcp`), { requestInit }));
  clients.push(client);
  return client;
}

describe('a result that is too large to show', () => {
  const N = 2_000;
  const clientOf = async (key?: string) => {
    const client = await mcpClient('auto', key);
    await client.listTools();
    return client;
  };
  const handleOf = (result: { _meta?: object }): string =>
    (result as { _meta: { metadata: { result_handle: { handle: string } } } })._meta.metadata.result_handle.handle;

  it.each(['auto', 'legacy'] as const)(
    'MCP: comes as a handle, which tool and resource read in parts (%s)',
    async (mode) => {
      const client = await mcpClient(mode);
      await client.listTools();
      const large = await client.callTool({ name: 'list_rows', arguments: { n: N } });
      const [summary, link] = large.content as unknown as [{ text: string }, { uri: string }];
      expect(JSON.stringify(large).length).toBeLessThan(8_000);
      expect(summary.text).toContain(`{rows: [${N} × {id: number, name: string, note: string}], total: number}`);
      const handle = handleOf(large);
      expect(large.structuredContent).toMatchObject({ toolfleet_result: { handle, uri: link.uri } });
      const read = (args: object) => client.callTool({ name: 'read_result', arguments: { handle, ...args } });
      const part = await read({ select: '$.rows[1998:].name' });
      expect(part.content).toEqual([{ type: 'text', text: '["row 1998","row 1999"]' }]);
      const [page] = (await read({ offset: 5, limit: 40 })).content as unknown as [{ text: string }];
      expect(page.text).toMatch(
        /^s":\[{"id":0,"name":"row 0".*\n\[characters 5 to 45 of \d+; the next page has offset 45]$/,
      );
      const [template] = (await client.listResourceTemplates()).resourceTemplates;
      expect(template?.uriTemplate).toBe('toolfleet://results/{handle}{?select,offset,limit}');
      const selected = await client.readResource({ uri: `${link.uri}?select=${encodeURIComponent('$.total')}` });
      expect(selected.contents).toMatchObject([{ mimeType: 'application/json', text: `[${N}]` }]);
      const paged = await client.readResource({ uri: `${link.uri}?offset=2&limit=4` });
      expect(paged.contents).toMatchObject([{ text: 'rows', _meta: { next_offset: 6 } }]);
      await expect(client.readResource({ uri: 'toolfleet://results/none' })).rejects.toThrow(/not found/i);
      const whole = await client.callTool({ name: 'list_rows', arguments: { n: N }, _meta: { max_result_kb: 5_000 } });
      expect(whole.structuredContent).toMatchObject({ total: N });
    },
  );

  it('is read over HTTP in pages that join to the whole, through the other gateway', async () => {
    const whole = await fleet.call('list_rows', { n: N });
    expect(whole.body.output.total).toBe(N);
    const kept = await fleet.call('list_rows', { n: N }, { fields: { max_result_kb: 10 } });
    expect(kept.body).toMatchObject({
      success: true,
      output: null,
      metadata: { result_handle: { handle: kept.body.call_id } },
    });
    const path = `/api/v1/results/${kept.body.call_id}`;
    let text = '';
    for (let offset: number | null = 0; offset !== null;) {
      const page = await fleet.ask({ path: `${path}?offset=${offset}&limit=100000`, gateway: 1 });
      expect(page.status, page.text).toBe(200);
      text += page.body.text;
      offset = page.body.next_offset;
    }
    expect(JSON.parse(text)).toEqual(whole.body.output);
    const file = await fleet.ask({ path: `/api/v1/calls/${kept.body.call_id}/result`, gateway: 1 });
    expect(file.body).toEqual(whole.body.output);
    const select = async (expression: string) =>
      fleet.ask({ path: `${path}?select=${encodeURIComponent(expression)}` });
    expect((await select('length(rows)')).body.output).toBe(N);
    expect((await select('nothing')).body).toMatchObject({
      output: null,
      note: expect.stringContaining('rows: [2000'),
    });
    expect(await select('rows[')).toMatchObject({ status: 400, body: { code: 'REQUEST_INVALID' } });
    expect(await select('@')).toMatchObject({ body: { code: 'TOOL_ERROR' } });
    const answer = await fleet.ask({
      path: '/api/v1/tools/batch-execute',
      body: [{ type: 'tool_use', id: 't', name: 'list_rows', input: { n: N } }],
    });
    expect(answer.body[0].content[0].text).toContain('read_result {"handle"');
    const message = { name: 'read_result', arguments: { handle: kept.body.call_id, select: 'total' } };
    const headers = { Authorization: `Bearer ${fleet.adminKey}` };
    expect(await nats.request('tool.call', message, { timeoutMs: 20_000, headers })).toMatchObject({ output: N });
  });

  it('is hidden from other tenants, sessions and keys that may not use its tool', async () => {
    const issue = async (name: string, tools: string[]) =>
      (await fleet.ask({ path: '/api/v1/keys', body: { client: name, service_account: name, tools } })).body
        .token as string;
    const [own, narrow] = await Promise.all([issue('wide', ['list_*']), issue('narrow', ['text_*'])]);
    const fields = { max_result_kb: 10 };
    const open = (await fleet.call('list_rows', { n: N }, { fields, key: own })).body.call_id;
    const bound = (await fleet.call('list_rows', { n: N }, { fields: { ...fields, session_id: 's1' }, key: own })).body
      .call_id;
    const read = async (handle: string, key: string, session_id?: string) => {
      const tool = await fleet.call('read_result', { handle, select: 'total' }, { key, fields: { session_id } });
      const query = session_id === undefined ? '' : `&session_id=${session_id}`;
      const http = await fleet.ask({ path: `/api/v1/results/${handle}?select=total${query}`, key });
      return [tool.body.code ?? tool.body.metadata.code ?? tool.body.output, http.body.code ?? http.body.output];
    };
    expect(await read(open, own)).toEqual([N, N]);
    expect(await read(bound, own, 's1')).toEqual([N, N]);
    const hidden = ['NOT_FOUND', 'NOT_FOUND'];
    expect(await read(open, narrow)).toEqual(hidden);
    expect(await read(open, fleet.keys['globex']!)).toEqual(hidden);
    expect(await read(bound, own)).toEqual(hidden);
    expect(await read(bound, own, 's2')).toEqual(hidden);
    expect((await fleet.ask({ path: `/api/v1/calls/${bound}/result`, key: own })).status).toBe(404);
    const client = await clientOf(narrow);
    await expect(client.readResource({ uri: `toolfleet://results/${open}` })).rejects.toThrow(/not found/i);
  });
});
