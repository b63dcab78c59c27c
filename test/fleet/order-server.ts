/** An API and MCP servers with 64-bit ids. Every answer repeats the JSON text of what arrived, so that no parser of the test changes it. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

export interface OrderServer {
  readonly origin: string;
  /** Content of the fleet's configuration file that makes tools of it: `orders_*`, and `show` of the MCP servers. */
  readonly config: { openapi_tools: object; mcp_servers: object };
  /** What arrived, since it was read last: requests of the API, and calls of MCP. */
  seen(): string[];
  stop(): Promise<void>;
}

const ID = { type: 'integer', format: 'int64' };
const json = (schema: object) => ({ 'application/json': { schema } });
const responses = { 200: { description: 'What arrived' } };
const DOCUMENT = {
  openapi: '3.1.0',
  info: { title: 'Orders', version: '1' },
  paths: {
    '/orders/{id}': {
      get: {
        operationId: 'read',
        parameters: [
          { name: 'id', in: 'path', required: true, schema: ID },
          { name: 'after', in: 'query', schema: { type: 'array', items: ID }, explode: true },
        ],
        responses,
      },
    },
    '/orders': {
      post: {
        operationId: 'add',
        requestBody: { required: true, content: json({ type: 'object', properties: { id: ID } }) },
        responses,
      },
    },
  },
};
const TOOL = {
  name: 'show',
  description: 'Shows an order.',
  inputSchema: { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] },
  annotations: { readOnlyHint: true, idempotentHint: true },
};

/** Paths of servers that answer with JSON, events, events of which the last is left for a second request, and after a question. */
const MCP_PATHS = ['/json', '/events', '/resumed', '/questions'];
const EVENTS = 'text/event-stream';
const eventOf = (message: string) => `event: message\ndata: ${message}\n\n`;
/** A question with an id that no double holds. */
const QUESTION =
  '{"jsonrpc":"2.0","id":9007199254740993,"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}';
const BRIDGE = fileURLToPath(new URL('stdio-bridge.mjs', import.meta.url));

/** Starts the server on a free loopback port. */
export async function startOrderServer(): Promise<OrderServer> {
  const seen: string[] = [];
  /** Ends the call with a question that is open. */
  let answered = (): void => undefined;
  /** Answers of streams that ended early, for those who ask for the rest. */
  const rests: string[] = [];
  const answerMcp = (response: ServerResponse, url: string, text: string): void => {
    const { id, method } = JSON.parse(text) as { id?: number; method?: string };
    if (id === undefined) return void response.writeHead(202).end();
    if (method === undefined) {
      seen.push(/"id":("?\d+"?)/.exec(text)?.[1] ?? text);
      response.writeHead(202).end();
      return answered();
    }
    const say = (result: string, error = ''): void => {
      const message = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${error || `"result":${result}`}}`;
      if (url === '/json') return void response.setHeader('content-type', 'application/json').end(message);
      response.setHeader('content-type', EVENTS);
      if (method !== 'tools/call' || url === '/events') return void response.end(eventOf(message));
      if (url === '/resumed') {
        rests.push(message);
        return void response.end('id: 1\nretry: 10\ndata: \n\n');
      }
      answered = () => void response.end(eventOf(message));
      response.write(eventOf(QUESTION));
    };
    if (method === 'initialize')
      return say(
        '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"o","version":"1"}}',
      );
    if (method === 'tools/list') return say(JSON.stringify({ tools: [TOOL] }));
    if (method !== 'tools/call') return say('', '"error":{"code":-32601,"message":"Method not found"}');
    const sent = /"arguments":(\{[^}]*\})/.exec(text)?.[1] ?? '{}';
    seen.push(sent);
    say(`{"content":[{"type":"text","text":"shown"}],"structuredContent":{"got":${sent}}}`);
  };
  const server = createServer((request, response) => {
    const { method, url = '' } = request;
    void readText(request).then((text) => {
      const rest = method === 'GET' && request.headers['last-event-id'] === '1' && rests.shift();
      if (rest) return void response.setHeader('content-type', EVENTS).end(eventOf(rest));
      if (MCP_PATHS.includes(url))
        return method === 'POST' ? answerMcp(response, url, text) : void response.writeHead(405).end();
      response.setHeader('content-type', 'application/json');
      if (url === '/openapi.json') return void response.end(JSON.stringify(DOCUMENT));
      seen.push(`${method} ${url} ${text}`.trim());
      const [id = 'null'] = /\d{5,}/.exec(url + text) ?? [];
      response.end(`{"id":${id},"lines":[{"id":${id}}],"n":1}`);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    origin,
    config: {
      openapi_tools: {
        orders: {
          enabled: true,
          spec_url: `${origin}/openapi.json`,
          base_url: origin,
          category: 'data',
          name_prefix: 'orders_',
          auth_type: 'none',
        },
      },
      mcp_servers: {
        ...Object.fromEntries(MCP_PATHS.map((path) => [path.slice(1), { url: `${origin}${path}`, trusted: true }])),
        local: { command: process.execPath, args: [BRIDGE, `${origin}/json`], trusted: true },
      },
    },
    seen: () => seen.splice(0),
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
