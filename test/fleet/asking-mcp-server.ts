/** An MCP server of both revisions whose tools ask a person for input: for a number in a form, and to open a page. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, inputRequired, inputResponse, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

export interface AskingMcpServer {
  /** Origin, e.g. `http://127.0.0.1:4711`. */
  readonly origin: string;
  /** The rooms that `book_room` booked: `<people> on <day>`. */
  readonly bookings: readonly string[];
  stop(): Promise<void>;
}

/** Starts the server on a free loopback port. */
export async function startAskingMcpServer(): Promise<AskingMcpServer> {
  const bookings: string[] = [];
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
      const url = 'https://login.example.com/start';
      return inputRequired({ inputRequests: { page: inputRequired.elicitUrl({ message: 'Sign in', url }) } });
    });
    return made;
  };
  const http = createServer(toNodeHandler(createMcpHandler(server)));
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    bookings,
    stop: async () => {
      http.closeAllConnections();
      await new Promise<void>((resolve) => http.close(() => resolve()));
    },
  };
}
