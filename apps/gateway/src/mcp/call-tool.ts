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
  type Approval,
  type CallRequest,
  type CallResult,
  type JsonObject,
  type Principal,
} from '@toolfleet/contracts';
import { inLinkedTrace } from '@toolfleet/telemetry';
import { agreedWith, inputRequiredFor, openQuestions } from './approval.js';
import { callRequest, metaOf } from './call-request.js';
import { progressTo } from './call-progress.js';
import type { GatewayMcpServer } from './mcp-server.js';
import { elicitApproval, takesForms } from './elicitation.js';
import type { DoorParts } from './handlers.js';
import { renderRefusal, renderResult } from './render-mcp.js';
import { clientTakesTasks, startTask } from './tasks.js';
import type { Audience } from './tool-catalog.js';

const CLIENT_CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';

/** A tool and its arguments, as the client sent them. */
export interface ToolToCall {
  name: string;
  arguments: JsonObject;
}

/** One `tools/call` as the SDK serves it. */
export interface DoorCall {
  parts: DoorParts;
  principal: Principal;
  /** Undefined behind the search surface, where tools have no tasks. */
  audience: Audience | undefined;
  server: GatewayMcpServer;
  era: 'modern' | 'legacy';
  /** A client of 2025 that can show forms. */
  elicits: boolean;
}

/** Runs a call with everything the protocol offers: progress, tasks, and asking a person where the policy wants one. */
export async function callTool(door: DoorCall, call: ToolToCall, context: ServerContext): Promise<CallToolResult> {
  const { parts, principal } = door;
  const { deps, options } = parts;
  const notes = progressTo(context, deps.clock);
  const requested = (approved?: Approval): CallRequest =>
    callRequest(
      {
        ...call,
        meta: metaOf(context.mcpReq._meta),
        principal,
        signal: context.mcpReq.signal,
        ...(notes ? { onProgress: notes.report } : {}),
        ...(approved ? { approved } : {}),
      },
      deps.clock.now(),
      options.maxCallMs,
    );
  const of = { principal, tool: call.name, arguments: call.arguments };
  let request = requested();
  try {
    const agreed = agreedWith(context, of, deps.requestState);
    if (agreed) request = { ...requested(agreed.approval), idempotencyKey: agreed.idempotencyKey };
    try {
      return await runOrStart(door, request, context);
    } catch (refusal) {
      const open = openQuestions(refusal);
      if (!open || !canAsk(door, context)) throw refusal;
      if (door.era === 'modern') return inputRequiredFor(open, of, deps.requestState);
      if (!deps.elicitation) throw refusal;
      await elicitApproval(open.questions, of, {
        server: door.server,
        context,
        relay: deps.elicitation,
        clock: deps.clock,
      });
      // The person took their time: a key that was revoked meanwhile starts nothing.
      const voided = await deps.refusalOf?.(principal);
      if (voided) throw voided;
      // A new call: the person's time does not count for it.
      request = requested(open);
      return await runOrStart(door, request, context);
    }
  } catch (error) {
    return refused(parts, request, error);
  } finally {
    notes?.stop();
  }
}

/**
 * A call without progress and tasks: one request, one answer.
 * @returns undefined when a person has to be asked and `canAskPerson` says that the client is able to
 */
export async function runTool(
  parts: DoorParts,
  principal: Principal,
  call: ToolToCall & { meta: JsonObject; signal: AbortSignal },
  canAskPerson: boolean,
): Promise<CallToolResult | undefined> {
  const { deps, options } = parts;
  const request = callRequest({ ...call, principal }, deps.clock.now(), options.maxCallMs);
  try {
    return renderResult(request.callId, await traced(request, call.meta, parts));
  } catch (error) {
    return canAskPerson && openQuestions(error) ? undefined : refused(parts, request, error);
  }
}

/**
 * Runs the call. When its client names a trace in `_meta`, it is done in one of its own that is linked to
 * that: sampling and length of a foreign trace must not be ours.
 */
function traced(request: CallRequest, meta: JsonObject, { deps }: DoorParts): Promise<CallResult> {
  if (typeof meta['traceparent'] !== 'string') return deps.executeCall(request);
  const carrier = { get: (name: string) => (typeof meta[name] === 'string' ? meta[name] : undefined) };
  return inLinkedTrace('mcp call', carrier, () => deps.executeCall(request));
}

/** Capabilities of a 2026 client, from the envelope of its request. */
export function capabilitiesIn(envelope: unknown): unknown {
  return isJsonObject(envelope) ? envelope[CLIENT_CAPABILITIES] : undefined;
}

function canAsk({ era, elicits }: DoorCall, context: ServerContext): boolean {
  return era === 'legacy' ? elicits : takesForms(capabilitiesIn(context.mcpReq.envelope));
}

/** @throws ToolError when the call is refused before its tool ran */
async function runOrStart(door: DoorCall, request: CallRequest, context: ServerContext): Promise<CallToolResult> {
  const { deps } = door.parts;
  const tool = door.audience?.tools.get(request.toolName);
  if (tool && deps.tasks && clientTakesTasks(context, tool)) {
    return (await startTask(deps.tasks, request)) as CallToolResult;
  }
  const result = renderResult(request.callId, await traced(request, metaOf(context.mcpReq._meta), door.parts));
  return door.server.server.projectCallToolResult(result, undefined);
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
