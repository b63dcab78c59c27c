import {
  isToolError,
  type CallRequest,
  type JsonObject,
  type Principal,
  type ResultReading,
} from '@toolfleet/contracts';
import { oversizeDocument, withHandle } from '@toolfleet/engine';
import type { AsyncCalls, StoredCall } from '@toolfleet/results';
import type { ToolCalls } from '../calls/tool-calls.js';
import { renderStoredResult } from './render-result.js';
import type { Task, TaskStatus, TaskStore } from './tasks.js';

/** Call states as task states. A tool error is a completed task; `failed` means that something else went wrong. */
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
 * Tasks as asynchronous calls. The task id is the call id, which is the job id in the `tool-calls` queue, so a task survives a
 * restart of the gateway, and any replica can answer for it.
 */
export class QueueTasks implements TaskStore {
  readonly ttlMs: number;

  /**
   * @param retentionSeconds `CALL_RESULT_TTL_SECONDS`
   * @param inlineBytes largest result that is shown whole; for a larger one the task shows a summary, and its id is the handle
   */
  constructor(
    private readonly calls: Pick<ToolCalls, 'accept'>,
    private readonly asyncCalls: Pick<AsyncCalls, 'get' | 'cancel'>,
    retentionSeconds: number,
    private readonly inlineBytes = Number.POSITIVE_INFINITY,
  ) {
    this.ttlMs = retentionSeconds * 1_000;
  }

  async start(request: CallRequest): Promise<Task> {
    await this.calls.accept(request);
    return this.toTask(await this.asyncCalls.get(request.principal, request.callId), request.resultReading);
  }

  async get(principal: Principal, taskId: string, reading?: ResultReading): Promise<Task | undefined> {
    const call = await this.find(principal, taskId);
    return call && this.toTask(call, reading);
  }

  async cancel(principal: Principal, taskId: string): Promise<boolean> {
    if (!(await this.find(principal, taskId))) return false;
    await this.asyncCalls.cancel(principal, taskId);
    return true;
  }

  /** A running call never asks for input, so responses are acknowledged and dropped. */
  async update(principal: Principal, taskId: string): Promise<boolean> {
    return (await this.find(principal, taskId)) !== undefined;
  }

  private toTask(call: StoredCall, reading?: ResultReading): Task {
    const { callId, tool, result, finishedAt = 0 } = call;
    const document = result?.success ? oversizeDocument(result, this.inlineBytes) : undefined;
    if (result === undefined || document === undefined) return toTask(call);
    const kept = { handle: callId, expiresAt: finishedAt + this.ttlMs };
    return toTask({ ...call, result: withHandle(tool, result, document, kept, reading) });
  }

  private async find(principal: Principal, taskId: string): Promise<StoredCall | undefined> {
    try {
      return await this.asyncCalls.get(principal, taskId);
    } catch (error) {
      if (isToolError(error) && error.code === 'NOT_FOUND') return undefined;
      throw error;
    }
  }
}

function toTask({ callId, tool, state, acceptedAt, finishedAt, result }: StoredCall): Task {
  const status = STATUS[state];
  return {
    taskId: callId,
    tool,
    status,
    createdAt: new Date(acceptedAt).toISOString(),
    lastUpdatedAt: new Date(finishedAt ?? acceptedAt).toISOString(),
    result: status === 'completed' && result ? (renderStoredResult(result) as JsonObject) : undefined,
    error: status === 'failed' ? { code: INTERNAL_ERROR, message: result?.error ?? `The call is ${state}` } : undefined,
  };
}
