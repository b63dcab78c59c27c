import { Client, InMemoryTransport } from '@modelcontextprotocol/client';
import { McpServer } from '@modelcontextprotocol/server';
import { SystemClock } from '@toolfleet/resilience';
import { createMetrics, inTrace } from '@toolfleet/telemetry';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { Traffic } from './traffic.js';

const PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00';

const PARENT_CARRIER = { get: (name: string) => (name === 'traceparent' ? PARENT : undefined) };

/** A client over a watched transport, a server that records the traces of its calls, and the metrics. */
async function connected(url: string | undefined) {
  const traces: unknown[] = [];
  const server = new McpServer({ name: 'spec', version: '1' });
  server.registerTool('ok', { inputSchema: z.object({}) }, (_, { mcpReq }) => {
    traces.push(mcpReq._meta?.['traceparent']);
    return { content: [] };
  });
  server.registerTool('fails', { inputSchema: z.object({}) }, () => ({ isError: true, content: [] }));
  server.registerTool('hangs', { inputSchema: z.object({}) }, () => {
    traces.push('hangs');
    return new Promise<never>(() => undefined);
  });
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  await server.connect(theirs);
  const metrics = createMetrics({ version: '0', revision: '0' });
  const connection = new Traffic(new SystemClock(), metrics).watch(ours, url);
  const client = new Client({ name: 'spec', version: '1' });
  await client.connect(ours);
  connection.negotiated(client.getNegotiatedProtocolVersion());
  /** Labels of the observations of a metric, with their number. */
  const observed = async (metric: string) => {
    const lines = (await metrics.scrape()).matchAll(
      new RegExp(`^${metric}_duration_seconds_count\\{(.*)\\} (\\d+)$`, 'gm'),
    );
    return [...lines].map(([, labels = '', count]) => {
      const pairs = [...labels.matchAll(/(\w+)="([^"]+)"/g)].map(([, name, value]) => [name, value]);
      return { ...Object.fromEntries(pairs), count: Number(count) };
    });
  };
  return { client, traces, connection, observed };
}

it('measures every message by method, tool and outcome, including those of the SDK', async () => {
  const { client, traces, observed } = await connected('https://crm.example.com/mcp');
  await client.listTools();
  await client.callTool({ name: 'ok', arguments: {} });
  await client.callTool({ name: 'ok', arguments: {} });
  await client.callTool({ name: 'fails', arguments: {} });
  await expect(client.callTool({ name: 'missing', arguments: {} })).rejects.toThrow();
  const hanging = client.callTool({ name: 'hangs', arguments: {} });
  await expect.poll(() => traces).toContain('hangs');
  await client.close();
  await expect(hanging).rejects.toThrow();
  const address = { network_transport: 'tcp', network_protocol_name: 'http', server_address: 'crm.example.com' };
  const common = { ...address, server_port: '443', mcp_protocol_version: '2025-11-25', count: 1 };
  const { mcp_protocol_version: _, ...unversioned } = common;
  const call = { ...common, mcp_method_name: 'tools/call', gen_ai_operation_name: 'execute_tool' };
  expect(await observed('mcp_client_operation')).toEqual([
    { ...unversioned, mcp_method_name: 'initialize' },
    { ...unversioned, mcp_method_name: 'notifications/initialized' },
    { ...common, mcp_method_name: 'tools/list' },
    { ...call, gen_ai_tool_name: 'ok', count: 2 },
    { ...call, gen_ai_tool_name: 'fails', error_type: 'tool_error' },
    { ...call, gen_ai_tool_name: 'missing', error_type: '-32602', rpc_response_status_code: '-32602' },
    { ...call, gen_ai_tool_name: 'hangs', error_type: 'NETWORK_ERROR' },
  ]);
});

it('propagates the trace of a call in _meta, if there is one', async () => {
  const { client, traces } = await connected(undefined);
  await client.callTool({ name: 'ok', arguments: {} });
  await inTrace('spec', PARENT_CARRIER, () => client.callTool({ name: 'ok', arguments: {}, _meta: { kept: true } }));
  expect(traces).toEqual([undefined, PARENT]);
});

it.each(['legacy', 'auto'] as const)('opens a session without the trace that the request has (%s)', async (mode) => {
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  const sent: [string, boolean][] = [];
  theirs.onmessage = (message) => {
    if (!('method' in message)) return;
    sent.push([message.method, message.params?._meta?.['traceparent'] !== undefined]);
    if (!('id' in message)) return;
    const { id } = message;
    const result = {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 'x', version: '1' },
    };
    void theirs.send(
      message.method === 'server/discover'
        ? { jsonrpc: '2.0', id, error: { code: -32_601, message: 'Method not found' } }
        : { jsonrpc: '2.0', id, result: message.method === 'initialize' ? result : { tools: [] } },
    );
  };
  await theirs.start();
  new Traffic(new SystemClock()).watch(ours, undefined);
  const client = new Client({ name: 'spec', version: '1' }, { versionNegotiation: { mode } });
  await inTrace('spec', PARENT_CARRIER, async () => {
    await client.connect(ours);
    await client.listTools();
  });
  const opening = mode === 'auto' ? ['server/discover', 'initialize'] : ['initialize'];
  expect(sent).toEqual([
    ...[...opening, 'notifications/initialized'].map((method) => [method, false]),
    ['tools/list', true],
  ]);
  await client.close();
});

it('measures a session with a local process, which has no address', async () => {
  const { connection, observed } = await connected(undefined);
  connection.sessionEnded();
  expect(await observed('mcp_client_session')).toEqual([{ mcp_protocol_version: '2025-11-25', count: 1 }]);
});
