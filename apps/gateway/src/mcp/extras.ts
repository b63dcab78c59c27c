import type { McpServer, ServerCapabilities, ServerContext, ServerNotifier } from '@modelcontextprotocol/server';
import type { JsonObject } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { TaskStore } from './task-store.js';

/** Result of an extra tool, as the SDK takes it. */
export type ExtraResult = Record<string, unknown>;

/** A tool the door answers itself, without the engine. Only the conformance fixtures are such tools. */
export interface ExtraTool {
  definition: RegisteredTool;
  /** @param takesTask the client takes tasks and the tool allows them */
  call(args: JsonObject, context: ServerContext, takesTask: boolean): Promise<ExtraResult> | ExtraResult;
}

/** What a fixture pack adds to the door. */
export interface DoorExtras {
  tools: readonly ExtraTool[];
  capabilities: ServerCapabilities;
  /** Handlers beside tools: prompts, resources, completion, logging. */
  install(server: McpServer, era: 'legacy' | 'modern'): void;
  /** Tasks of the extra tools, asked before those of the queue. */
  tasks: TaskStore;
  /** Told how to announce changes of lists. */
  announce(notify: ServerNotifier): void;
  /** Keeps 2025 sessions in memory: sampling and elicitation of that revision need the client's answers to find their call. */
  legacySessions: boolean;
}
