/**
 * Results of two gateways that share a result store: a large result of one is read through the other, over HTTP and as an MCP
 * task; pictures and files of a result reach every reader and can be downloaded.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CallBody } from '@toolfleet/contracts';
import { eventually } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { fleetctl } from '../fleet/fleetctl.js';
import { TestFleet } from '../fleet/test-fleet.js';

/** A picture of 30 KB, which is above the threshold of the store. */
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

let folder: string;
let fleet: TestFleet;
let nats: NatsClient;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'toolfleet-results-'));
  const [store, plugins] = [join(folder, 'results'), join(folder, 'plugins')];
  await Promise.all([mkdir(store), mkdir(plugins)]);
  await writeFile(join(plugins, 'draw.tool.mjs'), DRAW);
  fleet = await TestFleet.start({
    services: { gateway: 2, registry: 1, budget: 1, 'builtin-executor': 1 },
    tools: ['text_process', 'draw'],
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
    expect((await getTask(id, gateway)).text).toContain('TWO TWO');
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
  'pictures and files of an asynchronous call reach polls, events, NATS and MCP tasks (%o)',
  async (args) => {
    const published = new Map<string, unknown>();
    const subscription = nats.subscribe('tool.result.acme.*', ({ subject, body }) =>
      published.set(subject.split('.').at(-1)!, body),
    );
    const { id, result } = await ended('draw', args);
    expect(result).toMatchObject({ success: !args.fails, content: RICH });
    const { text } = await fleet.ask({ path: `/api/v1/calls/${id}/events`, gateway: 1 });
    const done = /event: done\ndata: (.*)\n/.exec(text)![1]!;
    expect(JSON.parse(done)).toMatchObject({ result: { content: RICH } });
    expect((await getTask(id, 1)).body.result).toMatchObject({
      status: 'completed',
      result: { isError: args.fails, content: RICH },
    });
    await eventually('the result is published', () => published.has(id));
    expect(published.get(id)).toMatchObject({ success: !args.fails, content: RICH });
    subscription.unsubscribe();
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
  const piped = await fleetctl(fleet, ['jobs', id, '--output', '-']);
  expect(JSON.parse(piped.out.toString())).toEqual(
    (await fleet.ask({ path: `/api/v1/calls/${id}` })).body.result.output,
  );
});

function getTask(taskId: string, gateway: number) {
  const prefix = 'io.modelcontextprotocol/';
  const _meta = {
    [`${prefix}protocolVersion`]: '2026-07-28',
    [`${prefix}clientInfo`]: { name: 'spec', version: '1' },
    [`${prefix}clientCapabilities`]: { extensions: { [`${prefix}tasks`]: {} } },
  };
  return fleet.ask({
    path: '/mcp',
    gateway,
    body: { jsonrpc: '2.0', id: 1, method: 'tasks/get', params: { taskId, _meta } },
    headers: {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tasks/get',
      'mcp-name': taskId,
    },
  });
}
