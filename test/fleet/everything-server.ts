/** The project's reference server of all features of MCP 2025-11-25, in this process, on loopback. */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

/** Has no types. Its own program listens on all interfaces. */
const FACTORY = '@modelcontextprotocol/server-everything/dist/server/index.js';

interface Made {
  server: McpServer;
  cleanup(session?: string): void;
}

export interface EverythingServer {
  /** Origin, e.g. `http://127.0.0.1:4711`. */
  readonly origin: string;
  stop(): Promise<void>;
}

/** Starts the server on a free loopback port. */
export async function startEverythingServer(): Promise<EverythingServer> {
  const { createServer: make } = (await import(FACTORY)) as { createServer(): Made };
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const made: Made[] = [];
  const open = async (): Promise<StreamableHTTPServerTransport> => {
    const one = make();
    made.push(one);
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (session) => void sessions.set(session, transport),
    });
    await one.server.connect(transport as Parameters<McpServer['connect']>[0]);
    return transport;
  };
  const http = createServer((request, response) => {
    void (async () => {
      const body = request.method === 'POST' ? (JSON.parse(await readText(request)) as { method?: string }) : undefined;
      const known = sessions.get(String(request.headers['mcp-session-id']));
      if (!known && body?.method !== 'initialize') return response.writeHead(404).end();
      return (known ?? (await open())).handleRequest(request, response, body);
    })();
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    stop: async () => {
      for (const [session] of sessions) for (const { cleanup } of made) cleanup(session);
      http.closeAllConnections();
      await new Promise<void>((resolve) => http.close(() => resolve()));
    },
  };
}
