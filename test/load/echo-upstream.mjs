/**
 * What the paths of `paths.bench.mjs` end at, as cheap as it can be: an MCP server (Streamable HTTP of 2025-11-25, JSON answers, no
 * sessions) with the tool `say` that answers with its text, and an HTTP API that echoes requests.
 *
 *   node echo-upstream.mjs http <port>     prints nothing, sends 'ready' to its parent
 *   node echo-upstream.mjs stdio           the same MCP server on its standard streams
 */
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const TOOL = {
  name: 'say',
  description: 'Answers with the text that it gets.',
  inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  annotations: { readOnlyHint: true, idempotentHint: true },
};

/** Of the protocol, the newest first. */
const REVISIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];

const METHODS = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion: REVISIONS.includes(protocolVersion) ? protocolVersion : REVISIONS[0],
    capabilities: { tools: {} },
    serverInfo: { name: 'echo', version: '1.0.0' },
  }),
  'tools/list': () => ({ tools: [TOOL] }),
  'tools/call': ({ arguments: { text } }) => ({ content: [{ type: 'text', text }] }),
  ping: () => ({}),
};

/** The answer to a message as JSON; undefined for a notification. */
function answer(message) {
  const { id, method, params = {} } = JSON.parse(message);
  if (id === undefined) return undefined;
  const result = METHODS[method]?.(params);
  return JSON.stringify(
    result
      ? { jsonrpc: '2.0', id, result }
      : { jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } },
  );
}

async function bodyOf(request) {
  let body = '';
  for await (const chunk of request) body += chunk;
  return body;
}

const serveHttp = createServer(async (request, response) => {
  const json = (text) => response.writeHead(200, { 'content-type': 'application/json' }).end(text);
  const { pathname } = new URL(request.url, 'http://localhost');
  if (pathname === '/openapi.json') return json(JSON.stringify(openApi()));
  if (pathname.startsWith('/items')) return json(JSON.stringify({ path: request.url, body: await bodyOf(request) }));
  if (request.method !== 'POST') return response.writeHead(405).end();
  const text = answer(await bodyOf(request));
  return text ? json(text) : response.writeHead(202).end();
});

/** Describes the API at the address that the caller of this server knows; `base_url` of the source names it. */
function openApi() {
  const ok = { 200: { description: 'What came in.', content: { 'application/json': { schema: { type: 'object' } } } } };
  const text = { type: 'string' };
  const schema = { type: 'object', properties: { text }, required: ['text'] };
  const id = { name: 'id', in: 'path', required: true, schema: text };
  return {
    openapi: '3.1.0',
    info: { title: 'echo', version: '1.0.0' },
    paths: {
      '/items/{id}': { get: { operationId: 'getItem', summary: 'Gets an item.', parameters: [id], responses: ok } },
      '/items': {
        post: {
          operationId: 'createItem',
          summary: 'Creates an item.',
          requestBody: { required: true, content: { 'application/json': { schema } } },
          responses: ok,
        },
      },
    },
  };
}

const [kind, port] = process.argv.slice(2);
if (kind === 'http') {
  serveHttp.listen(Number(port), '127.0.0.1', () => process.send?.('ready'));
  process.on('disconnect', () => process.exit(0));
} else {
  for await (const line of createInterface({ input: process.stdin })) {
    const text = answer(line);
    if (text) process.stdout.write(`${text}\n`);
  }
}
