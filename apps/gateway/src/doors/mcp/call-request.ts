import { randomUUID } from 'node:crypto';
import {
  isJsonObject,
  type Approval,
  type CallContext,
  type CallProgress,
  type CallRequest,
  type JsonObject,
  type Principal,
} from '@toolfleet/contracts';

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

/** Bounds of text fields in `_meta`. */
const MAX_FIELD = 255;

/**
 * A call request of a `tools/call`. The fields HTTP takes in its body come in `_meta`; ids are ours, and
 * only session and user id of a caller reach a tool.
 */
export function callRequest(call: McpCall, nowMs: number, maxCallMs: number): CallRequest {
  const { meta, principal } = call;
  const timeoutMs = positive(meta['timeout_ms']);
  const context: CallContext = { user_id: principal.userId };
  const sessionId = field(meta, 'session_id');
  if (sessionId !== undefined) context.session_id = sessionId;
  const [requestId, agentId, taskId, key] = ['request_id', 'agent_id', 'task_id', 'idempotency_key'].map((name) =>
    field(meta, name),
  );
  return {
    callId: randomUUID(),
    toolName: call.name,
    rawArguments: call.arguments,
    principal,
    origin: 'public',
    door: 'mcp',
    context,
    deadlineAt: nowMs + Math.min(timeoutMs ?? maxCallMs, maxCallMs),
    signal: call.signal,
    ...(requestId === undefined ? {} : { requestId }),
    ...(agentId === undefined ? {} : { agentId }),
    ...(taskId === undefined ? {} : { taskId }),
    ...(key === undefined ? {} : { idempotencyKey: key }),
    ...(timeoutMs === undefined ? {} : { timeoutMs: Math.min(timeoutMs, maxCallMs) }),
    ...(call.onProgress ? { onProgress: call.onProgress } : {}),
    ...(call.approved ? { approved: call.approved } : {}),
  };
}

/** `_meta` of a request as plain JSON; anything else counts as empty. */
export function metaOf(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

function field(meta: JsonObject, name: string): string | undefined {
  const value = meta[name];
  return typeof value === 'string' && value !== '' && value.length <= MAX_FIELD ? value : undefined;
}

function positive(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : undefined;
}
