/**
 * An MCP server of both revisions with tools that ask a person for input: for a number in a form, and to open a page. In 2026-07-28 by their
 * results, before that on the stream of the call (the SDK converts), for which it keeps sessions.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, inputRequired, inputResponse, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

export interface AskingMcpServer {
  /** The page that `sign_in` opens. */
  page: string;
  /** Origin, e.g. `http://127.0.0.1:4711`. */
  readonly origin: string;
  /** The rooms that `book_room` booked: `<people> on <day>`. */
  readonly bookings: readonly string[];
  stop(): Promise<void>;
}

/** The page that `sign_in` opens first. */
export const SIGN_IN_PAGE = 'https://login.example.com/start';

/** Starts the server on a free loopback port. */
export async function startAskingMcpServer(): Promise<AskingMcpServer> {
  const bookings: string[] = [];
  const state = { page: SIGN_IN_PAGE };
  const text = (said: string) => ({ content: [{ type: 'text' as const, text: said }] });
  const server = (): McpServer => {
    const made = new McpServer({ name: 'asking', version: '1.0.0' });
    made.registerTool(
      'book_room',
      { description: 'Books a room.', inputSchema: z.object({ day: z.string() }) },
      ({ day }, { mcpReq }) => {
        const answer = inputResponse(mcpReq.inputResponses, 'people');
        if (answer.kind !== 'elicit') {
          const requestedSchema = { type: 'object' as const, properties: { people: { type: 'integer' as const } } };
          return inputRequired({
            inputRequests: { people: inputRequired.elicit({ message: 'For how many people?', requestedSchema }) },
            requestState: `room on ${day}`,
          });
        }
        if (mcpReq.requestState<unknown>() !== `room on ${day}`) return { ...text('another room'), isError: true };
        if (answer.action !== 'accept') return text('not booked');
        bookings.push(`${answer.content?.['people']} on ${day}`);
        return text(`booked for ${answer.content?.['people']}`);
      },
    );
    made.registerTool('sign_in', { description: 'Opens a page.', inputSchema: z.object({}) }, (_args, { mcpReq }) => {
      const answer = inputResponse(mcpReq.inputResponses, 'page');
      if (answer.kind === 'elicit') return text(`signed in: ${answer.action}`);
      const url = state.page;
      return inputRequired({ inputRequests: { page: inputRequired.elicitUrl({ message: 'Sign in', url }) } });
    });
    return made;
  };
  const modern = toNodeHandler(createMcpHandler(server));
  const sessions = new Map<string, NodeStreamableHTTPServerTransport>();
  const legacy = async (request: IncomingMessage, response: ServerResponse): Promise<unknown> => {
    const body = request.method === 'POST' ? JSON.parse(await readText(request)) : undefined;
    const known = sessions.get(String(request.headers['mcp-session-id']));
    if (known) return known.handleRequest(request, response, body);
    if (body?.method !== 'initialize') return response.writeHead(404).end();
    const transport: NodeStreamableHTTPServerTransport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (session) => void sessions.set(session, transport),
    });
    await server().connect(transport);
    return transport.handleRequest(request, response, body);
  };
  const http = createServer((request, response) => {
    const isModern = request.headers['mcp-protocol-version'] === '2026-07-28';
    void (isModern ? modern(request, response) : legacy(request, response));
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  return Object.assign(state, {
    origin: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    bookings,
    stop: async () => {
      http.closeAllConnections();
      await new Promise<void>((resolve) => http.close(() => resolve()));
    },
  });
}
