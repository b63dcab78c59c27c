/** How failures reach a model and a program: the text of failed tools, ids in error bodies, and refused input. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '@toolfleet/testing';
import { connect, headers as natsHeaders, type NatsConnection } from 'nats';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestFleet } from '../fleet/test-fleet.js';

const THROWING = `export default ({ defineTool, ToolError }) => defineTool({
  name: 'throwing', description: 'Always fails', category: 'data', rateLimit: 0,
  inputSchema: { type: 'object', properties: { words: { type: 'string' } } },
  handler: ({ words }) => { throw words ? new ToolError('TOOL_ERROR', { message: words }) : new Error('/secret/path'); },
});`;

let fleet: TestFleet;
let nats: NatsConnection;
let plugins: string;
beforeAll(async () => {
  plugins = await mkdtemp(join(tmpdir(), 'toolfleet-plugins-'));
  await writeFile(join(plugins, 'throwing.tool.mjs'), THROWING);
  fleet = await TestFleet.start({
    together: true,
    services: { gateway: 1, registry: 1, budget: 1, 'builtin-executor': 1, 'python-sandbox': 1 },
    tools: ['calculator', 'file_read', 'execute_python', 'throwing', 'web_search'],
    env: {
      BUILTIN_PLUGINS_DIR: plugins,
      BUILTIN_TOOLSETS: 'compute,files,web',
      WEB_SEARCH_PROVIDER: 'local',
      EGRESS_ALLOWED_ENDPOINTS: 'http://127.0.0.1:9',
    },
  });
  nats = await connect({ servers: fleet.nats.url });
});
afterAll(async () => {
  await nats?.close();
  await fleet?.stop();
  if (plugins) await rm(plugins, { recursive: true, force: true });
});

/** The reply to a NATS message as any client sees it. */
async function overNats(subject: string, body: unknown, key: string | undefined = fleet.adminKey) {
  const headers = natsHeaders();
  if (key !== undefined) headers.set('Authorization', `Bearer ${key}`);
  // An id that a caller sends is not taken over.
  headers.set('Tf-Call-Id', 'chosen-by-the-caller');
  const data = typeof body === 'string' ? body : JSON.stringify(body);
  const reply = await nats.request(subject, data, { timeout: 30_000, headers });
  return { status: reply.headers?.get('Nats-Service-Error-Code'), body: reply.json<Record<string, any>>() }; // oxlint-disable-line typescript/no-explicit-any -- bodies of every shape are inspected here
}
const MCP = { accept: 'application/json, text/event-stream' };
async function overMcp(name: string, args: object) {
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } };
  const { text } = await fleet.ask({ path: '/mcp', body, headers: MCP });
  return JSON.parse(/\{.*\}/s.exec(text)![0]) as {
    error?: { code: number; message: string };
    result?: { isError: boolean; content: { text: string }[] };
  };
}

/** Tools that ran and failed, with the start of their error and what they wrote themselves. */
const FAILED: [string, string, object, RegExp, RegExp][] = [
  ['the calculator', 'calculator', { expression: '1/0' }, /zero/i, /zero/i],
  ['a file tool', 'file_read', { path: 'missing.txt' }, /project_id is required/, /project_id is required/],
  ['a plugin', 'throwing', { words: 'no "apples" left' }, /^no "apples" left$/, /^no "apples" left$/],
  ['a plugin that throws', 'throwing', {}, /^throwing failed unexpectedly$/, /^throwing failed unexpectedly$/],
  [
    'Python',
    'execute_python',
    { code: "print('before the error')\nraise ValueError('a \"bad\" value')" },
    /^ValueError: a "bad" value$/,
    /before the error\n(.*\n)*.*line 2(.*\n)*.*ValueError: a "bad" value/,
  ],
];

describe.each(FAILED)('a failure of %s', (_what, tool, args, error, words) => {
  const explanation = { error: 'execution_error', tool, message: expect.stringMatching(words) };
  const body = {
    success: false,
    error: expect.stringMatching(error),
    metadata: { error_type: 'execution_error' },
  };

  it('is explained as JSON over HTTP, Shannon’s path and NATS, with the words of the tool', async () => {
    const answers = [
      (await fleet.call(tool, args)).body,
      (await fleet.ask({ path: '/tools/execute', body: { tool_name: tool, parameters: args } })).body,
      (await overNats('tool.call', { name: tool, arguments: args })).body,
    ];
    for (const answer of answers) {
      expect(answer).toMatchObject(body);
      expect(answer.metadata.fallback, 'an explained failure is not a fallback').toBeUndefined();
      const told = JSON.parse(answer.text);
      expect(told).toMatchObject(explanation);
      expect(Object.keys(told)).toEqual(['error', 'tool', 'message', 'suggestion']);
    }
  });

  it('is explained in a batch, over MCP and for an asynchronous call', async () => {
    const batch = await fleet.ask({ path: '/api/v1/tools/batch-execute', body: [{ name: tool, arguments: args }] });
    expect(JSON.parse(JSON.parse(batch.body[0].result).text)).toMatchObject(explanation);
    const { result } = await overMcp(tool, args);
    expect(result).toMatchObject({ isError: true });
    expect(JSON.parse(result!.content[0]!.text)).toMatchObject(explanation);
    const accepted = await fleet.call(tool, args, { fields: { mode: 'async' } });
    let stored: { text: string } | undefined;
    await eventually('the call has ended', async () => {
      const { body: call } = await fleet.ask({ path: `/api/v1/calls/${accepted.body.call_id}` });
      stored = call.result;
      return stored !== undefined;
    });
    expect(JSON.parse(stored!.text)).toMatchObject(explanation);
  });
});

