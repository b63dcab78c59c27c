/** One server of the bench: `bench-server.mjs bare|endpoint <tools>`; prints its port. `bare` is the SDK's low-level server. */
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, Server } from '@modelcontextprotocol/server';
import { SystemClock } from '@toolfleet/resilience';
import Fastify from 'fastify';
import { McpEndpoint } from '../../apps/gateway/dist/mcp/mcp-endpoint.js';
import { acceptJsonBodies } from '../../apps/gateway/dist/server/request-body.js';

const [kind, count] = process.argv.slice(2);
const names = Array.from({ length: Number(count) }, (_, index) => `tool_${String(index).padStart(4, '0')}`);
const properties = Object.fromEntries(
  ['text', 'limit', 'mode', 'path'].map((name) => [
    name,
    { type: 'string', description: `The ${name} of the request` },
  ]),
);
const schema = { type: 'object', properties, required: ['text'] };
const description = 'Does one thing well and answers what came of it.';

async function bare() {
  const tools = names.map((name) => ({ name, description, inputSchema: schema }));
  const handler = createMcpHandler(() => {
    const server = new Server({ name: 'bare', version: '1' }, { capabilities: { tools: {} } });
    server.setRequestHandler('tools/list', () => ({ tools }));
    server.setRequestHandler('tools/call', ({ params }) => ({
      content: [{ type: 'text', text: String(params.arguments?.text) }],
    }));
    return server;
  });
  const node = toNodeHandler(handler);
  const server = createServer((request, response) => void node(request, response));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server.address().port;
}

async function endpoint() {
  const tools = names.map((name) => ({
    name,
    description,
    version: '1.0.0',
    category: 'bench',
    input_schema: schema,
    binding: { kind: 'builtin', toolset: 'compute', handler: name },
    source: { kind: 'builtin', name: 'bench' },
    revision: '1',
    available: true,
  }));
  const principal = { tenantId: 't', userId: 'u', roles: [], tools: ['*'], via: 'local' };
  const done = {
    ok: true,
    output: null,
    provenance: 'live',
    usage: { tokens: 0, microUsd: 0 },
    metadata: {},
    timing: {},
    attempts: 1,
  };
  const fastify = Fastify();
  acceptJsonBodies(fastify, 1_000_000, new SystemClock());
  const mcp = new McpEndpoint(
    {
      authenticate: async () => principal,
      listTools: async () => tools,
      executeCall: async ({ input }) => ({ ...done, text: String(input.rawArguments.text) }),
      searchTools: async () => [],
      requestState: { seal: () => '', open: () => null },
      clock: new SystemClock(),
    },
    { version: '1', maxCallMs: 10_000, listTtlMs: 300_000, maxBodyBytes: 1_000_000 },
  );
  await mcp.mount(fastify);
  await fastify.listen({ port: 0, host: '127.0.0.1' });
  return fastify.server.address().port;
}

console.log(JSON.stringify({ port: await (kind === 'bare' ? bare() : endpoint()) }));
process.on('disconnect', () => process.exit(0));
