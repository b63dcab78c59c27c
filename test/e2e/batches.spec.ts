/** Batches of a running fleet over HTTP, Shannon's path, NATS and the clients: in order, with a limit, and per item. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ToolfleetClient } from '@toolfleet/client';
import { ToolfleetNatsClient } from '@toolfleet/client/nats';
import type { JsonObject } from '@toolfleet/contracts';
import { anthropicFaults } from '@toolfleet/testing/provider-rules';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestFleet } from '../fleet/test-fleet.js';

/** `step` reports which run it is and how many ran at once; `flaky` fails with a network error and counts its attempts. */
const STEPS = `let runs = 0; let running = 0;
export default ({ defineTool, ok }) => defineTool({
  name: 'step', description: 'Takes a while', category: 'data', rateLimit: 0, idempotent: true, cacheTtlSeconds: 0,
  inputSchema: { type: 'object', properties: { label: { type: 'string' }, ms: { type: 'integer' }, fails: { type: 'boolean' } } },
  handler: async ({ label, ms = 100, fails }, run) => {
    const started = (runs += 1);
    const together = (running += 1);
    run.progress({ message: 'half', progress: 1, total: 2 });
    await new Promise((resolve) => setTimeout(resolve, ms));
    running -= 1;
    if (fails) throw new Error('the step failed');
    return ok({ label, started, together }, 'done');
  },
});`;
const FLAKY = `export default ({ defineTool, ToolError }) => defineTool({
  name: 'flaky', description: 'Cannot reach its upstream', category: 'data', rateLimit: 0, idempotent: true,
  retryPolicy: { kind: 'network' }, inputSchema: { type: 'object', properties: { label: { type: 'string' } } },
  handler: () => { throw new ToolError('NETWORK_ERROR', { message: 'no upstream' }); },
});`;
/** `draw` returns a picture of as many bytes of base64. */
const DRAW = `export default ({ defineTool, ok }) => defineTool({
  name: 'draw', description: 'Draws', category: 'data', rateLimit: 0, idempotent: true,
  inputSchema: { type: 'object', properties: { size: { type: 'integer' } }, additionalProperties: false },
  handler: ({ size = 8 }) => ok(null, 'drawn', {
    content: [{ type: 'text', text: 'drawn' }, { type: 'image', mimeType: 'image/png', data: 'A'.repeat(size) }],
  }),
});`;
/** `find` returns its arguments; their names and its union are what Anthropic's API refuses. */
const LONG = 'long'.repeat(19);
const FIND = `export default ({ defineTool, ok }) => defineTool({
  name: 'find', description: 'Finds', category: 'data', rateLimit: 0, idempotent: true,
  inputSchema: {
    type: 'object', properties: { 'filter[id]': { type: 'integer' }, $top: { type: 'integer' }, ${LONG}: { type: 'string' } },
    anyOf: [
      { properties: { content: { type: 'string' } }, required: ['content'] },
      { properties: { url: { type: 'string' } }, required: ['url'] },
    ],
  },
  handler: (args) => ok(args, JSON.stringify(args)),
});`;

let fleet: TestFleet;
let nats: NatsClient;
let plugins: string;
beforeAll(async () => {
  plugins = await mkdtemp(join(tmpdir(), 'toolfleet-plugins-'));
  await writeFile(join(plugins, 'step.tool.mjs'), STEPS);
  await writeFile(join(plugins, 'flaky.tool.mjs'), FLAKY);
  await writeFile(join(plugins, 'draw.tool.mjs'), DRAW);
  await writeFile(join(plugins, 'find.tool.mjs'), FIND);
  fleet = await TestFleet.start({
    together: true,
    services: { gateway: 1, registry: 1, budget: 1, 'builtin-executor': 1 },
    tools: ['step', 'flaky', 'draw', 'find'],
    env: { BUILTIN_PLUGINS_DIR: plugins, TOOL_PARALLELISM: '4' },
  });
  nats = await NatsClient.connect({ url: fleet.nats.url, name: 'batches' });
});
afterAll(async () => {
  await nats?.close();
  await fleet?.stop();
  if (plugins) await rm(plugins, { recursive: true, force: true });
});

