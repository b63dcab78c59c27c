/**
 * A call is one trace: from the entry point through the engine, NATS or the queue, and the executor to the upstream, in real processes
 * that export to a collector. Its log line carries the ids of call and trace, recorded or not, its metrics the tool and
 * outcome of that line.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { eventually } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startCountingMcpServer, type CountingMcpServer } from '../fleet/counting-mcp-server.js';
import { TestFleet } from '../fleet/test-fleet.js';
import { conventionFaults, metricFaults } from './convention-faults.js';
import { startOtlpSink, type SeenSpan } from './otlp-sink.js';

const PATIENCE = { timeoutMs: 30_000, everyMs: 100 };
let fleet: TestFleet;
let upstream: Server;
/** `traceparent` headers that reached the upstream. */
const carried: string[] = [];
let remote: CountingMcpServer;
let sink: Awaited<ReturnType<typeof startOtlpSink>>;

beforeAll(async () => {
  upstream = createServer((request, response) => {
    carried.push(String(request.headers['traceparent']));
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"success": true, "output": "fine"}');
  });
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
  [sink, remote] = await Promise.all([startOtlpSink(), startCountingMcpServer()]);
  fleet = await TestFleet.start({
    services: {
      gateway: 1,
      registry: 1,
      budget: 1,
      'builtin-executor': 1,
      'mcp-executor': 1,
      'python-sandbox': 1,
    },
    tools: ['calculator', 'echo', 'execute_python', 'remote_add'],
    config: {
      mcp_servers: { remote: { url: `${remote.origin}/mcp` } },
      mcp_tools: { echo: { url: `${origin}/call`, func_name: 'echo', description: 'Answers', parameters: [] } },
    },
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: sink.endpoint,
      EGRESS_ALLOWED_ENDPOINTS: `${origin},${remote.origin}`,
      OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: 'true',
      PYTHON_SANDBOX_THREADS: '1',
      PYTHON_SANDBOX_WARM_UP_MS: '0',
      WASI_MEMORY_LIMIT_MB: '128',
    },
  });
});
afterAll(async () => {
  await fleet?.stop();
  await sink?.stop();
  await remote?.stop();
  upstream?.close();
});

const ofCall = (callId: string) =>
  sink.spans.find(({ name, attributes }) => name.startsWith('execute_tool') && attributes['call.id'] === callId);

/** The span of a call and everything in its trace, once that is what the spec waits for. */
async function traceOf(callId: string, has: (spans: SeenSpan[]) => boolean) {
  let spans: SeenSpan[] = [];
  await eventually(
    'the trace is complete',
    () => {
      const call = ofCall(callId);
      spans = call ? sink.spans.filter(({ traceId }) => traceId === call.traceId) : [];
      return has(spans);
    },
    PATIENCE,
  ).catch((error: unknown) => {
    throw new Error(`${String(error)}: ${JSON.stringify(spans.map(({ service, name }) => `${service} ${name}`))}`);
  });
  return { call: ofCall(callId)!, spans };
}

/** The line a gateway writes about a call when it has finished. */
async function lineOf(callId: string, gateway = 0): Promise<Record<string, unknown>> {
  let found: string | undefined;
  await eventually('its line is written', () => {
    const lines = fleet.process('gateway', gateway).log().split('\n');
    found = lines.find((text) => text.includes(callId) && text.includes('"call finished"'));
    return found !== undefined;
  });
  return JSON.parse(found!) as Record<string, unknown>;
}

const named = (spans: readonly SeenSpan[], service: string, name: string | RegExp) =>
  spans.find((span) => span.service === `toolfleet-${service}` && span.name.match(name) !== null);

/** Names from a span up to the root of its trace. */
function pathOf(spans: readonly SeenSpan[], leaf: SeenSpan): string[] {
  const above = spans.find(({ spanId }) => spanId === leaf.parentSpanId);
  return [leaf.name, ...(above ? pathOf(spans, above) : [])];
}

