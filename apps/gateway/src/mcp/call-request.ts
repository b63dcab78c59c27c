import { randomUUID } from 'node:crypto';
import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server';
import {
  isJsonObject,
  toToolError,
  type Approval,
  type CallProgress,
  type CallRequest,
  type JsonObject,
  type Principal,
} from '@toolfleet/contracts';
import { readCallFields, requestFields, type CallFieldsOn } from '@toolfleet/contracts/call-fields';

/** What of a `tools/call` becomes a call. */
export interface McpCall {
  name: string;
  arguments: JsonObject;
  meta: JsonObject;
  principal: Principal;
  signal: AbortSignal;
  onProgress?: (progress: CallProgress) => void;
  /** What a person agreed to. */
  approved?: Approval;
}

/**
 * A call request of a `tools/call`. The fields that HTTP takes in its body come in `_meta`.
 * @throws ProtocolError invalid params (-32602) when one of them is wrong: a call must not run without the protection it asked for
 */
export function callRequest(call: McpCall, nowMs: number, maxCallMs: number): CallRequest {
  const { principal } = call;
  const fields = metaFields(call.meta);
  return {
    callId: randomUUID(),
    toolName: call.name,
    rawArguments: call.arguments,
    principal,
    origin: 'public',
    door: 'mcp',
    context: { user_id: principal.userId, session_id: fields.session_id },
    deadlineAt: nowMs + Math.min(fields.timeout_ms ?? maxCallMs, maxCallMs),
    signal: call.signal,
    ...requestFields(fields),
    onProgress: call.onProgress,
    approved: call.approved,
  };
}

function metaFields(meta: JsonObject): CallFieldsOn<'mcp'> {
  try {
    return readCallFields(meta, 'mcp');
  } catch (error) {
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `_meta: ${toToolError(error).message}`);
  }
}

/** `_meta` of a request as plain JSON; anything else counts as empty. */
export function metaOf(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}
