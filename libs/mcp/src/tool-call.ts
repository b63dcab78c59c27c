import {
  ProtocolError,
  ProtocolErrorCode,
  type CallToolResult,
  type ServerContext,
} from '@modelcontextprotocol/server';
import {
  isJsonObject,
  isToolError,
  toToolError,
  type CallCaller,
  type CallProgress,
  type CallRequest,
  type JsonObject,
  type Principal,
  type ResultReading,
} from '@toolfleet/contracts';
import { callRequest, readCallFields, type CallFieldsOn } from '@toolfleet/contracts/call-fields';
import { question } from '@toolfleet/contracts/text';
import { newCallId } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import { readParked } from '@toolfleet/results';
import { readRequiredApproval } from './approval.js';
import type { ClientFeatures } from './client-features.js';
import { readRequiredAccount } from './connect-account.js';
import { runAsking, toAsking, type AskedClient } from './input-request.js';
import type { McpServerDeps } from './server-deps.js';
import type { RenderedCatalog } from './rendered-catalog.js';
import { renderRefusal, renderResult } from './render-result.js';
import type { Exchange } from './session.js';
import { createTaskResult, startTask, supportsTask } from './tasks.js';

/** Maximum silence towards a client that asked for progress, while its call waits or runs. */
const HEARTBEAT_MS = 10_000;

/** A tool and its arguments, as the client sent them. */
export interface NamedCall {
  name: string;
  arguments: JsonObject;
}

/** Context of the handler of one `tools/call`. */
interface ToolCallContext extends AskedClient {
  principal: Principal;
  exchange: Exchange | undefined;
  /** Tools that may become tasks; undefined behind the search surface, where none may. */
  catalog: RenderedCatalog | undefined;
  resultReading: ResultReading;
  features: ClientFeatures;
}

/**
 * Runs a `tools/call` with everything the protocol offers: progress, tasks, approval by a person where the policy asks for it, and
 * input of a person where the server of the tool asks for it.
 * @throws ProtocolError -32602 for an unknown tool or invalid fields in `_meta`
 */
export async function callTool(
  toolCall: ToolCallContext,
  call: NamedCall,
  context: ServerContext,
): Promise<CallToolResult> {
  const { deps, principal, exchange, features, isModern, resultReading } = toolCall;
  const progress = notifyProgress(context, deps.clock);
  const { signal } = context.mcpReq;
  const meta = toMeta(context.mcpReq._meta);
  const takesTasks = toolCall.catalog?.tools.has(call.name);
  const buildRequest = (): CallRequest => ({
    ...toCallRequest({ ...call, meta, principal, exchange, signal, resultReading }, deps),
    ...toAsking(deps, features, isModern, takesTasks),
    onProgress: progress?.report,
  });
  try {
    return await runAsking(toolCall, context, {
      binding: { principal, tool: call.name, arguments: call.arguments },
      begun: exchange?.begun ?? { request: buildRequest() },
      build: buildRequest,
      run: (request) => runOrStartTask(toolCall, request, context),
      follow: (request) => startTask(deps.tasks!, request),
      refuse: (request, error) => toRefusal(deps, request, error),
    });
  } finally {
    progress?.stop();
  }
}

/**
 * Runs a call without progress or tasks: one request, one response.
 * @returns undefined when `callTool` has to run the call, or to go on with it (`Exchange.begun`), because a person is asked
 * @throws ProtocolError -32602 for an unknown tool or invalid fields in `_meta`
 */
export async function callPlainTool(
  deps: McpServerDeps,
  call: McpCall,
  features: ClientFeatures,
  isModern: boolean,
): Promise<CallToolResult | undefined> {
  const request = { ...toCallRequest(call, deps), ...toAsking(deps, features, isModern, true) };
  try {
    return renderResult(request.callId, await deps.executeCall(request));
  } catch (error) {
    if (request.approval.asks && readRequiredApproval(error)) return undefined;
    const task = await waitingTask(deps, request, error);
    if (task) return task;
    const asks =
      (isToolError(error) && error.code === 'INPUT_REQUIRED') || readRequiredAccount(error, request) !== undefined;
    if (!call.exchange || !asks) return toRefusal(deps, request, error);
    call.exchange.begun = { request, refusal: error };
    return undefined;
  }
}

