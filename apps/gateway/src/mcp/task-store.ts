import type { CallRequest, JsonObject, Principal } from '@toolfleet/contracts';

/** State of a task as the extension names them. */
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
  /** Of a finished call, as an MCP tool result; a tool error is a result, too. */
  result?: JsonObject;
  /** A refusal, as JSON-RPC error. */
  error?: { code: number; message: string; data?: JsonObject };
  /** What a task in `input_required` asks for, by key. */
  inputRequests?: JsonObject;
}

/** Calls that outlive their request, durable and readable by every replica: an adapter over the asynchronous queue. */
export abstract class TaskStore {
  /** How long a finished task can be read, in ms; null when for ever. */
  abstract readonly ttlMs: number | null;
  /** Accepts a call; durable when this resolves. @throws ToolError when the call is refused */
  abstract start(request: CallRequest): Promise<Task>;
  /** @returns undefined for unknown tasks and for those the caller has no access to */
  abstract get(principal: Principal, taskId: string): Promise<Task | undefined>;
  /** Stops a task; one that has ended stays as it is. @returns false when there is no such task */
  abstract cancel(principal: Principal, taskId: string): Promise<boolean>;
  /** Hands answers to a task in `input_required`. @returns false when there is no such task */
  abstract update(principal: Principal, taskId: string, responses: JsonObject): Promise<boolean>;
}
