import { randomUUID } from 'node:crypto';
import {
  isInitializeRequest,
  WebStandardStreamableHTTPServerTransport,
  type McpHandlerRequestOptions,
} from '@modelcontextprotocol/server';
import { serverFor, type DoorParts } from './handlers.js';
import { MemoryEvents } from './memory-events.js';
import { principalOf } from './principal-of.js';

/** Sessions kept at most; the oldest is closed. */
const MAX_SESSIONS = 1_000;

/**
 * 2025 sessions in memory, for fixtures only: tools that ask the client something in that revision need its answer to find
 * the process that waits for it, which a stateless fleet of replicas cannot promise. No tool of the fleet does.
 */
export class LegacySessions {
  private readonly transports = new Map<string, WebStandardStreamableHTTPServerTransport>();

  constructor(private readonly parts: DoorParts) {}

  /** The answer, or undefined when the request is none of a 2025 session. */
  async serve(request: Request, options: McpHandlerRequestOptions): Promise<Response | undefined> {
    const id = request.headers.get('mcp-session-id');
    if (id !== null) {
      const known = this.transports.get(id);
      if (known) return known.handleRequest(request, options);
      return Response.json(
        { jsonrpc: '2.0', error: { code: -32_001, message: 'Session not found' }, id: null },
        { status: 404 },
      );
    }
    if (request.method !== 'POST' || !isInitializeRequest(options.parsedBody)) return undefined;
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      eventStore: new MemoryEvents(),
      retryInterval: 500,
      onsessioninitialized: (session) => this.keep(session, transport),
      onsessionclosed: (session) => void this.transports.delete(session),
    });
    const server = await serverFor(this.parts, principalOf(options.authInfo), {
      era: 'legacy',
      requestInfo: request,
      ...(options.authInfo ? { authInfo: options.authInfo } : {}),
    });
    await server.connect(transport);
    return transport.handleRequest(request, options);
  }

  async close(): Promise<void> {
    await Promise.all([...this.transports.values()].map((transport) => transport.close()));
    this.transports.clear();
  }

  private keep(session: string, transport: WebStandardStreamableHTTPServerTransport): void {
    this.transports.set(session, transport);
    const oldest = this.transports.size > MAX_SESSIONS ? this.transports.keys().next().value : undefined;
    if (oldest === undefined) return;
    void this.transports.get(oldest)?.close();
    this.transports.delete(oldest);
  }
}