/** `_meta` of a request as plain JSON; anything that is not an object counts as empty. */
function toMeta(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** A call and its client. */
interface ClientCall extends NamedCall {
  principal: Principal;
  exchange: Exchange | undefined;
  signal: AbortSignal;
  resultReading?: ResultReading;
}

interface McpCall extends ClientCall {
  /** `_meta` of the request: the fields that HTTP takes in its body. */
  meta: JsonObject;
}

/** @throws ProtocolError -32602 as `readMetaFields` */
function toCallRequest({ meta, ...call }: McpCall, deps: McpServerDeps): CallRequest {
  return clientCallRequest(call, readMetaFields(meta), deps, deps.options.inlineBytes);
}

/** The request of a call that came over MCP, with the call fields of its `_meta`. */
export function clientCallRequest(
  { name, arguments: args, principal, exchange, signal, resultReading }: ClientCall,
  fields: CallFieldsOn<'mcp'>,
  { clock, options }: McpServerDeps,
  inlineBytes?: number,
): CallRequest {
  const caller: CallCaller = {
    principal,
    origin: 'public',
    entryPoint: 'mcp',
    context: { user_id: principal.userId, session_id: fields.session_id, ...exchange?.project },
    exchangeSession: exchange?.session,
    client: exchange?.client,
    signal,
    resultReading,
  };
  const bounds = { beginsAt: clock.now() - (exchange?.waitedMs ?? 0), maxMs: options.maxCallMs, inlineBytes };
  return callRequest({ id: newCallId(clock.now()), tool: name, arguments: args, fields }, caller, bounds);
}

/** @throws ProtocolError -32602: a call must not run without the protection (such as an idempotency key) it asked for */
export function readMetaFields(meta: JsonObject): CallFieldsOn<'mcp'> {
  try {
    return readCallFields(meta, 'mcp');
  } catch (error) {
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `_meta: ${toToolError(error).message}`);
  }
}

/** @throws ToolError when the call is refused before its tool ran */
async function runOrStartTask(
  { deps, catalog, server }: ToolCallContext,
  request: CallRequest,
  context: ServerContext,
): Promise<CallToolResult> {
  const tool = catalog?.tools.get(request.target.toolName);
  if (tool && deps.tasks && supportsTask(context, tool)) {
    return startTask(deps.tasks, request);
  }
  try {
    const result = renderResult(request.callId, await deps.executeCall(request));
    return server.server.projectCallToolResult(result, undefined);
  } catch (error) {
    const waiting = await waitingTask(deps, request, error);
    if (waiting) return waiting;
    throw error;
  }
}

/** The task of a call that was parked for an approval; undefined when it was refused, or its client does not take tasks. */
async function waitingTask(
  { tasks }: McpServerDeps,
  { approval, principal, resultReading }: CallRequest,
  error: unknown,
): Promise<CallToolResult | undefined> {
  const parked = approval?.parks ? readParked(error) : undefined;
  const task = parked && (await tasks?.get(principal, parked.callId, resultReading));
  return task && createTaskResult(task, tasks!);
}

/** A refusal as a result. @throws ProtocolError -32602 for an unknown tool; protocol errors are thrown unchanged */
function toRefusal(deps: McpServerDeps, request: CallRequest, error: unknown): CallToolResult {
  if (error instanceof ProtocolError) throw error;
  if (isToolError(error) && error.code === 'TOOL_NOT_FOUND') {
    const meant = question(error.facts?.similar ?? []);
    throw new ProtocolError(
      ProtocolErrorCode.InvalidParams,
      `Unknown tool: ${request.target.toolName.slice(0, 200)}${meant}`,
    );
  }
  if (!isToolError(error)) deps.onFault(error);
  return renderRefusal(request.callId, request.target.toolName, toToolError(error));
}

/** Sends progress notifications for a call that asked for them: the tool's, and a heartbeat in between. */
export function notifyProgress(
  context: ServerContext,
  clock: Clock,
): { report(progress: CallProgress): void; stop(): void } | undefined {
  const progressToken = context.mcpReq._meta?.progressToken;
  if (progressToken === undefined) return undefined;
  let last = -1e-3;
  let cancel = (): void => undefined;
  const report = ({ progress, total, message }: CallProgress): void => {
    // The protocol requires each value to be larger than the one before.
    last = progress !== undefined && progress > last ? progress : last + 1e-3;
    const params = { progressToken, progress: last, total, message: message || undefined };
    context.mcpReq.notify({ method: 'notifications/progress', params }).catch(() => undefined);
    scheduleHeartbeat();
  };
  const scheduleHeartbeat = (): void => {
    cancel();
    cancel = clock.after(HEARTBEAT_MS, () => report({}));
  };
  scheduleHeartbeat();
  return { report, stop: () => cancel() };
}
