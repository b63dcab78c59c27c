/** A real server of MCP and of an OpenAPI document inside the test process: what reached it is counted, so that effects are seen and not believed. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

/** Effects of the server's tools. */
export interface CountingMcpServer {
  /** Origin, e.g. `http://127.0.0.1:4711`. */
  readonly origin: string;
  /** Effects per note text: `save_note` counts before it answers. */
  readonly notes: ReadonlyMap<string, number>;
  /** `Authorization` headers it was sent. */
  readonly credentials: ReadonlySet<string>;
  /** Traces that `add` was called in, by `_meta`. */
  readonly traceparents: ReadonlySet<unknown>;
  /** `count_slowly` calls in work. */
  readonly counting: () => number;
  /** `count_slowly` calls that were cancelled. */
  readonly cancelled: () => number;
  /** Keeps the answers of the `save_note` calls that arrive from now on until the returned function is called. */
  readonly hold: () => () => void;
  stop(): Promise<void>;
}

/** `POST /notes?text=…`, the effect of `save_note` for tools that are not of MCP; of users with a key. */
const DOCUMENT = {
  openapi: '3.1.0',
  info: { title: 'Notes', version: '1.0.0' },
  security: [{ key: [] }],
  components: { securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Key' } } },
  paths: {
    '/notes': {
      post: {
        operationId: 'addNote',
        parameters: [{ name: 'text', in: 'query', schema: { type: 'string' } }],
        responses: { 200: { description: 'Saved' } },
      },
    },
  },
};

/** Starts the server with `add`, `save_note` (an effect), `count_slowly` and `fail_with` on a free loopback port. */
export async function startCountingMcpServer(): Promise<CountingMcpServer> {
  const notes = new Map<string, number>();
  const credentials = new Set<string>();
  const traceparents = new Set<unknown>();
  let counting = 0;
  let cancelled = 0;
  let released: Promise<void> = Promise.resolve();
  const describe = (): McpServer => {
    const server = new McpServer({ name: 'counting', version: '1.0.0' });
    server.registerTool(
      'add',
      { description: 'Adds two numbers.', inputSchema: z.object({ a: z.number(), b: z.number() }) },
      ({ a, b }, context) => {
        traceparents.add(context.mcpReq._meta?.['traceparent']);
        return { content: [{ type: 'text', text: String(a + b) }] };
      },
    );
    server.registerTool(
      'save_note',
      {
        description: 'Stores a note, then answers after `delay_ms`.',
        inputSchema: z.object({ text: z.string(), delay_ms: z.number().int().min(0).max(60_000).default(0) }),
      },
      async ({ text, delay_ms: delayMs }) => {
        notes.set(text, (notes.get(text) ?? 0) + 1);
        await released;
        await sleep(delayMs);
        return { content: [{ type: 'text', text: `saved ${text}` }] };
      },
    );
    server.registerTool(
      'count_slowly',
      {
        description: 'Counts, one step per 50 ms.',
        inputSchema: z.object({ steps: z.number().int().min(1) }),
        // Believed where the server is trusted: a cancelled call then has a known outcome.
        annotations: { readOnlyHint: true },
      },
      async ({ steps }, context) => {
        counting += 1;
        try {
          for (let step = 0; step < steps; step += 1) await sleep(50, undefined, { signal: context.mcpReq.signal });
          return { content: [{ type: 'text', text: `counted to ${steps}` }] };
        } catch (error) {
          cancelled += 1;
          throw error;
        } finally {
          counting -= 1;
        }
      },
    );
    server.registerTool(
      'fail_with',
      { description: 'Fails with the given text.', inputSchema: z.object({ message: z.string() }) },
      ({ message }) => ({ isError: true, content: [{ type: 'text', text: message }] }),
    );
    return server;
  };
  const mcp = toNodeHandler(createMcpHandler(describe));
  const server = createServer((request, response) => {
    if (request.headers.authorization !== undefined) credentials.add(request.headers.authorization);
    if (request.url === '/openapi.json') response.setHeader('content-type', 'application/json').end(documentText());
    else if (request.method === 'POST' && request.url?.startsWith('/notes?')) {
      const text = new URL(request.url, origin).searchParams.get('text')!;
      notes.set(text, (notes.get(text) ?? 0) + 1);
      response.setHeader('content-type', 'application/json').end('{"saved":true}');
    } else void mcp(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const documentText = () => JSON.stringify({ ...DOCUMENT, servers: [{ url: origin }] });
  return {
    origin,
    notes,
    credentials,
    traceparents,
    counting: () => counting,
    cancelled: () => cancelled,
    hold: () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      released = promise;
      return resolve;
    },
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
