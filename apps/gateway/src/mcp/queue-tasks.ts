import {
  type CallBody,
  type CallRequest,
  type Json,
  type JsonObject,
  type Principal,
  isToolError,
} from '@toolfleet/contracts';
import type { AsyncCalls, StoredCall } from '../async/async-calls.js';
import type { ToolCalls } from '../tool-calls.js';
import { TaskStore, type Task, type TaskStatus } from './task-store.js';

/** States of a call as states of a task. A tool error is a completed task; `failed` is for what broke outside the tool. */
const STATUS: Record<StoredCall['state'], TaskStatus> = {
  accepted: 'working',
  claimed: 'working',
  succeeded: 'completed',
  failed: 'completed',
  cancelled: 'cancelled',
  expired: 'failed',
  outcome_unknown: 'failed',
};
const INTERNAL_ERROR = -32_603;

/**
 * Tasks as asynchronous calls: the task id is the call id, which is the job id in `tool-calls`. So a task survives a restart of
 * the gateway, and any replica answers for it.
 */
export class QueueTasks extends TaskStore {
  override readonly ttlMs: number;

  constructor(
    private readonly calls: Pick<ToolCalls, 'accept'>,
    private readonly async: Pick<AsyncCalls, 'get' | 'cancel'>,
    /** `CALL_RESULT_TTL_SECONDS`. */
    retentionSeconds: number,
  ) {
    super();
    this.ttlMs = retentionSeconds * 1_000;
  }

  override async start(request: CallRequest): Promise<Task> {
    await this.calls.accept(request);
    return taskOf(await this.async.get(request.principal, request.callId));
  }

  override async get(principal: Principal, taskId: string): Promise<Task | undefined> {
    const call = await this.find(principal, taskId);
    return call && taskOf(call);
  }

  override async cancel(principal: Principal, taskId: string): Promise<boolean> {
    if (!(await this.find(principal, taskId))) return false;
    await this.async.cancel(principal, taskId);
    return true;
  }

  /** Calls of the fleet never wait for input once they run; an answer nobody asked for is acknowledged and dropped. */
  override async update(principal: Principal, taskId: string): Promise<boolean> {
    return (await this.find(principal, taskId)) !== undefined;
  }

  private async find(principal: Principal, taskId: string): Promise<StoredCall | undefined> {
    try {
      return await this.async.get(principal, taskId);
    } catch (error) {
      if (isToolError(error) && error.code === 'NOT_FOUND') return undefined;
      throw error;
    }
  }
}

function taskOf(call: StoredCall): Task {
  const status = STATUS[call.state];
  const at = (instant: number): string => new Date(instant).toISOString();
  return {
    taskId: call.callId,
    tool: call.tool,
    status,
    createdAt: at(call.acceptedAt),
    lastUpdatedAt: at(call.finishedAt ?? call.acceptedAt),
    ...(status === 'completed' && call.result ? { result: renderBody(call.result) } : {}),
    ...(status === 'failed'
      ? { error: { code: INTERNAL_ERROR, message: call.result?.error ?? `The call is ${call.state}` } }
      : {}),
  };
}

/** The stored body of a call as an MCP result; the same shape as that of a call that was waited for. */
function renderBody(body: CallBody): JsonObject {
  const { code, error_type, retryable, suggestion, details, retry_after_ms, provenance, ...metadata } = body.metadata;
  const isStructured = typeof body.output === 'object' && body.output !== null;
  const meta = body.success
    ? { provenance, metadata }
    : { code, error_type, retryable, suggestion, details, retry_after_ms };
  return {
    content: body.content?.length ? body.content : [{ type: 'text', text: textOf(body) }],
    ...(body.success && isStructured ? { structuredContent: body.output } : {}),
    isError: !body.success,
    _meta: { call_id: body.call_id, ...defined(meta) },
  };
}

function textOf({ success, text, output, error }: CallBody): string {
  if (!success) return text || (error ?? '');
  if (text !== '' || output === null) return text;
  return typeof output === 'string' ? output : JSON.stringify(output);
}

function defined(fields: Record<string, Json | undefined>): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as JsonObject;
}
