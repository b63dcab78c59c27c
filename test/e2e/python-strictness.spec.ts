/** A fleet with the default strictness `strict`: every step of a call sees the strictness that runs. */
import { NatsClient } from '@toolfleet/transport';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fleetctl } from '../fleet/fleetctl.js';
import { TestFleet } from '../fleet/test-fleet.js';

const MCP = { accept: 'application/json, text/event-stream' };
/** `strict` does not allow `eval`. */
const CODE = 'eval("6 * 7")';

let fleet: TestFleet;
let nats: NatsClient;
beforeAll(async () => {
  fleet = await TestFleet.start({
    together: true,
    services: { gateway: 1, registry: 1, budget: 1, 'python-sandbox': 1 },
    tools: ['execute_python'],
    config: { code_execution: { default_strictness: 'strict' } },
  });
  nats = await NatsClient.connect({ url: fleet.nats.url, name: 'strictness' });
});
afterAll(async () => {
  await nats?.close();
  await fleet?.stop();
});

const overNats = (subject: string, body: object, key = fleet.adminKey) =>
  nats.request<any>(subject, body, { timeoutMs: 60_000, headers: { Authorization: `Bearer ${key}` } }); // oxlint-disable-line typescript/no-explicit-any -- bodies of every shape
const overMcp = async (method: string, params: object = {}) => {
  const { text } = await fleet.ask({ path: '/mcp', body: { jsonrpc: '2.0', id: 1, method, params }, headers: MCP });
  return JSON.parse(text.slice(text.indexOf('{'))).result;
};

describe('a call without strictness runs with the default of the fleet', () => {
  const REFUSED = { success: false, metadata: { code: 'SANDBOX_POLICY' } };

  it.each<[string, () => Promise<{ body: unknown }>]>([
    ['HTTP', () => fleet.call('execute_python', { code: CODE })],
    ['HTTP with null', () => fleet.call('execute_python', { code: CODE, strictness: null })],
    [
      'Shannon’s path',
      () => fleet.ask({ path: '/tools/execute', body: { tool_name: 'execute_python', parameters: { code: CODE } } }),
    ],
  ])('over %s', async (_entryPoint, send) => {
    expect((await send()).body).toMatchObject(REFUSED);
  });

  it('over MCP', async () => {
    const result = await overMcp('tools/call', { name: 'execute_python', arguments: { code: CODE } });
    expect(result).toMatchObject({ isError: true, _meta: { code: 'SANDBOX_POLICY' } });
  });

  it('over NATS, with the time limit of that default', async () => {
    const call = { name: 'execute_python', arguments: { code: CODE } };
    expect(await overNats('tool.call', call)).toMatchObject(REFUSED);
    const { output } = await overNats('tool.call', { ...call, dry_run: true });
    expect(output).toMatchObject({ arguments: { strictness: 'strict' }, timeout_ms: 5_000 });
  });
});

it.each(['standard', 'lenient'])('a public call with strictness %s has the whole library', async (strictness) => {
  const { body } = await fleet.call('execute_python', { code: CODE, strictness });
  expect(body).toMatchObject({ success: true, output: { value: 42 }, metadata: { strictness: 'standard' } });
  const { body: dry } = await fleet.call('execute_python', { code: CODE, strictness }, { fields: { dry_run: true } });
  expect(dry.output).toMatchObject({ timeout_ms: 10_000 });
});

it('files that a program writes come back with their types, over HTTP and MCP and one by one', async () => {
  const code = 'open("t.csv", "w").write("a,b\\n1,2\\n")\nopen("p.png", "wb").write(bytes(8))\n[{"a": 1}, {"a": 2}]';
  const args = { code, strictness: 'standard', files: { 'in.txt': 'given' } };
  const { body } = await fleet.call('execute_python', args);
  const [text, ...blocks] = body.content;
  expect(text).toEqual({ type: 'text', text: '| a |\n| --- |\n| 1 |\n| 2 |\nfiles: t.csv, p.png' });
  const csv = { uri: 'file:///data/t.csv', mimeType: 'text/csv', text: 'a,b\n1,2\n' };
  const picture = { type: 'image', mimeType: 'image/png', data: Buffer.alloc(8).toString('base64') };
  expect(blocks).toEqual([{ type: 'resource', resource: csv }, picture]);
  expect(body.output).toMatchObject({
    value: [{ a: 1 }, { a: 2 }],
    files: [
      { name: 't.csv', content_type: 'text/csv', bytes: 8 },
      { name: 'p.png', content_type: 'image/png', bytes: 8 },
    ],
  });
  const { content } = await overMcp('tools/call', { name: 'execute_python', arguments: args });
  expect(content).toEqual(expect.arrayContaining([{ type: 'resource', resource: csv }, picture]));
});

describe('the schema', () => {
  it.each<[string, () => Promise<any>]>([
    // oxlint-disable-line typescript/no-explicit-any -- schemas of every shape
    ['GET /api/v1/tools', async () => (await fleet.ask({ path: '/api/v1/tools' })).body[0].parameters],
    ['tools/list of MCP', async () => (await overMcp('tools/list')).tools[0].inputSchema],
    ['tool.list of NATS', async () => (await overNats('tool.list', {}))[0].parameters],
  ])('of %s has the default', async (_list, read) => {
    const { required, properties } = await read();
    expect(required).toEqual(['code']);
    expect(properties.strictness).toMatchObject({ default: 'strict', enum: ['lenient', 'standard', 'strict'] });
  });
});

it('the metadata has the memory limit of the sandboxes', async () => {
  const { body } = await fleet.ask({ path: '/tools/execute_python/metadata' });
  expect(body.memory_limit_mb).toBe(512);
});

it('fleetctl shows the output and the traceback of a program that fails, and the price of one that does not run', async () => {
  const code = 'print("one")\n1 / 0';
  const call = ['call', 'execute_python', '--strictness', 'standard', '--code', code];
  const failed = await fleetctl(fleet, call);
  expect([failed.code, failed.out.toString()], failed.error).toEqual([1, 'one\n']);
  expect(failed.error).toMatch(
    /^Traceback [^]*line 2[^]*ZeroDivisionError: division by zero\nfailed: ZeroDivisionError: /,
  );
  const dry = await fleetctl(fleet, [...call, '--dry-run', '--cache', 'no-store']);
  expect(dry.code, dry.error).toBe(0);
  expect(dry.out.toString()).toMatch(
    /^Dry run of 'execute_python': .* (costs (at most )?\$[\d.]+|is free); nothing was run\.\n$/,
  );
});
