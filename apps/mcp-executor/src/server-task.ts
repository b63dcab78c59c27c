/**
 * Tasks of servers of 2026-07-28 (extension `io.modelcontextprotocol/tasks`): a server may answer a call with a task, polled to
 * its end.
 */
import { ProtocolError } from '@modelcontextprotocol/client';
import {
  isJsonObject,
  isToolError,
  ToolError,
  type CallProgress,
  type Json,
  type JsonObject,
  type Milliseconds,
} from '@toolfleet/contracts';
import { failedResponse, TASK_REPORT_MS, type ExecResponse } from '@toolfleet/contracts/execution';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import { toInputResponse } from './input-request.js';
import { classifyMcpError } from './mcp-error.js';
import type { McpMessage } from './mcp-target.js';
import { toExecResponse } from './tool-result.js';

/** Key of the extension in `capabilities.extensions` of client and server. */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks';
/** Key in `_meta` of what `asInputRequired` made of a task. */
const TASK_META = 'io.toolfleet/task';
const DEFAULT_POLL_MS = 1_000;
/** Bounds of the interval that a server asks for. */
const MIN_POLL_MS = 100;
const MAX_POLL_MS = 10_000;
/** Polls in a row that may fail: the task goes on without them. */
const MAX_LOST_POLLS = 5;
/** Time to cancel a task. */
const CANCEL_MS = 10_000;
/** Rest of a call's time when its task is given up, so that the answer arrives while the caller waits. */
const ANSWER_MS = 250;
/** Shortest time between two changes that are reported: the number of reports of a call is limited. */
const CHANGE_MS = 1_000;

export type TaskMethod = 'tasks/get' | 'tasks/update' | 'tasks/cancel';

/** A task that a server created for a call. */
export interface CreatedTask {
  id: string;
  pollMs: Milliseconds;
}

/** The SDK rejects results of type `task`, and returns results that ask for input: the id travels as the state of one. */
export function asInputRequired<T extends object>(result: T): T | JsonObject {
  const { resultType, taskId, pollIntervalMs, _meta } = result as JsonObject;
  if (resultType !== 'task' || typeof taskId !== 'string') return result;
  const meta = isJsonObject(_meta) ? _meta : {};
  return {
    resultType: 'input_required',
    requestState: taskId,
    _meta: { ...meta, [TASK_META]: { poll_ms: typeof pollIntervalMs === 'number' ? pollIntervalMs : DEFAULT_POLL_MS } },
  };
}

/** The task in what `asInputRequired` returned; undefined for a server that asks for input. */
export function readTask(result: { requestState?: string; _meta?: object }): CreatedTask | undefined {
  const meta = (result._meta as JsonObject | undefined)?.[TASK_META];
  if (!isJsonObject(meta) || result.requestState === undefined) return undefined;
  return { id: result.requestState, pollMs: toPollMs(meta['poll_ms']) };
}

/** The task that a call goes on with; undefined for a call that has begun none. */
export function givenTask({ input }: McpMessage): CreatedTask | undefined {
  const id = input?.given?.task;
  return id === undefined ? undefined : { id, pollMs: MIN_POLL_MS };
}

function toPollMs(value: Json | undefined): Milliseconds {
  return Math.min(MAX_POLL_MS, Math.max(MIN_POLL_MS, typeof value === 'number' ? value : DEFAULT_POLL_MS));
}

/** How a task is followed. */
interface TaskDeps {
  clock: Clock;
  /** Sends one request about the task; `signal` does not stop its cancellation. @throws ToolError */
  request(method: TaskMethod, params: JsonObject, remainingMs: Milliseconds): Promise<JsonObject>;
  remainingMs: Milliseconds;
  signal: AbortSignal;
  onProgress?: ((progress: CallProgress) => void) | undefined;
}

/**
 * Follows a task to its end, or to a question to the caller. A task that its caller no longer waits for is cancelled at the server.
 * @throws ToolError why it was given up: of the signal, of the server, or ATTEMPT_TIMED_OUT
 */
export async function followTask(task: CreatedTask, message: McpMessage, deps: TaskDeps): Promise<ExecResponse> {
  const endsAt = deps.clock.monotonic() + deps.remainingMs - ANSWER_MS;
  const reports = new TaskReports(deps);
  try {
    return await poll(task, message, { ...deps, onProgress: reports.report }, endsAt);
  } catch (error) {
    // The caller has gone, or leaves with this error.
    const { request } = deps;
    void request('tasks/cancel', { taskId: task.id }, CANCEL_MS).catch(() => undefined);
    throw error;
  } finally {
    reports.close();
  }
}

/**
 * Reports of one task. The last one is repeated all the time: reports are delivered at most once, and without them the gateway takes this
 * process for dead.
 */
