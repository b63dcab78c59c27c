import {
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  type CallToolResult,
  type Server,
  type ServerContext,
  type StandardSchemaV1,
} from '@modelcontextprotocol/server';
import {
  isJsonObject,
  type CallRequest,
  type JsonObject,
  type Principal,
  type ResultReading,
} from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { orRpcError } from './rpc-errors.js';
import { readClientCapabilities, readFeatures, TASKS_EXTENSION } from './client-features.js';

/** Interval at which a client should poll. */
const POLL_INTERVAL_MS = 1_000;

/** States of a task in the tasks extension. */
export type TaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled';

/** One task: an asynchronous call. Its id is the call id. */
export interface Task {
  taskId: string;
  tool: string;
  status: TaskStatus;
  statusMessage?: string;
  /** ISO 8601. */
  createdAt: string;
  lastUpdatedAt: string;
  /** Result of a completed task as an MCP tool result; a tool error is a result too. */
  result?: JsonObject;
  /** JSON-RPC error of a failed task. */
  error?: { code: number; message: string; data?: JsonObject };
  /** Questions of a task in `input_required`, by key. */
  inputRequests?: JsonObject;
}

/** Durable calls that outlive their request and are readable by every replica. */
export interface TaskStore {
  /** How long a finished task stays readable, in ms; null for no limit. */
  readonly ttlMs: number | null;
  /** Accepts a call. It is durable once this resolves. @throws ToolError when the call is refused */
  start(request: CallRequest): Promise<Task>;
  /**
   * @param reading how the caller reads a result that is too large to show
   * @returns undefined for unknown tasks and for tasks the caller may not access
   */
  get(principal: Principal, taskId: string, reading?: ResultReading): Promise<Task | undefined>;
  /** Stops a task; a finished one does not change. @throws ToolError PERMISSION_DENIED @returns false when there is no such task */
  cancel(principal: Principal, taskId: string): Promise<boolean>;
  /** Passes answers to a task in `input_required`. @returns false when there is no such task */
  update(principal: Principal, taskId: string, responses: JsonObject): Promise<boolean>;
}

/**
 * Whether this call becomes a task: the client supports tasks, and the tool allows or requires them.
 * @throws MissingRequiredClientCapabilityError when the tool requires tasks and the client does not support them
 */
export function supportsTask(context: ServerContext, tool: Pick<RegisteredTool, 'task_support'>): boolean {
  const support = tool.task_support ?? 'forbidden';
  if (support === 'forbidden') return false;
  if (support === 'required') requireTasksExtension(context);
  return declaresTasks(context);
}

/** The flat `CreateTaskResult`. */
export function createTaskResult(task: Task, tasks: TaskStore): CallToolResult {
  return { resultType: 'task', ...renderState(task, tasks) } as unknown as CallToolResult;
}

/** Accepts a call as a task. @throws ToolError when the call is refused */
export async function startTask(tasks: TaskStore, request: CallRequest): Promise<CallToolResult> {
  return createTaskResult(await tasks.start(request), tasks);
}

/**
 * Installs the three methods of the extension. A task the caller may not access gets the same answer as a missing one.
 */
export function installTasks(server: Server, tasks: TaskStore, principal: Principal, reading: ResultReading): void {
  const params = { params: TASK_PARAMS };
  const acknowledge = (found: boolean, taskId: string) => {
    if (!found) throw unknownTask(taskId);
    return { resultType: 'complete' };
  };
  server.setRequestHandler('tasks/get', params, async ({ taskId }, context) => {
    requireTasksExtension(context);
    const task = await orRpcError(tasks.get(principal, taskId, reading));
    if (!task) throw unknownTask(taskId);
    return renderTask(task, tasks);
  });
  server.setRequestHandler('tasks/cancel', params, async ({ taskId }, context) => {
    requireTasksExtension(context);
    return acknowledge(await orRpcError(tasks.cancel(principal, taskId)), taskId);
  });
  server.setRequestHandler('tasks/update', params, async ({ taskId, inputResponses }, context) => {
    requireTasksExtension(context);
    // The SDK moves input responses out of the parameters, as it does for every method that may carry them.
    const responses: unknown = context.mcpReq.inputResponses ?? inputResponses;
    const update = tasks.update(principal, taskId, isJsonObject(responses) ? responses : {});
    return acknowledge(await orRpcError(update), taskId);
  });
}

/** The parameters of all three methods, as the Standard Schema that the SDK requires. */
const TASK_PARAMS: StandardSchemaV1<unknown, { taskId: string; inputResponses?: unknown }> = {
  '~standard': {
    version: 1,
    vendor: 'toolfleet',
    validate: (value) =>
      isJsonObject(value) && typeof value['taskId'] === 'string'
        ? { value: { taskId: value['taskId'], inputResponses: value['inputResponses'] } }
        : { issues: [{ message: 'taskId must be a string' }] },
  },
};

function renderTask(task: Task, tasks: TaskStore): Record<string, unknown> {
  const { status, result, error, inputRequests } = task;
  return {
    resultType: 'complete',
    ...renderState(task, tasks),
    result: status === 'completed' ? result : undefined,
    error: status === 'failed' ? error : undefined,
    inputRequests: status === 'input_required' ? inputRequests : undefined,
  };
}

function renderState({ taskId, status, statusMessage, createdAt, lastUpdatedAt }: Task, tasks: TaskStore) {
  const times = { createdAt, lastUpdatedAt, ttlMs: tasks.ttlMs, pollIntervalMs: POLL_INTERVAL_MS };
  return { taskId, status, statusMessage: statusMessage || undefined, ...times };
}

function declaresTasks(context: ServerContext): boolean {
  return readFeatures(readClientCapabilities(context.mcpReq.envelope)).tasks;
}

function requireTasksExtension(context: ServerContext): void {
  if (!declaresTasks(context)) {
    throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } });
  }
}

function unknownTask(taskId: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown task: ${taskId.slice(0, 100)}`);
}
