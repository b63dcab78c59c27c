/**
 * MCP servers of 2025-11-25 with scripted answers to calls: also ones that no SDK would send. All are at one origin, and what reached
 * them is counted.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as readText } from 'node:stream/consumers';

/** An answer to a call: its JSON-RPC message without the id, the call's. */
export interface ScriptedAnswer {
  status?: number;
  type?: string;
  /** Annotations of the tool. */
  annotations?: object;
  body: object;
}

/** An unusual reply of a server. */
export interface ScriptedReply {
  status?: number;
  type?: string;
  /** Members of the JSON-RPC message besides its version and the id of the request, or in place of these. */
  body?: object;
  /** Sent unchanged. */
  text?: string;
  /** Sends nothing. */
  silent?: true;
}

/** Replies of one server, by request; undefined: the usual one. */
export type ScriptedReplies = (request: ScriptedRequest) => ScriptedReply | undefined;

export interface ScriptedMcpServer {
  readonly origin: string;
  /** Requests by server and method, as `/path method`, and calls, as `/path tool`. */
  readonly seen: ReadonlyMap<string, number>;
  /** Ends all sessions. */
  forget(): void;
  stop(): Promise<void>;
}

/** Session of a local server (`stdio-bridge.mjs`): it lasts as long as the process. */
const LOCAL = 'local';
const JSON_TYPE = 'application/json';

/**
 * Starts servers on a free loopback port.
 * @param tools of each path, with the answers to their calls. An `initialize` with `_meta` is refused, as the project's example server does
 * @param replies of each path that answers other requests unusually, too
 * @param lost replies by path to requests of unknown sessions; default: 404
 */
export async function startScriptedMcpServer(
  tools: Readonly<Record<string, Readonly<Record<string, ScriptedAnswer>>>>,
  replies: Readonly<Record<string, ScriptedReplies>> = {},
  lost: Readonly<Record<string, ScriptedReply>> = {},
): Promise<ScriptedMcpServer> {
  const seen = new Map<string, number>();
  let generation = 1;
  const answer = (path: string, session: string | undefined, response: ServerResponse, body: ScriptedRequest): void => {
    const { id, method, params = {} } = body;
    const count = (what: string) => seen.set(`${path} ${what}`, (seen.get(`${path} ${what}`) ?? 0) + 1);
    count(method);
    const opens = method === 'server/discover' || method === 'initialize';
    const isLost = !opens && session !== LOCAL && session !== `session-${generation}`;
    const say = (more: object, status = 200, type = JSON_TYPE, text?: string) => {
      const json = text ?? JSON.stringify({ jsonrpc: '2.0', id, ...more });
      const isStream = type === 'text/event-stream';
      response.writeHead(status, { 'content-type': type, 'mcp-session-id': `session-${generation}` });
      response.end(isStream ? `event: message\ndata: ${json}\n\n` : json);
    };
    const reply = isLost ? lost[path] : replies[path]?.(body);
    if (reply && !isLost && method === 'tools/call') count(String(params.name));
    if (reply?.silent) return;
    if (reply) return say(reply.body ?? {}, reply.status, reply.type, reply.text);
    if (method === 'server/discover') return say({ error: { code: -32_601, message: 'Method not found' } });
    if (method === 'initialize') {
      if (params._meta !== undefined)
        return say({ error: { code: -32_020, message: 'Missing MCP-Protocol-Version header' } }, 400);
      const serverInfo = { name: 'scripted', version: '1' };
      return say({ result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo } });
    }
    if (isLost) return void response.writeHead(404).end();
    if (id === undefined) return void response.writeHead(202).end();
    if (method === 'tools/list') {
      const listed = Object.entries(tools[path] ?? {}).map(([name, { annotations }]) => ({
        name,
        description: 'Is scripted.',
        inputSchema: { type: 'object' },
        annotations,
      }));
      return say({ result: { tools: listed } });
    }
    count(String(params.name));
    const scripted = tools[path]?.[String(params.name)];
    return scripted && say(scripted.body, scripted.status, scripted.type);
  };
  const server = createServer((request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const session = request.headers['mcp-session-id'];
    return void readText(request).then((text) =>
      answer(String(request.url), String(session), response, JSON.parse(text) as ScriptedRequest),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    forget: () => void (generation += 1),
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export interface ScriptedRequest {
  id?: number | string;
  method: string;
  params?: { name?: string; _meta?: object };
}