class TaskReports {
  #last: CallProgress = {};
  /** The last report, as JSON. */
  #sent = '{}';
  #reportedAt = Number.NEGATIVE_INFINITY;
  #cancelTimer: CancelTimer;

  constructor(private readonly deps: Pick<TaskDeps, 'clock' | 'onProgress'>) {
    this.#cancelTimer = deps.clock.after(TASK_REPORT_MS, this.#repeat);
  }

  /** Takes the current report of the task. */
  readonly report = (report: CallProgress): void => {
    const now = this.deps.clock.monotonic();
    const json = JSON.stringify(report);
    this.#last = report;
    if (json === this.#sent || now < this.#reportedAt + CHANGE_MS) return;
    this.#sent = json;
    this.#reportedAt = now;
    this.deps.onProgress?.(report);
  };

  close(): void {
    this.#cancelTimer();
  }

  readonly #repeat = (): void => {
    this.#cancelTimer = this.deps.clock.after(TASK_REPORT_MS, this.#repeat);
    this.deps.onProgress?.(this.#last);
  };
}

async function poll(
  { id, pollMs }: CreatedTask,
  message: McpMessage,
  { clock, request, signal, onProgress }: TaskDeps,
  endsAt: Milliseconds,
): Promise<ExecResponse> {
  const { input, revision, binding } = message;
  const { server, authority } = binding;
  const leftMs = (): Milliseconds => endsAt - clock.monotonic();
  const responses = input?.given?.responses ?? {};
  if (Object.keys(responses).length > 0)
    await request('tasks/update', { taskId: id, inputResponses: responses }, leftMs());
  let lost = 0;
  for (let waitMs = pollMs; ;) {
    await clock.sleep(Math.min(waitMs, Math.max(0, leftMs())), signal);
    if (leftMs() <= 0) throw stillRunning(server);
    let state: JsonObject;
    try {
      state = await request('tasks/get', { taskId: id }, leftMs());
      lost = 0;
    } catch (error) {
      lost += 1;
      if (signal.aborted || lost > MAX_LOST_POLLS || !isLost(error)) throw error;
      continue;
    }
    waitMs = toPollMs(state['pollIntervalMs']);
    const { status, result, error, inputRequests, statusMessage } = state;
    if (status === 'completed' || status === 'failed' || status === 'cancelled')
      return toEnd(status, server, authority, isJsonObject(result) ? result : {}, isJsonObject(error) ? error : {});
    if (status !== 'working' && status !== 'input_required')
      return failedResponse(fault(`has a task in the unknown state ${String(status).slice(0, 40)}`, server));
    const requests = status === 'input_required' && isJsonObject(inputRequests) ? inputRequests : {};
    const asks =
      Object.keys(requests).length > 0 &&
      toInputResponse({ inputRequests: requests as never }, message, server, { task: id });
    if (asks && (asks.failure?.code !== 'INPUT_REQUIRED' || input?.tasks !== 'follow')) {
      if (asks.failure?.facts?.input) return asks;
      throw new ToolError('INPUT_REQUIRED', { message: asks.failure?.message, details: { server } });
    }
    const report: CallProgress = typeof statusMessage === 'string' ? { message: statusMessage } : {};
    if (input?.tasks === 'follow') report.task = { id, server, revision, requests };
    onProgress?.(report);
  }
}

/** Whether a poll failed on its way: the task goes on. */
function isLost(error: unknown): boolean {
  return isToolError(error) && (error.code === 'NETWORK_ERROR' || error.code === 'ATTEMPT_TIMED_OUT');
}

function toEnd(
  status: 'completed' | 'failed' | 'cancelled',
  server: string,
  authority: string | undefined,
  result: JsonObject,
  { code, message }: JsonObject,
): ExecResponse {
  if (status === 'cancelled') return failedResponse(fault('cancelled its task', server));
  if (status === 'failed') {
    const error = new ProtocolError(typeof code === 'number' ? code : -32_603, String(message ?? 'The task failed'));
    return failedResponse(classifyMcpError(error, server).error);
  }
  if (Object.keys(result).length === 0) return failedResponse(fault('ended its task without a result', server));
  return toExecResponse(result, authority);
}

const fault = (what: string, server: string): ToolError =>
  new ToolError('UPSTREAM_ERROR', { message: `The MCP server ${server} ${what}`, details: { server } });

function stillRunning(server: string): ToolError {
  const message =
    `The task of the MCP server ${server} did not end in time and was cancelled; allow more time with timeout_ms or the timeout of ` +
    'the tool';
  return new ToolError('ATTEMPT_TIMED_OUT', { message, details: { server } });
}