interface Body {
  success: boolean;
  text: string;
  content?: object[];
  output: { label: string; started: number; together: number } | null;
  metadata: Record<string, unknown>;
}
/** The body of a call record, with the rich content next to it; an answer in the shape of a provider unchanged. */
const toBody = (answer: { result?: string; content?: object[] }) =>
  ('result' in answer ? { ...JSON.parse(answer.result!), content: answer.content } : answer) as Body;
const overNats = async (body: object): Promise<Body[]> => {
  const headers = { Authorization: `Bearer ${fleet.adminKey}` };
  const records = await nats.request('tool.batch', body, { timeoutMs: 30_000, headers });
  return (records as object[]).map(toBody);
};
const overHttp = async (body: object): Promise<Body[]> => {
  const answer = await fleet.ask({ path: '/api/v1/tools/batch-execute', body });
  expect(answer, answer.text).toMatchObject({ status: 200 });
  return answer.body.map(toBody);
};
/** What models answer, with texts and thoughts next to the calls. */
const MESSAGES: Record<string, object> = {
  'a message of OpenAI': {
    ...{ role: 'assistant', content: 'I take a step.', refusal: null },
    tool_calls: [{ id: 'a', type: 'function', function: { name: 'step', arguments: '{"label":"a","ms":0}' } }],
  },
  'a message of Anthropic': {
    ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'm', stop_reason: 'tool_use', usage: {} },
    content: [
      { type: 'thinking', thinking: 'hm', signature: 's' },
      { type: 'text', text: 'I take a step.' },
      { type: 'tool_use', id: 'a', name: 'step', input: { label: 'a', ms: 0 } },
    ],
  },
  'content of Anthropic': [
    { type: 'text', text: 'I take a step.' },
    { type: 'tool_use', id: 'a', name: 'step', input: { label: 'a', ms: 0 } },
  ],
  'a response of OpenAI': {
    ...{ object: 'response', id: 'resp_1', status: 'completed', model: 'm' },
    output: [
      { type: 'reasoning', id: 'r', summary: [] },
      { type: 'message', id: 'm', role: 'assistant', content: [{ type: 'output_text', text: 'I take a step.' }] },
      { type: 'function_call', id: 'f', call_id: 'a', name: 'step', arguments: '{"label":"a","ms":0}' },
    ],
  },
  'content of Gemini': {
    role: 'model',
    parts: [{ text: 'I take a step.' }, { functionCall: { id: 'a', name: 'step', args: { label: 'a', ms: 0 } } }],
  },
};

const overShannon = async (body: object): Promise<Body[]> => {
  const answer = await fleet.ask({ path: '/tools/batch-execute', body });
  expect(answer, answer.text).toMatchObject({ status: 200 });
  return answer.body;
};
const ENTRY_POINTS: [string, (body: object) => Promise<Body[]>][] = [
  ['HTTP', overHttp],
  ['Shannon’s path', overShannon],
  ['NATS', overNats],
];

let labels = 0;
const step = (fields: object = {}, args: object = {}) => ({
  tool_name: 'step',
  parameters: { label: `step ${(labels += 1)}`, ...args },
  ...fields,
});
const steps = (count: number) => Array.from({ length: count }, () => step());
const outputs = (bodies: Body[]) => bodies.map(({ output }) => output!);
const most = (bodies: Body[]) => Math.max(...outputs(bodies).map(({ together }) => together));

