import {
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  type Server,
  type ServerContext,
  type StandardSchemaV1,
} from '@modelcontextprotocol/server';
import { isJsonObject, type CallRequest, type JsonObject, type Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { metaOf } from './call-request.js';
import type { Task, TaskStore } from './task-store.js';

/** Key of the extension in `capabilities.extensions` on both sides. */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks';
/** How often a client should ask. */
const POLL_INTERVAL_MS = 1_000;
const CLIENT_CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';

/**
 * Whether this call becomes a task: the client takes tasks, and the tool allows or requires them.
 * @throws MissingRequiredClientCapabilityError when the tool requires tasks and the client takes none
 */
export function clientTakesTasks(context: ServerContext, tool: Pick<RegisteredTool, 'task_support'>): boolean {
  const support = tool.task_support ?? 'forbidden';
  if (support === 'forbidden') return false;
  if (declaresTasks(context)) return true;
  if (support === 'required') {
    throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } });
  }
  return false;
}

function declaresTasks(context: ServerContext): boolean {
  const declared = (context.mcpReq.envelope as JsonObject | undefined)?.[CLIENT_CAPABILITIES];
  const extensions = isJsonObject(declared) ? declared['extensions'] : undefined;
  return isJsonObject(extensions) && isJsonObject(extensions[TASKS_EXTENSION]);
}

/** The flat `CreateTaskResult`. */
export function createTaskResult(task: Task, tasks: TaskStore): JsonObject {
  return { resultType: 'task', ...fieldsOf(task, tasks) };
}

/** Accepts a call as a task. @throws ToolError when the call is refused */
export async function startTask(tasks: TaskStore, request: CallRequest): Promise<JsonObject> {
  return createTaskResult(await tasks.start(request), tasks);
}

/** The three methods of the extension. Tasks the caller has no access to are unknown, with the same answer as missing ones. */
export function installTasks(server: Server, stores: readonly TaskStore[], principal: Principal): void {
  const params = { params: TASK_PARAMS };
  server.setRequestHandler('tasks/get', params, async ({ taskId }, context) => {
    requireExtension(context);
    for (const store of stores) {
      const task = await store.get(principal, taskId);
      if (task) return renderTask(task, store) as Record<string, unknown>;
    }
    throw unknownTask(taskId);
  });
  server.setRequestHandler('tasks/cancel', params, async ({ taskId }, context) => {
    requireExtension(context);
    for (const store of stores) if (await store.cancel(principal, taskId)) return { resultType: 'complete' };
    throw unknownTask(taskId);
  });
  server.setRequestHandler('tasks/update', params, async ({ taskId, inputResponses }, context) => {
    requireExtension(context);
    // The SDK lifts input responses out of the parameters, as for every other method that may carry them.
    const responses = metaOf(context.mcpReq.inputResponses ?? inputResponses);
    for (const store of stores) if (await store.update(principal, taskId, responses)) return { resultType: 'complete' };
    throw unknownTask(taskId);
  });
}

interface TaskParams {
  taskId: string;
  inputResponses?: unknown;
}

/** The parameters of all three, as the Standard Schema the SDK asks for. */
const TASK_PARAMS: StandardSchemaV1<unknown, TaskParams> = {
  '~standard': {
    version: 1,
    vendor: 'toolfleet',
    validate: (value) =>
      isJsonObject(value) && typeof value['taskId'] === 'string'
        ? { value: { taskId: value['taskId'], inputResponses: value['inputResponses'] } }
        : { issues: [{ message: 'taskId must be a string' }] },
  },
};

function renderTask(task: Task, tasks: TaskStore): JsonObject {
  return {
    resultType: 'complete',
    ...fieldsOf(task, tasks),
    ...(task.status === 'completed' && task.result ? { result: task.result } : {}),
    ...(task.status === 'failed' && task.error ? { error: { ...task.error } } : {}),
    ...(task.status === 'input_required' && task.inputRequests ? { inputRequests: task.inputRequests } : {}),
  };
}

function fieldsOf(task: Task, tasks: TaskStore): JsonObject {
  return {
    taskId: task.taskId,
    status: task.status,
    ...(task.statusMessage ? { statusMessage: task.statusMessage } : {}),
    createdAt: task.createdAt,
    lastUpdatedAt: task.lastUpdatedAt,
    ttlMs: tasks.ttlMs,
    pollIntervalMs: POLL_INTERVAL_MS,
  };
}

function requireExtension(context: ServerContext): void {
  if (!declaresTasks(context)) {
    throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } });
  }
}

function unknownTask(taskId: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown task: ${taskId.slice(0, 100)}`);
}
