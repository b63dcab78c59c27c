import {
  ProtocolError,
  type CallToolResult,
  type McpRequestContext,
  type ServerContext,
} from '@modelcontextprotocol/server';
import type { JsonObject, Principal } from '@toolfleet/contracts';
import { callTool, type DoorCall, type ToolToCall } from './call-tool.js';
import type { ExtraTool } from './extras.js';
import { GatewayMcpServer } from './mcp-server.js';
import { sessionTakesForms } from './elicitation.js';
import type { McpEndpointDeps, McpDoorOptions } from './mcp-ports.js';
import { clientTakesTasks, installTasks, TASKS_EXTENSION } from './tasks.js';
import { inputSchemaOf, pageAt, type Audience, type ToolCatalogView } from './tool-catalog.js';
import { CALL_TOOL, innerCall, SEARCH_SURFACE, SEARCH_TOOLS, searchAnswer } from './tool-search-surface.js';

const INSTRUCTIONS =
  'Tools of a tool-execution fleet. A result with isError carries a code and a suggestion in _meta; pass idempotency_key in _meta to repeat a call safely.';
/** Catalogues above this size are shown as search when the surface is `auto`. */
const DEFAULT_SEARCH_ABOVE = 200;

/** Everything the handlers of one door share. */
export interface DoorParts {
  deps: McpEndpointDeps;
  options: McpDoorOptions;
  catalog: ToolCatalogView;
}

/** What one request may see. @throws whatever the catalog throws */
export async function audienceOf(
  parts: DoorParts,
  principal: Principal,
): Promise<{ audience: Audience; isSearch: boolean }> {
  const tools = await parts.deps.listTools(principal);
  const { surface = 'list', searchAbove = DEFAULT_SEARCH_ABOVE } = parts.options;
  const isSearch = surface === 'search' || (surface === 'auto' && tools.length > searchAbove);
  return { audience: parts.catalog.of(isSearch ? SEARCH_SURFACE : tools), isSearch };
}

/** A server for one request: its answers come from lists built before. */
export async function serverFor(
  parts: DoorParts,
  principal: Principal,
  request: McpRequestContext,
): Promise<GatewayMcpServer> {
  const { deps, options } = parts;
  const { audience, isSearch } = await audienceOf(parts, principal);
  const stores = [options.extras?.tasks, deps.tasks].filter((store) => store !== undefined);
  const hasTasks = stores.length > 0 && request.era === 'modern';
  const tasks = hasTasks ? { extensions: { [TASKS_EXTENSION]: {} } } : {};
  const capabilities = { tools: { listChanged: true }, ...options.extras?.capabilities, ...tasks };
  const server = new GatewayMcpServer(options.version, capabilities, INSTRUCTIONS, (name) =>
    inputSchemaOf(audience, name),
  );

  const door: DoorCall = {
    parts,
    principal,
    audience: isSearch ? undefined : audience,
    server,
    era: request.era,
    elicits: sessionTakesForms(request.requestInfo?.headers.get('mcp-session-id')),
  };

  server.server.setRequestHandler('tools/list', ({ params }) => {
    const { tools, nextCursor } = pageAt(audience, params?.cursor);
    return {
      tools,
      ...(nextCursor === undefined ? {} : { nextCursor }),
      ttlMs: options.listTtlMs,
      // Scopes differ between callers, so a shared cache must not answer one with the list of another.
      cacheScope: 'private' as const,
    };
  });

  server.server.setRequestHandler('tools/call', async ({ params }, context) => {
    const args = (params.arguments ?? {}) as JsonObject;
    const extra = options.extras?.tools.find(({ definition }) => definition.name === params.name);
    if (extra) return callExtra(extra, args, context);
    if (!isSearch) return callTool(door, { name: params.name, arguments: args }, context);
    if (params.name === SEARCH_TOOLS) {
      return searchAnswer(args, (query, limit) => deps.searchTools(principal, query, limit));
    }
    const inner = params.name === CALL_TOOL ? innerCall(args) : { name: params.name, arguments: args };
    return 'name' in inner ? callTool(door, inner as ToolToCall, context) : inner;
  });

  options.extras?.install(server, request.era);
  if (hasTasks) installTasks(server.server, stores, principal);
  return server;
}

/** A fixture that throws has failed as a tool; errors of the protocol are the client's to see. */
async function callExtra(extra: ExtraTool, args: JsonObject, context: ServerContext): Promise<CallToolResult> {
  const takesTask = clientTakesTasks(context, extra.definition);
  try {
    return (await extra.call(args, context, takesTask)) as CallToolResult;
  } catch (error) {
    if (error instanceof ProtocolError) throw error;
    const text = error instanceof Error ? error.message : String(error);
    return { content: [{ type: 'text', text }], isError: true };
  }
}
