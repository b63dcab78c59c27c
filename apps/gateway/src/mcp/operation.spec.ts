import { createMetrics, OTHER_LABEL } from '@toolfleet/telemetry';
import { afterEach, expect, it } from 'vitest';
import { ToolsetView } from '../../../../libs/catalog/src/toolset-view.js';
import { call, closeAll, connect, serveEndpoint, success, tool } from '../../spec/mcp-endpoint.fixture.js';

afterEach(closeAll);

/** An endpoint with metrics, and the labels of its observations with their counts. */
async function measured(deps: Parameters<typeof serveEndpoint>[0] = {}) {
  const metrics = createMetrics({ version: '0', revision: '0' });
  const toolLabel = (called?: { name: string }) => called?.name ?? OTHER_LABEL;
  const { url } = await serveEndpoint({ metrics: { durations: metrics.mcpServerDuration, toolLabel }, ...deps });
  const observed = async () => {
    const lines = (await metrics.scrape()).matchAll(/^mcp_server_operation_duration_seconds_count\{(.*)\} (\d+)$/gm);
    return [...lines].map(([, labels = '', count]) => {
      const pairs = [...labels.matchAll(/(\w+)="([^"]+)"/g)].map(([, name, value]) => [name, value]);
      return { ...Object.fromEntries(pairs), count: Number(count) };
    });
  };
  const post = (body: unknown) =>
    fetch(url, {
      method: 'POST',
      headers: {
        authorization: 'Bearer alice',
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
      },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    }).then((response) => response.text());
  return { url, observed, post };
}

const common = { network_transport: 'tcp', network_protocol_name: 'http', count: 1 };
const tools = { mcp_method_name: 'tools/call', gen_ai_operation_name: 'execute_tool' };

it.each(['auto', 'legacy'] as const)('requests of a client (%s) are measured by tool and outcome', async (mode) => {
  const { url, observed } = await measured();
  const client = await connect(url, { mode });
  await client.listTools();
  await call(client, 'echo', { text: 'a' });
  await client.callTool({ name: 'echo', arguments: {} }, { onprogress: () => undefined }); // served by the SDK
  await call(client, 'fails');
  await expect(call(client, 'nothing')).rejects.toThrow();
  const version = mode === 'auto' ? '2026-07-28' : '2025-11-25';
  const mine = { ...common, mcp_protocol_version: version };
  const expected = [
    { ...mine, mcp_method_name: 'tools/list' },
    { ...mine, ...tools, gen_ai_tool_name: 'echo', count: 2 },
    { ...mine, ...tools, gen_ai_tool_name: OTHER_LABEL, error_type: 'tool_error' },
    { ...mine, ...tools, gen_ai_tool_name: OTHER_LABEL, rpc_response_status_code: '-32602' },
  ];
  const first = mode === 'auto' ? 'server/discover' : 'initialize';
  const all = await observed();
  expect(all).toEqual(expect.arrayContaining(expected));
  expect(all).toContainEqual({ ...mine, mcp_method_name: first });
});

it('a tool that a toolset renames is measured under its original name', async () => {
  const echo = tool('echo');
  const spec = { overrides: { echo: { name: 'reply' } } };
  const approved = { echo: echo.revision };
  const view = new ToolsetView({ name: 'desk', tenant: null, version: 1, spec, approved, quarantined: [] });
  const listed = view.list([echo]);
  const { url, observed } = await measured({ listTools: async () => listed, executeCall: async () => success('done') });
  const client = await connect(url);
  await call(client, 'reply', { text: 'a' });
  await client.callTool({ name: 'reply', arguments: {} }, { onprogress: () => undefined }); // served by the SDK
  const calls = (await observed()).filter((one) => 'gen_ai_tool_name' in one);
  expect(calls).toMatchObject([{ gen_ai_tool_name: 'echo', count: 2 }]);
});

it('does not use names that a client invents as labels, nor measure messages that are not requests', async () => {
  const { observed, post } = await measured();
  await post({ jsonrpc: '2.0', id: 1, method: 'tools/invented' });
  await post({ jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'invented', arguments: {} } });
  await post({ jsonrpc: '2.0', id: 3, method: 'tools/list', params: {} });
  for (const noRequest of ['{', '[]', { jsonrpc: '2.0', id: 4, result: {} }]) await post(noRequest);
  expect(await observed()).toEqual([
    { ...common, mcp_method_name: '_OTHER', rpc_response_status_code: '-32601' },
    { ...common, ...tools, gen_ai_tool_name: OTHER_LABEL, rpc_response_status_code: '-32602' },
    { ...common, mcp_method_name: 'tools/list' },
  ]);
});
