import {
  ProtocolError,
  ProtocolErrorCode,
  type CallToolResult,
  type McpRequestContext,
  type ServerContext,
} from '@modelcontextprotocol/server';
import {
  isToolError,
  toToolError,
  type CallProgress,
  type CallRequest,
  type JsonObject,
  type Principal,
} from '@toolfleet/contracts';
import { approvalStep } from './approval.js';
import { callRequest, metaOf } from './call-request.js';
import type { ExtraResult, ExtraTool } from './door-extras.js';
import { DoorServer } from './door-server.js';
import type { McpDoorDeps, McpDoorOptions } from './mcp-ports.js';
import { renderRefusal, renderResult } from './render-mcp.js';
import { clientTakesTasks, installTasks, startTask, TASKS_EXTENSION } from './tasks.js';
import { inputSchemaOf, pageAt, type Audience, type ToolCatalogView } from './tool-catalog.js';
import { CALL_TOOL, innerCall, SEARCH_SURFACE, SEARCH_TOOLS, searchAnswer } from './tool-search-surface.js';

const INSTRUCTIONS =
  'Tools of a tool-execution fleet. A result with isError carries a code and a suggestion in _meta; pass idempotency_key in _meta to repeat a call safely.';
/** A client that counts silence hears from us this often while its call waits or runs. */
const HEARTBEAT_MS = 10_000;
/** Catalogues above this size are shown as search when the surface is `auto`. */
const DEFAULT_SEARCH_ABOVE = 200;

/** Everything the handlers of one door share. */
export interface DoorParts {
  deps: McpDoorDeps;
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
): Promise<DoorServer> {
  const { deps, options } = parts;
  const { audience, isSearch } = await audienceOf(parts, principal);
  const stores = [options.extras?.tasks, deps.tasks].filter((store) => store !== undefined);
  const hasTasks = stores.length > 0 && request.era === 'modern';
  const tasks = hasTasks ? { extensions: { [TASKS_EXTENSION]: {} } } : {};
  const capabilities = { tools: { listChanged: true }, ...options.extras?.capabilities, ...tasks };
  const server = new DoorServer(options.version, capabilities, INSTRUCTIONS, (name) => inputSchemaOf(audience, name));

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
    if (!isSearch) return callTool(parts, principal, audience, server, { name: params.name, arguments: args }, context);
    if (params.name === SEARCH_TOOLS) {
      return searchAnswer(args, (query, limit) => deps.searchTools(principal, query, limit));
    }
    const inner = params.name === CALL_TOOL ? innerCall(args) : { name: params.name, arguments: args };
    return 'name' in inner
      ? callTool(parts, principal, undefined, server, inner as { name: string; arguments: JsonObject }, context)
      : inner;
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

async function callTool(
  parts: DoorParts,
  principal: Principal,
  audience: Audience | undefined,
  server: DoorServer,
  call: { name: string; arguments: JsonObject },
  context: ServerContext,
): Promise<CallToolResult> {
  const { deps, options } = parts;
  const tool = audience?.tools.get(call.name);
  const heartbeat = progressTo(context, deps);
  const request = callRequest(
    {
      ...call,
      meta: metaOf(context.mcpReq._meta),
      principal,
      signal: context.mcpReq.signal,
      ...(heartbeat ? { onProgress: heartbeat.report } : {}),
    },
    deps.clock.now(),
    options.maxCallMs,
  );
  try {
    if (tool && deps.approvalFor) {
      const question = await deps.approvalFor(principal, tool, call.arguments);
      const asked =
        question &&
        approvalStep(question, { principal, tool: tool.name, arguments: call.arguments }, context, deps.requestState);
      if (asked) return asked as unknown as CallToolResult;
    }
    if (tool && deps.tasks && clientTakesTasks(context, tool)) {
      return (await startTask(deps.tasks, request)) as ExtraResult as CallToolResult;
    }
    const result = await execute(parts, request);
    return server.server.projectCallToolResult(result, undefined);
  } catch (error) {
    return refused(parts, request, error);
  } finally {
    heartbeat?.stop();
  }
}

/** A call without progress, tasks or approval: one request, one answer. */
export function runTool(
  parts: DoorParts,
  principal: Principal,
  call: { name: string; arguments: JsonObject },
  meta: JsonObject,
  signal: AbortSignal,
): Promise<CallToolResult> {
  const request = callRequest({ ...call, meta, principal, signal }, parts.deps.clock.now(), parts.options.maxCallMs);
  return execute(parts, request);
}

async function execute(parts: DoorParts, request: CallRequest): Promise<CallToolResult> {
  try {
    return renderResult(request.callId, await parts.deps.executeCall(request));
  } catch (error) {
    return refused(parts, request, error);
  }
}

/** A refusal as a result. @throws ProtocolError for unknown tools (-32602) and for what is a protocol error already */
function refused({ deps }: DoorParts, request: CallRequest, error: unknown): CallToolResult {
  if (error instanceof ProtocolError) throw error;
  if (isToolError(error) && error.code === 'TOOL_NOT_FOUND') {
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${request.toolName.slice(0, 200)}`);
  }
  if (!isToolError(error)) deps.onFault?.(error);
  return renderRefusal(request.callId, toToolError(error));
}

/** Progress notifications of a call that asked for them: those of the tool, and a sign of life in between. */
function progressTo(
  context: ServerContext,
  deps: McpDoorDeps,
): { report: (progress: CallProgress) => void; stop: () => void } | undefined {
  const progressToken = context.mcpReq._meta?.progressToken;
  if (progressToken === undefined) return undefined;
  let last = 0;
  let cancel = (): void => undefined;
  const report = ({ progress, total, message }: CallProgress): void => {
    // The protocol wants every value larger than the one before.
    last = progress !== undefined && progress > last ? progress : last + 1e-3;
    const params = {
      progressToken,
      progress: last,
      ...(total === undefined ? {} : { total }),
      ...(message ? { message } : {}),
    };
    context.mcpReq.notify({ method: 'notifications/progress', params }).catch(() => undefined);
    beat();
  };
  const beat = (): void => {
    cancel();
    cancel = deps.clock.after(HEARTBEAT_MS, () => report({}));
  };
  beat();
  return { report, stop: () => cancel() };
}