it('a refused call has the same explanation over MCP as in a batch', async () => {
  const args = { expression: {} };
  const batch = await fleet.ask({
    path: '/api/v1/tools/batch-execute',
    body: [{ name: 'calculator', arguments: args }],
  });
  const explained = JSON.parse(JSON.parse(batch.body[0].result).text);
  expect(explained).toMatchObject({ error: 'invalid_arguments', tool: 'calculator', suggestion: expect.any(String) });
  const { result } = await overMcp('calculator', args);
  expect(result).toMatchObject({ isError: true });
  expect(JSON.parse(result!.content[0]!.text)).toEqual(explained);
});

it('a long explanation is cut and stays JSON', async () => {
  for (const words of ['x'.repeat(20_000), '😀"\n'.repeat(5_000)]) {
    const { body } = await fleet.call('throwing', { words });
    expect(body.text.length).toBeLessThanOrEqual(6_000);
    const told = JSON.parse(body.text);
    expect(told.message).toMatch(/^(x{100}|(😀"\n){100})/u);
    expect(told.message.isWellFormed()).toBe(true);
    expect(told.message.endsWith('…')).toBe(true);
    expect(told.suggestion).toMatch(/./);
  }
});

it('a refused item of a batch is also explained', async () => {
  const { body } = await fleet.ask({ path: '/api/v1/tools/batch-execute', body: [{ name: 'no_such_tool' }] });
  expect(JSON.parse(JSON.parse(body[0].result).text)).toMatchObject({ error: 'tool_not_found', tool: 'no_such_tool' });
});

describe('an error over NATS has the id of the call', () => {
  it.each<[string, unknown, string, string]>([
    ['an unknown tool', { name: 'no_such_tool', arguments: {} }, '404', 'TOOL_NOT_FOUND'],
    ['invalid arguments', { name: 'calculator', arguments: {} }, '400', 'ARGUMENTS_INVALID'],
    ['an empty tool name', { name: '', arguments: {} }, '400', 'REQUEST_INVALID'],
    ['a body that is not JSON', '{', '400', 'REQUEST_INVALID'],
    ['an unknown field', { name: 'calculator', arguments: {}, nonsense: 1 }, '400', 'REQUEST_INVALID'],
  ])('%s', async (_what, message, status, code) => {
    const first = await overNats('tool.call', message);
    expect(first).toMatchObject({ status, body: { code, error: expect.any(String), hint: expect.any(String) } });
    expect(first.body['call_id']).toMatch(/^[0-9a-f-]{36}$/);
    expect((await overNats('tool.call', message)).body['call_id']).not.toBe(first.body['call_id']);
  });

  it('also when the sender is not known, and the audit log has the same id', async () => {
    const refused = await overNats('tool.call', { name: 'calculator', arguments: {} }, 'no-key');
    expect(refused).toMatchObject({ status: '401', body: { code: 'UNAUTHENTICATED' } });
    expect(refused.body['call_id']).toMatch(/^[0-9a-f-]{36}$/);
    const { body } = await overNats('tool.call', { name: 'no_such_tool', arguments: {} });
    await eventually('the audit log has the call', () =>
      Promise.resolve(
        fleet
          .logs()
          .split('\n')
          .some((line) => line.includes('"tool_name":"no_such_tool"') && line.includes(body['call_id'])),
      ),
    );
  });
});

it('an empty tool name is 400 over HTTP and NATS, and an error over MCP', async () => {
  const name = '';
  for (const path of ['/api/v1/tools//execute', '/api/v1/tools//execute?x=1']) {
    expect(await fleet.ask({ path, body: { arguments: {} } })).toMatchObject({
      status: 400,
      body: { code: 'REQUEST_INVALID', error: 'The path has no tool name' },
    });
  }
  expect((await fleet.ask({ path: '/tools//schema' })).status, 'schema').toBe(400);
  const shannon = { tool_name: name, parameters: {} };
  expect((await fleet.ask({ path: '/tools/execute', body: shannon })).status).toBe(400);
  expect((await fleet.ask({ path: '/tools/batch-execute', body: [shannon] })).status).toBe(400);
  const item = [{ name, arguments: {} }];
  expect((await fleet.ask({ path: '/api/v1/tools/batch-execute', body: item })).status).toBe(400);
  expect((await overNats('tool.call', { name, arguments: {} })).status).toBe('400');
  expect((await overNats('tool.batch', { calls: item })).status).toBe('400');
  expect((await overMcp(name, {})).result).toMatchObject({ isError: true });
});

it.each([0, -3, 21, 1_000])('web_search refuses max_results %i, at no cost', async (asked) => {
  const error = `max_results must be an integer from 1 to 20 with the provider local, not ${asked}`;
  expect(await fleet.call('web_search', { query: 'x', max_results: asked })).toMatchObject({
    status: 400,
    body: { code: 'ARGUMENTS_INVALID', error },
  });
  const served = await fleet.call('web_search', { query: 'x', max_results: 20 });
  expect(served.body.output.results).toHaveLength(20);
});
