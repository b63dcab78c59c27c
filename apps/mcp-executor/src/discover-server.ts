import { isJsonObject, ToolError, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import type { DiscoverMessage, DiscoverReply, RemoteTool } from '@toolfleet/contracts/execution';
import type { McpBinding } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';
import { CallScope } from './call-scope.js';
import { judgeMcpError } from './mcp-error.js';
import { withinLimits, type McpSession } from './mcp-session.js';
import { readTarget, type McpTarget } from './mcp-target.js';
import type { SessionPool } from './session-pool.js';

/** Tools of one server; more are a mistake or an attack on our context window. */
const MAX_TOOLS = 5_000;
const TRANSPORTS: ReadonlySet<string> = new Set(['streamable-http', 'stdio', 'auto']);

/** The target a discovery asks about. @throws ToolError REQUEST_INVALID, AUTH_NOT_CONFIGURED */
export function discoveryTarget(message: DiscoverMessage): McpTarget {
  const { server, url, transport } = message;
  if (typeof server !== 'string' || server === '')
    throw new ToolError('REQUEST_INVALID', { message: 'server is missing' });
  const kind = transport ?? 'streamable-http';
  if (typeof kind !== 'string' || !TRANSPORTS.has(kind)) {
    throw new ToolError('REQUEST_INVALID', {
      message: `An MCP server with transport ${JSON.stringify(kind)} cannot be discovered`,
    });
  }
  if (kind !== 'stdio' && typeof url !== 'string')
    throw new ToolError('REQUEST_INVALID', { message: 'url is missing' });
  const options: JsonObject = isJsonObject(message['options']) ? { ...message, ...message['options'] } : message;
  const binding: McpBinding['transport'] = kind === 'stdio' ? 'stdio' : 'streamable-http';
  return readTarget(server, binding, typeof url === 'string' ? url : '', options);
}

/**
 * Every tool of a server, all pages, freshly asked.
 * @throws ToolError of the catalogue; AUTH_NOT_CONFIGURED with `state: auth_failed` when the credential is refused
 */
export async function discoverServer(
  target: McpTarget,
  pool: SessionPool,
  clock: Clock,
  limits: { timeoutMs: Milliseconds; signal?: AbortSignal },
): Promise<DiscoverReply> {
  for (let renewed = false; ; renewed = true) {
    let used: McpSession | undefined;
    const scope = new CallScope(true);
    try {
      return await withinLimits(
        scope,
        { idleMs: limits.timeoutMs, totalMs: limits.timeoutMs, ...(limits.signal ? { signal: limits.signal } : {}) },
        clock,
        () =>
          pool.use(target, (session) => {
            used = session;
            return listAll(session, target.server, scope.signal, limits.timeoutMs);
          }),
      );
    } catch (error) {
      const fault = judgeMcpError(error, target.server);
      if (fault.reconnect) pool.retire(target, used, true);
      if (!fault.reconnect || renewed) throw fault.error;
    }
  }
}

async function listAll(
  session: McpSession,
  server: string,
  signal: AbortSignal,
  timeoutMs: Milliseconds,
): Promise<DiscoverReply> {
  const listed = await session.client.listTools(undefined, {
    cacheMode: 'refresh',
    signal,
    timeout: timeoutMs + 5_000,
  });
  if (listed.tools.length > MAX_TOOLS) {
    throw new ToolError('RESULT_TOO_LARGE', {
      message: `The MCP server ${server} lists ${listed.tools.length} tools (max ${MAX_TOOLS})`,
    });
  }
  const ttl = (listed as { ttlMs?: unknown }).ttlMs;
  return {
    server,
    protocol_version: session.client.getNegotiatedProtocolVersion() ?? 'unknown',
    prior: session.prior,
    ttl_ms: typeof ttl === 'number' && ttl > 0 ? ttl : 0,
    tools: listed.tools.map((tool) => remoteTool(tool as unknown as JsonObject)),
  };
}

/** Only what a definition is made of; `_meta` and icons are not shown to models. */
function remoteTool(tool: JsonObject): RemoteTool {
  const { name, title, description, inputSchema, outputSchema, annotations } = tool;
  return {
    name: String(name),
    description: typeof description === 'string' ? description : '',
    input_schema: isJsonObject(inputSchema) ? inputSchema : { type: 'object' },
    ...(typeof title === 'string' ? { title } : {}),
    ...(isJsonObject(outputSchema) ? { output_schema: outputSchema } : {}),
    ...(isJsonObject(annotations) ? { annotations } : {}),
  };
}