/** Expects these names from a span up to the root of its trace, once all have come: every process exports when it pleases. */
async function expectPath(leaf: SeenSpan, names: readonly string[]): Promise<void> {
  const path = () =>
    pathOf(
      sink.spans.filter(({ traceId }) => traceId === leaf.traceId),
      leaf,
    );
  await eventually('the path is recorded', () => path().length >= names.length, PATIENCE).catch(() => undefined);
  expect(path()).toEqual(names);
}

describe.concurrent('a call', () => {
  it('is one trace from HTTP over NATS to the upstream, which receives traceparent', async () => {
    const { body } = await fleet.call('echo', {});
    expect(body.success).toBe(true);
    const { spans } = await traceOf(body.call_id, (all) => named(all, 'mcp-executor', 'upstream POST') !== undefined);
    const leaf = named(spans, 'mcp-executor', 'upstream POST')!;
    await expectPath(leaf, ['upstream POST', 'exec.mcp', 'execute_tool echo', 'http call']);
    expect(leaf.attributes).toMatchObject({ 'http.request.method': 'POST' });
    expect(carried).toContain(`00-${leaf.traceId}-${leaf.spanId}-01`);
  });

  it('is one trace over a queue, and over MCP within the caller’s own', async () => {
    const traceId = '0af7651916cd43dd8448eb211c80319c';
    const request = { name: 'execute_python', arguments: { code: '1 + 1' } };
    await fleet.ask({
      path: '/mcp',
      headers: {
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-06-18',
        traceparent: `00-${traceId}-b7ad6b7169203331-01`,
      },
      body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: request },
    });
    const isThere = () => named(sink.spans, 'python-sandbox', 'job python-runs');
    await eventually('the run was recorded', () => isThere()?.traceId === traceId, PATIENCE);
    await expectPath(isThere()!, ['job python-runs', 'execute_tool execute_python', 'tools/call execute_python']);
  });

  it('without a waiting caller has its own trace, linked to its caller’s', async () => {
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
    const { body } = await fleet.call(
      'calculator',
      { expression: '6 * 7' },
      { fields: { mode: 'async' }, headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-01` } },
    );
    expect(body.status).toBe('accepted');
    const job = () => sink.spans.find(({ name, links }) => name === 'job tool-calls' && links.includes(traceId));
    await eventually('the job was recorded', () => job() !== undefined, PATIENCE);
    const ofJob = () => sink.spans.filter((span) => span.traceId === job()!.traceId);
    await eventually('so was its work', () => named(ofJob(), 'builtin-executor', /^exec/) !== undefined, PATIENCE);
    expect(job()!.traceId).not.toBe(traceId);
    const leaf = named(ofJob(), 'builtin-executor', /^exec/)!;
    await expectPath(leaf, ['exec.builtin.compute', 'execute_tool calculator', 'job tool-calls']);
    expect(ofCall(body.call_id)!.traceId).toBe(job()!.traceId);
  });

  it.each(['/tools/batch-execute', '/api/v1/tools/batch-execute'])('of a batch of %s is in its trace', async (path) => {
    const traceId = randomBytes(16).toString('hex');
    const calls = [1, 2].map((n) => ({ tool_name: 'calculator', parameters: { expression: `${n} * ${path.length}` } }));
    await fleet.ask({ path, headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-01` }, body: calls });
    const ofBatch = () => sink.spans.filter((span) => span.traceId === traceId);
    const executions = () => ofBatch().filter(({ name }) => name === 'execute_tool calculator');
    await eventually('both calls are recorded', () => executions().length === 2, PATIENCE);
    for (const span of executions()) {
      await expectPath(span, ['execute_tool calculator', 'http call']);
      expect(span.attributes).toMatchObject({ 'tool.name': 'calculator', 'tool.category': 'data' });
    }
  });

  it('that is not recorded still has a trace: in its line, and up to the upstream', async () => {
    await fleet.launch('gateway', {
      OTEL_TRACES_SAMPLE_RATIO: '0',
      OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: 'false',
    });
    const { body } = await fleet.call('echo', {}, { gateway: 1 });
    expect(body.success).toBe(true);
    const line = await lineOf(body.call_id, 1);
    // The volume of logs is planned with this number; the line break counts.
    const [, planned] = /writes one line of about (\d+) bytes/.exec(readFileSync('docs/operations/traces.md', 'utf8'))!;
    expect(Math.abs((JSON.stringify(line).length + 1) / Number(planned) - 1)).toBeLessThan(0.05);
    expect(line.trace_id).toMatch(/^[0-9a-f]{32}$/);
    expect(line.span_id).toBeUndefined();
    expect(carried).toContainEqual(expect.stringMatching(new RegExp(`^00-${line.trace_id}-[0-9a-f]{16}-00$`)));
    // A sampled caller is followed; its arguments and results are recorded only with a setting.
    const headers = { traceparent: `00-${randomBytes(16).toString('hex')}-00f067aa0ba902b7-01` };
    const followed = await fleet.call('calculator', { expression: '3 * 14' }, { gateway: 1, headers });
    const { call } = await traceOf(followed.body.call_id, (all) => all.length > 0);
    expect(Object.keys(call.attributes).filter((name) => /arguments|result/.test(name))).toEqual([]);
  });

  it('is found by its id in logs and traces, and by what its line says in the metrics', async () => {
    const { body } = await fleet.call('calculator', { expression: '1 + 2' });
    const { call } = await traceOf(body.call_id, (all) => all.length > 0);
    expect(await lineOf(body.call_id)).toMatchObject({
      tool_name: 'calculator',
      success: true,
      trace_id: call.traceId,
    });
    const { body: metrics } = await fleet.process('gateway').admin('/metrics');
    expect(metrics).toMatch(/shannon_tool_executions_total\{tool_name="calculator",status="success"\} [1-9]/);
    expect(call.attributes).toMatchObject({
      'tool.span': 'tool_execution',
      'tool.name': 'calculator',
      'tool.success': true,
    });
  });

  it('that the cache answers, and one whose failure is explained, are counted by tool', async () => {
    for (const expected of ['live', 'cache']) {
      const { body } = await fleet.call('calculator', { expression: '11 * 11' });
      expect(body.metadata.provenance).toBe(expected);
    }
    expect((await fleet.call('calculator', { expression: '1 / 0' })).body.success).toBe(false);
    const { body: metrics } = await fleet.process('gateway').admin('/metrics');
    const counted = (series: string) => expect(metrics).toMatch(new RegExp(`${series} [1-9]`));
    counted('toolfleet_cache_lookups_total\\{tool_name="calculator",outcome="hit"\\}');
    counted('toolfleet_cache_lookups_total\\{tool_name="calculator",outcome="miss"\\}');
    counted('toolfleet_fallbacks_total\\{tool_name="calculator",kind="graceful_error"\\}');
  });
});