describe.each(ENTRY_POINTS)('a batch over %s', (_name, send) => {
  it('runs several items at once, at most TOOL_PARALLELISM', async () => {
    const bodies = await send({ calls: steps(8) });
    expect(most(bodies)).toBeGreaterThan(1);
    expect(most(bodies)).toBeLessThanOrEqual(4);
    expect(most(await send({ calls: steps(8), max_parallel: 100 }))).toBeLessThanOrEqual(4);
  });

  it('runs its items one after the other, in their order, with parallel false', async () => {
    const calls = steps(4);
    // The first ones take longest; a failure does not stop the later ones.
    calls.splice(1, 0, step({}, { ms: 300, fails: true }));
    calls.unshift(step({}, { ms: 300 }));
    const bodies = await send({ calls, parallel: false });
    expect(bodies.map(({ success }) => success)).toEqual([true, true, false, true, true, true]);
    const ran = outputs(bodies.filter(({ success }) => success));
    expect(ran.map(({ together }) => together)).toEqual([1, 1, 1, 1, 1]);
    const starts = ran.map(({ started }) => started);
    expect(starts).toEqual(starts.toSorted((a, b) => a - b));
    const sent = calls.map(({ parameters }) => parameters.label).filter((_label, index) => index !== 2);
    expect(ran.map(({ label }) => label)).toEqual(sent);
  });

  it.each(Object.entries(MESSAGES))('takes %s', async (_what, message) => {
    const answers = await send(message);
    expect(answers).toHaveLength(1);
    expect(JSON.stringify(answers)).toMatch(/done/);
    expect(await send(Array.isArray(message) ? { calls: message } : [message])).toHaveLength(1);
  });

  it('takes an array, and arguments nested once more', async () => {
    const bodies = await send([step({ parameters: { input: { label: 'nested', ms: '0' } } })]);
    expect(bodies).toMatchObject([
      { output: { label: 'nested' }, metadata: { coercions: [{ from: 'nested', to: 'object' }, {}] } },
    ]);
  });

  it('runs at most max_parallel items at once', async () => {
    expect(most(await send({ calls: steps(6), max_parallel: 2 }))).toBe(2);
    expect(most(await send({ calls: steps(3), max_parallel: 1 }))).toBe(1);
  });

  it('gives each item its own time from its start', async () => {
    const calls = Array.from({ length: 4 }, () => step({ timeout_ms: 3_000 }, { ms: 800 }));
    const bodies = await send({ calls, parallel: false });
    // On a busy machine an item may use up its time. The last one of a shared time would have 600 ms of it.
    const hadOwnTime = ({ success, metadata }: Body): boolean =>
      success || (metadata['timing'] as { execute_ms: number }).execute_ms > 1_200;
    expect(bodies.filter((body) => !hadOwnTime(body))).toEqual([]);
  });

  it('carries pictures, and notes those beyond the size of a message', async () => {
    const draw = (size: number) => ({ tool_name: 'draw', parameters: { size } });
    const bodies = await send({ calls: [draw(8), draw(4_000_000), draw(3_000_000)] });
    const picture = (size: number) => ({ type: 'image', mimeType: 'image/png', data: 'A'.repeat(size) });
    expect(bodies.map(({ content }) => content?.[1])).toEqual([picture(8), picture(4_000_000), undefined]);
    expect(bodies[2]).toMatchObject({
      text: 'drawn',
      metadata: { content_omitted: { blocks: 2, bytes: expect.any(Number), limit: expect.any(Number) } },
    });
  });

  it('explains refusals, and marks nothing as a substitute', async () => {
    const bodies = await send({
      calls: [
        { tool_name: 'nothing', parameters: {} },
        { tool_name: 'draw', parameters: { size: 'x' } },
      ],
    });
    for (const { success, text, metadata } of bodies) {
      expect(success).toBe(false);
      expect(JSON.parse(text)).toMatchObject({ message: expect.any(String), suggestion: expect.any(String) });
      expect(metadata).not.toHaveProperty('fallback');
    }
    expect(bodies[0]!.text).toContain('Check the name against the tool list.');
  });

  it('understands calls of model providers, and answers in their shapes', async () => {
    const answers = await send({
      calls: [
        { type: 'tool_use', id: 'toolu_1', name: 'draw', input: {} },
        { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'draw', arguments: '{}', status: 'completed' },
        { type: 'tool_use', id: 'toolu_2', name: 'draw', input: { colour: 'red' } },
      ],
    });
    expect(answers).toEqual([
      {
        type: 'tool_result',
        tool_use_id: 'toolu_1',
        content: [
          { type: 'text', text: 'drawn' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAAAAAA' } },
        ],
      },
      {
        type: 'function_call_output',
        call_id: 'call_1',
        output: [
          { type: 'input_text', text: 'drawn' },
          { type: 'input_image', image_url: 'data:image/png;base64,AAAAAAAA', detail: 'auto' },
        ],
      },
      {
        type: 'tool_result',
        tool_use_id: 'toolu_2',
        is_error: true,
        content: [{ type: 'text', text: expect.stringContaining('colour') }],
      },
    ]);
  });

  it('answers in the format of a provider that its calls do not name', async () => {
    const calls = [{ id: 'call_1', type: 'function', function: { name: 'draw', arguments: '{}' } }];
    const sendAs = (format: string) =>
      fleet.ask({ path: `/api/v1/tools/batch-execute?format=${format}`, body: { tool_calls: calls } });
    const note = 'image (image/png, 6 bytes) is not shown here';
    expect((await sendAs('openai')).body).toEqual([
      { role: 'tool', tool_call_id: 'call_1', content: `drawn\n${note}` },
    ]);
    expect((await sendAs('gemini')).body).toEqual([
      {
        functionResponse: {
          id: 'call_1',
          name: 'draw',
          response: { output: `drawn\n${note}` },
          parts: [{ inlineData: { mimeType: 'image/png', data: 'AAAAAAAA' } }],
        },
      },
    ]);
    expect(await sendAs('mcp')).toMatchObject({ status: 400, body: { code: 'REQUEST_INVALID' } });
  });

  it('runs nothing for an item with dry_run, and tries once for one with no_retry', async () => {
    const flaky = (fields: object) => ({
      tool_name: 'flaky',
      parameters: { label: `flaky ${(labels += 1)}` },
      ...fields,
    });
    const [dry, run, once, retried] = await send({
      calls: [step({ dry_run: true }), step(), flaky({ no_retry: true }), flaky({})],
    });
    expect(dry).toMatchObject({ success: true, output: { dry_run: true } });
    expect(run).toMatchObject({ success: true, output: { label: expect.any(String) } });
    expect(once).toMatchObject({ success: false, metadata: { attempts: 1 } });
    expect(Number(retried!.metadata['attempts'])).toBeGreaterThan(1);
  });
});

it.each<[object, RegExp]>([
  [{ parallel: 'no' }, /parallel must be/],
  [{ max_parallel: 0 }, /max_parallel must be/],
  [{ max_parallel: 101 }, /max_parallel must be/],
  [{ parallel: false, max_parallel: 3 }, /max_parallel must be absent or 1 with parallel false, not 3/],
])('a batch with %o is refused as a whole on every entry point', async (fields, message) => {
  const body = { calls: steps(2), ...fields };
  for (const path of ['/api/v1/tools/batch-execute', '/tools/batch-execute']) {
    const refused = await fleet.ask({ path, body });
    expect(refused).toMatchObject({ status: 400, body: { code: 'REQUEST_INVALID' } });
    expect(refused.body.error).toMatch(message);
  }
  await expect(overNats(body)).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
  // A single call and an item cannot choose the order of a batch.
  for (const field of ['parallel', 'max_parallel']) {
    const item = await fleet.ask({ path: '/tools/batch-execute', body: [step({ [field]: 1 })] });
    expect(item.body).toMatchObject({ code: 'REQUEST_INVALID', error: `Item 0: Unknown field '${field}'` });
    expect((await fleet.call('step', {}, { fields: { [field]: 1 } })).status).toBe(400);
  }
});

it('models of Anthropic call a tool whose schema their API refuses, by the names that they see', async () => {
  const client = new ToolfleetClient({ url: fleet.url(), apiKey: fleet.adminKey });
  const tools = await client.list({ format: 'anthropic' });
  const { input_schema: schema } = tools.find((tool) => tool['name'] === 'find') as { input_schema: JsonObject };
  expect(anthropicFaults(schema)).toEqual([]);
  expect(schema['description']).toBe('Requires one of: content; url');
  const [id, top, long] = Object.keys(schema['properties'] as object);
  for (const form of [{ content: 'a' }, { url: 'b' }]) {
    const input = { [id!]: 7, [top!]: 1, [long!]: 'x', ...form };
    const [used] = await client.batch([{ type: 'tool_use', id: 'use_1', name: 'find', input }]);
    const [block] = used!.content as { text: string }[];
    expect(JSON.parse(block!.text)).toEqual({ 'filter[id]': 7, $top: 1, [LONG]: 'x', ...form });
  }
  const overMcp = async (method: string, params: object) => {
    const headers = { accept: 'application/json, text/event-stream' };
    const body = { jsonrpc: '2.0', id: 1, method, params };
    return (await fleet.ask({ path: '/mcp', key: fleet.adminKey, headers, body })).body.result;
  };
  const listed = (await overMcp('tools/list', {})).tools.find(({ name }: { name: string }) => name === 'find');
  expect(Object.keys(listed.inputSchema.properties)).toEqual([id, top, long]);
  const called = await overMcp('tools/call', { name: 'find', arguments: { [id!]: 7, content: 'a' } });
  expect(JSON.parse(called.content[0].text)).toEqual({ 'filter[id]': 7, content: 'a' });
  const [neither] = await client.batch([{ type: 'tool_use', id: 'use_2', name: 'find', input: {} }]);
  expect(neither).toMatchObject({ is_error: true });
});

it('the client passes on calls of models, progress and events, and repeats calls once', async () => {
  const client = new ToolfleetClient({ url: fleet.url(), apiKey: fleet.adminKey, retries: 2 });
  const call = { id: 'call_1', type: 'function' as const, function: { name: 'step', arguments: '{"label":"a"}' } };
  const message = { role: 'assistant', content: 'I look.', tool_calls: [call] };
  expect(await client.batch(message, { format: 'openai' })).toEqual([
    { role: 'tool', tool_call_id: 'call_1', content: 'done' },
  ]);
  const [used] = await client.batch([{ type: 'tool_use', id: 'use_1', name: 'step', input: {} }]);
  expect(used).toEqual({ type: 'tool_result', tool_use_id: 'use_1', content: [{ type: 'text', text: 'done' }] });
  const names = (await client.list({ format: 'anthropic' })).map((tool) => tool['name']);
  expect(names).toContain('step');

  const reports: object[] = [];
  const done = await client.call('step', { label: 'b' }, { onProgress: (report) => reports.push(report) });
  expect([done.success, reports]).toEqual([true, [{ message: 'half', progress: 1, total: 2 }]]);
  const types = [];
  for await (const { type } of client.follow(done.call_id)) types.push(type);
  expect(types).toEqual(['accepted', 'started', 'progress', 'done']);

  // A response that is lost: the repeated request gets the outcome of the first one.
  let isLost = false;
  const losing = new ToolfleetClient({
    ...{ url: fleet.url(), apiKey: fleet.adminKey, retries: 1 },
    fetch: async (...sent) => {
      const response = await fetch(...sent);
      if (isLost) return response;
      isLost = true;
      await response.text();
      throw new TypeError('the connection is lost');
    },
  });
  const first = await losing.call('step', { label: 'c' });
  const second = await losing.call('step', { label: 'd' });
  const started = ({ output }: { output: unknown }) => (output as { started: number }).started;
  expect(first.metadata['idempotent_replay']).toBe(true);
  expect(started(second) - started(first)).toBe(1);
});

it('the clients send the order and the limit of a batch', async () => {
  const http = new ToolfleetClient({ url: fleet.url(), apiKey: fleet.adminKey });
  const natsClient = await ToolfleetNatsClient.connect({ url: fleet.nats.url, apiKey: fleet.adminKey });
  try {
    for (const client of [http, natsClient]) {
      for (const options of [{ parallel: false }, { max_parallel: 1 }]) {
        const calls = steps(3).map(({ tool_name: name, parameters }) => ({ name, arguments: parameters }));
        const records = await client.batch(calls, options);
        expect(most(records.map(({ result }) => JSON.parse(result) as Body))).toBe(1);
      }
    }
  } finally {
    await natsClient.close();
  }
});
