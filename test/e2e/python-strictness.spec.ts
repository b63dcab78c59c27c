/** A fleet with the default strictness `lenient`, forbidden for public callers: every step of a call sees the strictness that runs. */
import { fileURLToPath } from 'node:url';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fleetctl } from '../fleet/fleetctl.js';
import { TestFleet } from '../fleet/test-fleet.js';

const MCP = { accept: 'application/json, text/event-stream' };
const POLICIES = fileURLToPath(new URL('../../deploy/policies', import.meta.url));
/** Only `lenient` allows `eval`. */
const CODE = 'eval("6 * 7")';

let fleet: TestFleet;
let nats: NatsClient;
beforeAll(async () => {
  fleet = await TestFleet.start({
    together: true,
    services: { gateway: 1, registry: 1, budget: 1, 'python-sandbox': 1 },
    tools: ['execute_python'],
    config: { code_execution: { default_strictness: 'lenient' } },
    envOf: { gateway: { POLICY_DIR: POLICIES } },
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

describe('a public call without strictness is refused as lenient', () => {
  const REFUSED = { status: 403, body: { error: 'Tool not available via direct execution' } };
  const shannonCall = { tool_name: 'execute_python', parameters: { code: CODE } };

  it.each<[string, () => Promise<unknown>]>([
    ['HTTP', () => fleet.call('execute_python', { code: CODE })],
    ['HTTP with null', () => fleet.call('execute_python', { code: CODE, strictness: null })],
    ['HTTP, a dry run', () => fleet.call('execute_python', { code: CODE }, { fields: { dry_run: true } })],
    ['HTTP, asynchronous', () => fleet.call('execute_python', { code: CODE }, { fields: { mode: 'async' } })],
    ['Shannon’s path', () => fleet.ask({ path: '/tools/execute', body: shannonCall })],
  ])('over %s', async (_entryPoint, send) => {
    expect(await send()).toMatchObject(REFUSED);
  });

  it('over MCP', async () => {
    const result = await overMcp('tools/call', { name: 'execute_python', arguments: { code: CODE } });
    expect(result).toMatchObject({ isError: true, _meta: { code: 'TOOL_DANGEROUS' } });
  });
});

it('a public call that names a strictness runs with it', async () => {
  const { body } = await fleet.call('execute_python', { code: '6 * 7', strictness: 'standard' });
  expect(body).toMatchObject({ success: true, output: { value: 42 }, metadata: { strictness: 'standard' } });
  const refused = await fleet.call('execute_python', { code: CODE, strictness: 'strict' });
  expect(refused.body).toMatchObject({ success: false, metadata: { code: 'SANDBOX_POLICY' } });
});

it('an internal call without strictness runs leniently, with the time limit of lenient, where the policy allows it', async () => {
  const call = { name: 'execute_python', arguments: { code: CODE } };
  expect(await overNats('tool.call', call)).toMatchObject({
    output: { value: 42 },
    metadata: { strictness: 'lenient' },
  });
  const { output } = await overNats('tool.call', { ...call, dry_run: true });
  expect(output).toMatchObject({ arguments: { strictness: 'lenient' }, timeout_ms: 30_000 });
  await expect(overNats('tool.call', call, fleet.keys['acme'])).rejects.toMatchObject({
    code: 'POLICY_DENIED',
    message: expect.stringContaining('lenient requires admin role'),
  });
});

describe('the schema', () => {
  const PUBLIC = { required: ['code', 'strictness'], properties: { strictness: { enum: ['standard', 'strict'] } } };

  it.each<[string, () => Promise<any>]>([
    // oxlint-disable-line typescript/no-explicit-any -- schemas of every shape
    ['GET /api/v1/tools', async () => (await fleet.ask({ path: '/api/v1/tools' })).body[0].parameters],
    [
      'GET /api/v1/tools/:name',
      async () => (await fleet.ask({ path: '/api/v1/tools/execute_python' })).body.parameters,
    ],
    ['GET /tools/schemas', async () => (await fleet.ask({ path: '/tools/schemas' })).body[0].parameters],
    [
      'GET /api/v1/catalog/:name',
      async () => (await fleet.ask({ path: '/api/v1/catalog/execute_python' })).body.parameters,
    ],
    ['tools/list of MCP', async () => (await overMcp('tools/list')).tools[0].inputSchema],
  ])('of %s does not offer lenient', async (_list, read) => {
    const schema = await read();
    expect(schema).toMatchObject(PUBLIC);
    expect(JSON.stringify(schema)).not.toContain('lenient');
  });

  it('of tool.list, for internal callers, offers it as the default', async () => {
    const [{ parameters }] = await overNats('tool.list', {});
    expect(parameters.properties.strictness).toMatchObject({
      default: 'lenient',
      enum: ['lenient', 'standard', 'strict'],
    });
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
