/** One server of the bench: `bench-server.mjs bare|endpoint <tools>`; prints its port. `bare` is the SDK's low-level server. */
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, Server } from '@modelcontextprotocol/server';
import { SystemClock } from '@toolfleet/resilience';
import { serveEcho } from './served-endpoint.mjs';

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
const TOOLS = names.map((name) => ({ name, description, input_schema: schema }));

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

console.log(JSON.stringify({ port: await (kind === 'bare' ? bare() : serveEcho(TOOLS, new SystemClock())) }));
process.on('disconnect', () => process.exit(0));
