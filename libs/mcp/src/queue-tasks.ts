import {
  isToolError,
  type CallBody,
  type CallRequest,
  type JsonObject,
  type Principal,
  type ResultReading,
} from '@toolfleet/contracts';
import { resultOmitted } from '@toolfleet/access';
import { oversizeDocument, withHandle } from '@toolfleet/engine';
import type { AsyncCalls, AcceptedCall } from '@toolfleet/results';
import { withAskers } from './input-request.js';
import { renderStoredResult } from './render-result.js';
import type { Task, TaskStatus, TaskStore } from './tasks.js';

/** Call states as task states. A tool error is a completed task; `failed` means that something else went wrong. */
const STATUS: Record<AcceptedCall['state'], TaskStatus> = {
  awaiting_approval: 'working',
  accepted: 'working',
  claimed: 'working',
  succeeded: 'completed',
  failed: 'completed',
  cancelled: 'cancelled',
  expired: 'failed',
  outcome_unknown: 'failed',
};
const INTERNAL_ERROR = -32_603;
const WAITS = 'Waits for the approval of a person';

/**
 * Tasks as asynchronous calls. The task id is the call id and the job id in the `tool-calls` queue, so a task survives a
 * restart of the gateway, and any replica can answer for it.
 */
export class QueueTasks implements TaskStore {
  readonly ttlMs: number;

  /**
   * @param retentionSeconds `CALL_RESULT_TTL_SECONDS`
   * @param inlineBytes largest result that is shown whole; for a larger one the task shows a summary, and its id is the handle
   */
  constructor(
    private readonly calls: { accept(request: CallRequest): Promise<{ call_id: string }> },
    private readonly asyncCalls: Pick<AsyncCalls, 'get' | 'cancel' | 'noteAnswers'>,
    /** Sends answers to the server of the task that a call follows. @throws ToolError */
    private readonly sendAnswers: (call: AcceptedCall, responses: JsonObject) => Promise<void>,
    retentionSeconds: number,
    private readonly inlineBytes = Number.POSITIVE_INFINITY,
  ) {
    this.ttlMs = retentionSeconds * 1_000;
  }

  async start(request: CallRequest): Promise<Task> {
    const { call_id } = await this.calls.accept({
      ...request,
      personInput: request.personInput && { ...request.personInput, tasks: 'follow' },
    });
    const { principal, resultReading } = request;
    return this.toTask(await this.asyncCalls.get(principal, call_id), resultReading);
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

  /** Only the caller of a task answers for it. Other or repeated answers are acknowledged and dropped. */
  async update(principal: Principal, taskId: string, responses: JsonObject): Promise<boolean> {
    const call = await this.find(principal, taskId);
    if (call?.sight !== 'own') return false;
    const { task, finishedAt } = call;
    const asked = Object.entries(responses).filter(([key]) => task?.requests[key] !== undefined);
    if (finishedAt !== undefined || asked.length === 0) return true;
    await this.sendAnswers(call, Object.fromEntries(asked));
    await this.asyncCalls.noteAnswers(
      taskId,
      asked.map(([key]) => key),
    );
    return true;
  }

  private toTask(call: AcceptedCall, reading?: ResultReading): Task {
    const task = toTask({ ...call, result: this.shown(call, reading) });
    // Questions are for those who may answer them.
    return call.sight === 'own' ? task : { ...task, inputRequests: task.inputRequests && {} };
  }

  private shown({ callId, tool, result, finishedAt = 0 }: AcceptedCall, reading?: ResultReading): CallBody | undefined {
    const document = result?.success ? oversizeDocument(result, this.inlineBytes) : undefined;
    if (result === undefined || document === undefined) return result;
    return withHandle(tool, result, document, { handle: callId, expiresAt: finishedAt + this.ttlMs }, reading);
  }

  private async find(principal: Principal, taskId: string): Promise<AcceptedCall | undefined> {
    try {
      return await this.asyncCalls.get(principal, taskId);
    } catch (error) {
      if (isToolError(error) && error.code === 'NOT_FOUND') return undefined;
      throw error;
    }
  }
}

/** The status of a call as a task's. */
function statusOf({ state, finishedAt, task, rpcCode }: AcceptedCall): TaskStatus {
  if (rpcCode !== undefined && state === 'failed') return 'failed';
  if (!task) return STATUS[state];
  // mcp-executor cancels tasks that it no longer follows.
  if (state === 'outcome_unknown') return 'cancelled';
  return finishedAt === undefined && Object.keys(task.requests).length > 0 ? 'input_required' : STATUS[state];
}

function toTask(call: AcceptedCall): Task {
  const { callId, tool, state, acceptedAt, finishedAt, result, task, rpcCode, sight = 'none', isWithheld } = call;
  const status = statusOf(call);
  const omitted = isWithheld ? resultOmitted(sight).message : undefined;
  return {
    taskId: callId,
    tool,
    status,
    statusMessage:
      omitted || (status === 'cancelled' && result?.error) || (state === 'awaiting_approval' ? WAITS : undefined),
    createdAt: new Date(acceptedAt).toISOString(),
    lastUpdatedAt: new Date(finishedAt ?? acceptedAt).toISOString(),
    result: status === 'completed' ? toToolResult(result, omitted) : undefined,
    error:
      status === 'failed'
        ? { code: rpcCode ?? INTERNAL_ERROR, message: result?.error ?? `The call is ${state}` }
        : undefined,
    inputRequests: status === 'input_required' && task ? withAskers(task.requests, task.server) : undefined,
  };
}

/** The result of a completed task; another caller's is an error that names the reader. */
function toToolResult(result: CallBody | undefined, omitted: string | undefined): JsonObject | undefined {
  if (omitted !== undefined) return { isError: true, content: [{ type: 'text', text: omitted }] };
  return result && (renderStoredResult(result) as JsonObject);
}
