import {
  ProtocolError,
  ProtocolErrorCode,
  type CallToolResult,
  type McpServer,
  type ServerContext,
} from '@modelcontextprotocol/server';
import {
  isJsonObject,
  isToolError,
  toToolError,
  type Approval,
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
import { elicitApproval, readApproval, readRequiredApproval, requestApproval } from './approval.js';
import type { ClientFeatures } from './client-features.js';
import type { McpServerDeps } from './mcp-deps.js';
import type { RenderedCatalog } from './rendered-catalog.js';
import { renderRefusal, renderResult } from './render-result.js';
import type { Exchange } from './session.js';
import { startTask, supportsTask } from './tasks.js';

/** Longest silence towards a client that asked for progress, while its call waits or runs. */
const HEARTBEAT_MS = 10_000;

/** A tool and its arguments, as the client sent them. */
export interface NamedCall {
  name: string;
  arguments: JsonObject;
}

/** What the handler of one `tools/call` knows besides the call. */
interface ToolCallContext {
  deps: McpServerDeps;
  principal: Principal;
  exchange: Exchange | undefined;
  server: McpServer;
  /** Tools that may become tasks; undefined behind the search surface, where none may. */
  catalog: RenderedCatalog | undefined;
  resultReading: ResultReading;
  /** Protocol revision 2026-07-28 or later. */
  isModern: boolean;
  features: ClientFeatures;
}

/**
 * Runs a `tools/call` with everything the protocol offers: progress, tasks, and approval by a person where the policy asks for
 * it. A 2026 client is asked by an `input_required` result and repeats the call; a 2025 client is asked while the call waits.
 * @throws ProtocolError -32602 for an unknown tool or invalid fields in `_meta`
 */
export async function callTool(
  toolCall: ToolCallContext,
  call: NamedCall,
  context: ServerContext,
): Promise<CallToolResult> {
  const { deps, principal, exchange, resultReading } = toolCall;
  const progress = notifyProgress(context, deps.clock);
  const { signal } = context.mcpReq;
  const meta = toMeta(context.mcpReq._meta);
  const { forms } = toolCall.features;
  const relay = forms ? deps.elicitation : undefined;
  const canAsk = toolCall.isModern ? forms : relay !== undefined;
  const buildRequest = (approved?: Approval): CallRequest => ({
    ...toCallRequest({ ...call, meta, principal, exchange, signal, resultReading }, deps),
    onProgress: progress?.report,
    approval: { asks: canAsk, given: approved },
  });
  const binding = { principal, tool: call.name, arguments: call.arguments };
  let request = buildRequest();
  // The engine ends a call that was not approved, so that it is recorded like every other refusal.
  const orRefuse = async <T>(decision: () => T | Promise<T>): Promise<T> => {
    try {
      return await decision();
    } catch (error) {
      await runOrStartTask(
        toolCall,
        { ...request, approval: undefined, mode: { kind: 'refused', reason: toToolError(error) } },
        context,
      );
      throw error;
    }
  };
  try {
    const approved = await orRefuse(() => readApproval(context, binding, deps.requestState));
    if (approved) request = { ...buildRequest(approved.approval), idempotencyKey: approved.idempotencyKey };
    try {
      return await runOrStartTask(toolCall, request, context);
    } catch (refusal) {
      const required = canAsk ? readRequiredApproval(refusal) : undefined;
      if (!required) throw refusal;
      if (toolCall.isModern || !relay) return requestApproval(required, binding, deps.requestState);
      await orRefuse(async () => {
        await elicitApproval(required.questions, binding, {
          server: toolCall.server,
          context,
          relay,
          clock: deps.clock,
        });
        // The person may have taken minutes: a key revoked in the meantime must not start the call.
        const voided = await deps.refusalOf?.(principal);
        if (voided) throw voided;
      });
      // The deadline does not include the time the person took.
      request = { ...buildRequest(required), callId: request.callId, approval: { asks: false, given: required } };
      return await runOrStartTask(toolCall, request, context);
    }
  } catch (error) {
    return toRefusal(deps, request, error);
  } finally {
    progress?.stop();
  }
}

/**
 * Runs a call without progress or tasks: one request, one response.
 * @param canElicit the client can show forms: a call that needs approval is then left to `callTool`
 * @returns undefined when `callTool` has to run the call
 * @throws ProtocolError -32602 for an unknown tool or invalid fields in `_meta`
 */
export async function callPlainTool(
  deps: McpServerDeps,
  call: McpCall,
  canElicit: boolean,
): Promise<CallToolResult | undefined> {
  const request = { ...toCallRequest(call, deps), approval: { asks: canElicit } };
  try {
    return renderResult(request.callId, await deps.executeCall(request));
  } catch (error) {
    return canElicit && readRequiredApproval(error) ? undefined : toRefusal(deps, request, error);
  }
}

/** `_meta` of a request as plain JSON; anything that is not an object counts as empty. */
function toMeta(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

interface McpCall extends NamedCall {
  /** `_meta` of the request: the fields that HTTP takes in its body. */
  meta: JsonObject;
  principal: Principal;
  exchange: Exchange | undefined;
  signal: AbortSignal;
  resultReading: ResultReading;
}

function toCallRequest(
  { name, arguments: args, meta, principal, exchange, signal, resultReading }: McpCall,
  deps: McpServerDeps,
): CallRequest {
  const { maxCallMs } = deps.options;
  const fields = readMetaFields(meta);
  const caller = {
    principal,
    origin: 'public',
    door: 'mcp',
    context: { user_id: principal.userId, session_id: fields.session_id, ...exchange?.project },
    exchangeSession: exchange?.session,
    signal,
  } as const;
  const time = { beginsAt: deps.clock.now() - (exchange?.waitedMs ?? 0), maxMs: maxCallMs };
  const request = callRequest({ id: newCallId(deps.clock.now()), tool: name, arguments: args, fields }, caller, time);
  return { ...request, inlineBytes: request.inlineBytes ?? deps.options.inlineBytes, resultReading };
}

/** @throws ProtocolError -32602: a call must not run without the protection (such as an idempotency key) it asked for */
function readMetaFields(meta: JsonObject): CallFieldsOn<'mcp'> {
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
  const tool = catalog?.tools.get(request.toolName);
  if (tool && deps.tasks && supportsTask(context, tool)) {
    return (await startTask(deps.tasks, request)) as CallToolResult;
  }
  const result = renderResult(request.callId, await deps.executeCall(request));
  return server.server.projectCallToolResult(result, undefined);
}

/** A refusal as a result. @throws ProtocolError -32602 for an unknown tool; protocol errors are thrown unchanged */
function toRefusal(deps: McpServerDeps, request: CallRequest, error: unknown): CallToolResult {
  if (error instanceof ProtocolError) throw error;
  if (isToolError(error) && error.code === 'TOOL_NOT_FOUND') {
    const meant = question(error.facts?.similar ?? []);
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${request.toolName.slice(0, 200)}${meant}`);
  }
  if (!isToolError(error)) deps.onFault?.(error);
  return renderRefusal(request.callId, request.toolName, toToolError(error));
}

/** Sends progress notifications for a call that asked for them: those of the tool, and a heartbeat in between. */
function notifyProgress(
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
