/** An MCP server of 2026-07-28 with a tool `bake` that always answers with a task, to clients that take tasks. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer, type StandardSchemaV1 } from '@modelcontextprotocol/server';
import { z } from 'zod';

const EXTENSION = 'io.modelcontextprotocol/tasks';

export interface TaskMcpServer {
  /** Origin, e.g. `http://127.0.0.1:4711`. */
  readonly origin: string;
  /** The tasks by the name of what they bake, each with what clients did to it. */
  readonly tasks: ReadonlyMap<string, BakingTask>;
  /** The page that the tool `show` shows as an MCP App. */
  page: string;
  /** Whether it also lists the tool `grill`. */
  grills: boolean;
  stop(): Promise<void>;
}

interface BakingTask {
  status: 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled';
  /** Requests `tasks/get` that it takes to end. */
  polls: number;
  polled: number;
  /** What was answered, by key. */
  answers: Record<string, unknown>;
}

const NAMES: StandardSchemaV1<unknown, { taskId: string; inputResponses?: unknown }> = {
  '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value: value as { taskId: string } }) },
};
const QUESTION = {
  method: 'elicitation/create',
  params: {
    mode: 'form',
    message: 'How many loaves?',
    requestedSchema: { type: 'object', properties: { loaves: { type: 'integer' } } },
  },
};

/** Starts the server on a free loopback port. */
export async function startTaskMcpServer(): Promise<TaskMcpServer> {
  const tasks = new Map<string, BakingTask>();
  const shown = { page: '<p>hot</p>', grills: false };
  const now = new Date().toISOString();
  const times = { createdAt: now, lastUpdatedAt: now, ttlMs: 600_000, pollIntervalMs: 100 };
  const find = (taskId: string): BakingTask => {
    const task = tasks.get(taskId);
    if (!task) throw new Error(`unknown task ${taskId}`);
    return task;
  };
  const poll = (taskId: string) => {
    const task = find(taskId);
    task.polled += 1;
    if (task.status === 'working' && task.polled >= task.polls) task.status = 'completed';
    const { status, answers } = task;
    const text = `baked ${JSON.stringify(answers)}`;
    return {
      ...times,
      taskId,
      status,
      ...(status === 'completed' && { result: { content: [{ type: 'text', text }] } }),
      ...(status === 'failed' && { error: { code: -32_099, message: 'the oven is broken' } }),
      ...(status === 'input_required' && { inputRequests: { loaves: QUESTION } }),
    };
  };
  const server = (): McpServer => {
    const made = new McpServer(
      { name: 'tasks', version: '1.0.0' },
      { capabilities: { tools: {}, resources: {}, extensions: { [EXTENSION]: {} } } },
    );
    const inputSchema = z.object({
      what: z.string(),
      polls: z.number().default(3),
      how: z.string().default('working'),
    });
    made.registerTool('bake', { description: 'Bakes something.', inputSchema }, ({ what, polls, how }) => {
      tasks.set(what, { status: how as BakingTask['status'], polls, polled: 0, answers: {} });
      return { resultType: 'task', ...times, taskId: what, status: 'working' } as never;
    });
    if (shown.grills)
      made.registerTool('grill', { description: 'Grills something.', inputSchema: z.object({}) }, () => ({
        content: [{ type: 'text', text: 'grilled' }],
      }));
    const ui = { resourceUri: 'ui://oven/page' };
    const show = { description: 'Shows the oven.', inputSchema: z.object({}), _meta: { ui } };
    made.registerTool('show', show, () => ({ content: [{ type: 'text', text: 'hot' }] }));
    made.registerResource('page', ui.resourceUri, {}, ({ href }) => ({
      contents: [{ uri: href, mimeType: 'text/html;profile=mcp-app', text: shown.page }],
    }));
    const { server: low } = made;
    low.setRequestHandler('tasks/get', { params: NAMES }, ({ taskId }) => poll(taskId));
    low.setRequestHandler('tasks/cancel', { params: NAMES }, ({ taskId }) => {
      find(taskId).status = 'cancelled';
      return {};
    });
    low.setRequestHandler('tasks/update', { params: NAMES }, ({ taskId, inputResponses }, { mcpReq }) => {
      const task = find(taskId);
      Object.assign(task.answers, mcpReq.inputResponses ?? inputResponses);
      if (task.status === 'input_required') task.status = 'working';
      return {};
    });
    return made;
  };
  const http = createServer(toNodeHandler(createMcpHandler(server)));
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  return Object.assign(shown, {
    origin: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    tasks,
    stop: async () => {
      http.closeAllConnections();
      await new Promise<void>((resolve) => http.close(() => resolve()));
    },
  });
}
