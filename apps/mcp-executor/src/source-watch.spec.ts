import { randomUUID } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server';
import { EgressClient } from '@toolfleet/egress';
import { SystemClock } from '@toolfleet/resilience';
import { eventually } from '@toolfleet/testing';
import { afterEach, expect, it } from 'vitest';
import { readTarget } from './mcp-target.js';
import { SessionPool } from './session-pool.js';
import { SourceWatch } from './source-watch.js';

const clock = new SystemClock();
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

/** A server with resources that can change. */
interface Upstream {
  handle: Parameters<typeof createServer>[1];
  update(uri: string): void;
}

function modernServer(): Upstream {
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'test', version: '1' });
    server.server.registerCapabilities({ resources: { subscribe: true } });
    return server;
  });
  return { handle: toNodeHandler(handler) as never, update: (uri) => handler.notify.resourceUpdated(uri) };
}

/** 2025-11-25 with one session. */
function legacyServer(): Upstream {
  const server = new McpServer({ name: 'test', version: '1' });
  server.server.registerCapabilities({ resources: { subscribe: true } });
  const subscribed = new Set<string>();
  server.server.setRequestHandler('resources/subscribe', ({ params: { uri } }) => {
    subscribed.add(uri);
    return {};
  });
  server.server.setRequestHandler('resources/unsubscribe', ({ params: { uri } }) => {
    subscribed.delete(uri);
    return {};
  });
  const transport = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: randomUUID });
  const connected = server.connect(transport);
  const fetch = async (request: Request) => connected.then(() => transport.handleRequest(request));
  return {
    handle: toNodeHandler({ fetch } as never) as never,
    update: (uri) => subscribed.has(uri) && void server.server.sendResourceUpdated({ uri }),
  };
}

async function listen({ handle }: Upstream, port = 0): Promise<Server> {
  const http = createServer(handle);
  await new Promise<void>((resolve) => http.listen(port, '127.0.0.1', resolve));
  return http;
}

const end = (http: Server): Promise<void> =>
  new Promise((resolve) => {
    http.close(() => resolve());
    http.closeAllConnections();
  });

it.each([
  ['2026-07-28', modernServer],
  ['2025-11-25', legacyServer],
])('follows what is wanted, and subscribes again after the connection was lost (%s)', async (revision, makeServer) => {
  let upstream = makeServer();
  let http = await listen(upstream);
  const { port } = http.address() as AddressInfo;
  closers.push(() => end(http));
  const origin = `http://127.0.0.1:${port}`;
  const pool = new SessionPool({
    egress: new EgressClient({ allowlist: [], allowedEndpoints: [origin] }),
    clock,
    expand: (value: string) => value,
    maxResponseBytes: 1_000_000,
    allowStdio: false,
    version: '0',
  });
  closers.push(() => pool.close());
  const target = readTarget('s', 'streamable-http', `${origin}/mcp`, { protocol_version: revision });
  const updated: string[] = [];
  const watch = new SourceWatch(pool, target, clock, (uri) => updated.push(uri));
  closers.push(() => watch.close());
  const next = async (uri: string): Promise<void> => {
    await eventually(uri, () => updated.includes(uri));
    expect(new Set(updated.splice(0))).toEqual(new Set([uri]));
  };

  watch.want(new Set(['test://a']));
  await next('test://a');
  upstream.update('test://a');
  await next('test://a');

  watch.want(new Set(['test://b']));
  await next('test://b');
  upstream.update('test://a');
  upstream.update('test://b');
  await next('test://b');

  await end(http);
  upstream = makeServer();
  http = await listen(upstream, port);
  await eventually('subscribed again', () => updated.includes('test://b'));
  updated.splice(0);
  upstream.update('test://b');
  await next('test://b');
});
