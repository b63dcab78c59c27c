import {
  McpServer,
  type CallToolResult,
  type McpRequestContext,
  type ServerCapabilities,
} from '@modelcontextprotocol/server';
import type { JsonObject, Principal } from '@toolfleet/contracts';
import type { McpServerDeps } from './mcp-deps.js';
import { readPage, type RenderedCatalog } from './rendered-catalog.js';
import { CALL_TOOL, readInnerCall, SEARCH_SURFACE, SEARCH_TOOLS, searchTools } from './search-surface.js';
import { readExchange } from './request-access.js';
import { sessionSupportsForms } from './session.js';
import { installTasks, TASKS_EXTENSION } from './tasks.js';
import { callTool, type NamedCall } from './tool-call.js';

const INSTRUCTIONS =
  'Tools of a tool-execution fleet. A result with isError carries a code and a suggestion in _meta; pass idempotency_key in _meta to repeat a call safely.';
/** Catalogs above this size are shown as search when the surface is `auto`. */
const DEFAULT_SEARCH_ABOVE = 200;

/**
 * The SDK's server over the gateway's own tool list. It extends `McpServer` instead of the low-level `Server`, because only
 * there the SDK checks `Mcp-Param-*` headers against the schema; the SDK's own tool registry is not used.
 */
export class GatewayMcpServer extends McpServer {
  constructor(
    version: string,
    capabilities: ServerCapabilities,
    private readonly catalog: RenderedCatalog,
  ) {
    const options = { capabilities, instructions: INSTRUCTIONS, inputRequired: { legacyShim: true } };
    super({ name: 'toolfleet', version }, options);
  }

  override toolInputSchemaJson(name: string): Record<string, unknown> | undefined {
    return this.catalog.tools.get(name)?.input_schema;
  }
}

/** What one caller may see, and whether it is shown as search. @throws whatever the catalog throws */
export async function findVisibleTools(
  deps: McpServerDeps,
  principal: Principal,
): Promise<{ catalog: RenderedCatalog; isSearch: boolean }> {
  const tools = await deps.listTools(principal);
  const { surface = 'list', searchAbove = DEFAULT_SEARCH_ABOVE } = deps.options;
  const isSearch = surface === 'search' || (surface === 'auto' && tools.length > searchAbove);
  return { catalog: deps.renderer.render(isSearch ? SEARCH_SURFACE : tools), isSearch };
}

/** A server for one request. Its lists were rendered before, so it is cheap to build. */
export async function createMcpServer(
  deps: McpServerDeps,
  principal: Principal,
  request: McpRequestContext,
): Promise<GatewayMcpServer> {
  const { catalog, isSearch } = await findVisibleTools(deps, principal);
  const isModern = request.era === 'modern';
  const tasks = isModern ? deps.tasks : undefined;
  const server = new GatewayMcpServer(
    deps.options.version,
    // Clients of 2025 have no stream that could report a change: a GET is answered with 405.
    { tools: { listChanged: isModern }, extensions: tasks ? { [TASKS_EXTENSION]: {} } : undefined },
    catalog,
  );

  server.server.setRequestHandler('tools/list', ({ params }) => {
    const { tools, nextCursor } = readPage(catalog, params?.cursor);
    // Callers see different tools, so a shared cache must not serve one caller the list of another.
    return { tools, nextCursor, ttlMs: deps.options.listTtlMs, cacheScope: 'private' as const };
  });

  const toolCall = {
    deps,
    principal,
    exchange: readExchange(request.authInfo),
    server,
    catalog: isSearch ? undefined : catalog,
    isModern,
    canElicit: sessionSupportsForms(request.requestInfo?.headers.get('mcp-session-id')),
  };
  server.server.setRequestHandler('tools/call', async ({ params }, context) => {
    const call = { name: params.name, arguments: (params.arguments ?? {}) as JsonObject };
    if (!isSearch) return callTool(toolCall, call, context);
    if (call.name === SEARCH_TOOLS) {
      const search = (query: string, limit: number) => deps.searchTools(principal, query, limit);
      return searchTools(call.arguments, search, deps.renderer.style);
    }
    const inner = call.name === CALL_TOOL ? readInnerCall(call.arguments) : call;
    return 'content' in inner ? (inner as CallToolResult) : callTool(toolCall, inner as NamedCall, context);
  });

  if (tasks) installTasks(server.server, tasks, principal);
  return server;
}