describe('the OpenTelemetry conventions', () => {
  const THEIRS = { traceId: '11111111111111111111111111111111', spanId: '2222222222222222' };
  const HTTP = { traceId: '33333333333333333333333333333333', spanId: '4444444444444444' };
  const header = ({ traceId, spanId }: { traceId: string; spanId: string }) => `00-${traceId}-${spanId}-01`;
  const askMcp = (method: string, params: object, headers: Record<string, string> = {}) =>
    fleet.ask({
      path: '/mcp',
      headers: {
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-11-25',
        traceparent: header(HTTP),
        ...headers,
      },
      body: { jsonrpc: '2.0', id: 'r-1', method, params },
    });
  const spanOf = async (name: string, matches: (span: SeenSpan) => boolean = () => true): Promise<SeenSpan> => {
    const find = () => sink.spans.find((span) => span.name === name && matches(span));
    await eventually(`${name} is recorded`, () => find() !== undefined, PATIENCE);
    return find()!;
  };

  let session: string;
  // All at once, so that the test waits only once for the processes to export their spans.
  beforeAll(async () => {
    const _meta = { traceparent: header(THEIRS), session_id: 'chat-1', agent_id: 'planner' };
    const clientInfo = { name: 'spec', version: '1' };
    const [{ headers }] = await Promise.all([
      askMcp('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo }),
      askMcp('tools/call', { name: 'remote_add', arguments: { a: 1, b: 2 }, _meta }),
      askMcp('tools/call', { name: 'remote_fail_with', arguments: { message: 'no' } }),
      askMcp('tools/call', { name: 'no_such_tool', arguments: {} }),
      askMcp('no/such/method', {}),
    ]);
    session = headers.get('mcp-session-id')!;
    await askMcp('tools/list', {}, { 'mcp-session-id': session });
  });

  it('are followed from the trace in _meta to the span whose id the upstream server gets', async () => {
    const isTheirs = ({ traceId }: SeenSpan) => traceId === THEIRS.traceId;
    const client = await spanOf('tools/call add', isTheirs);
    const leaf = await spanOf('upstream POST', ({ parentSpanId }) => parentSpanId === client.spanId);
    await expectPath(leaf, [
      'upstream POST',
      'tools/call add',
      'exec.mcp',
      'execute_tool remote_add',
      'tools/call remote_add',
    ]);
    expect(remote.traceparents).toContain(header(client));
    expect(client.attributes).toMatchObject({
      'mcp.method.name': 'tools/call',
      'mcp.protocol.version': '2026-07-28',
      'gen_ai.tool.name': 'add',
      'jsonrpc.request.id': expect.any(String),
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(remote.origin).port),
    });
    const server = await spanOf('tools/call remote_add', isTheirs);
    expect(server).toMatchObject({ parentSpanId: THEIRS.spanId, links: [HTTP.traceId], failed: false });
    expect(server.attributes).toMatchObject({
      'mcp.method.name': 'tools/call',
      'mcp.protocol.version': '2025-11-25',
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'remote_add',
      'jsonrpc.request.id': 'r-1',
      'network.transport': 'tcp',
      'network.protocol.name': 'http',
      'network.protocol.version': '1.1',
    });
    const { attributes } = await spanOf('execute_tool remote_add', isTheirs);
    expect(attributes).toMatchObject({
      'gen_ai.tool.type': 'extension',
      'gen_ai.tool.call.id': attributes['call.id'],
      'gen_ai.tool.description': 'Adds two numbers.',
      'gen_ai.conversation.id': 'chat-1',
      'gen_ai.agent.id': 'planner',
      'gen_ai.tool.call.arguments': '{"a":1,"b":2}',
      'gen_ai.tool.call.result': expect.stringContaining('3'),
    });
  });

  it('tell a failed tool from an unknown one and from an unknown method', async () => {
    const failed = { failed: true, attributes: { 'error.type': 'tool_error' } };
    expect(await spanOf('tools/call remote_fail_with')).toMatchObject(failed);
    expect(await spanOf('tools/call fail_with')).toMatchObject(failed);
    expect(await spanOf('execute_tool remote_fail_with')).toMatchObject({ failed: true });
    const unknown = await spanOf('tools/call', ({ attributes }) => attributes['rpc.response.status_code'] === '-32602');
    expect(unknown).toMatchObject({ failed: false });
    expect(JSON.stringify(unknown), 'a caller made the name up').not.toContain('no_such_tool');
    expect(await spanOf('_OTHER')).toMatchObject({ attributes: { 'rpc.response.status_code': '-32601' } });
  });

  it('name the session of a 2025 client', async () => {
    await spanOf('initialize');
    await spanOf('tools/list', ({ attributes }) => attributes['mcp.session.id'] === session);
  });

  it('have every name, type and required attribute of what was recorded', async () => {
    expect(sink.spans.flatMap(conventionFaults)).toEqual([]);
    const services = ['gateway', 'mcp-executor'] as const;
    const texts = await Promise.all(services.map(async (name) => (await fleet.process(name).admin('/metrics')).body));
    expect(texts.flatMap(metricFaults)).toEqual([]);
    for (const name of ['gen_ai_execute_tool', 'mcp_server_operation', 'mcp_client_operation']) {
      expect(texts.join('\n')).toMatch(new RegExp(`^${name}_duration_seconds_count\\{.*gen_ai_tool_name=`, 'm'));
    }
  });
});
