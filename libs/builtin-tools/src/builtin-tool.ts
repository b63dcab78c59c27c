import type { CallProgress, EpochMs, JsonObject, MicroUsd } from '@toolfleet/contracts';
import type { ExecContext } from '@toolfleet/contracts/execution';
import type { ContextKey, DangerousArgument, RetryPolicy, Toolset } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';
import type { ToolOutcome } from './outcome.js';
import type { ServiceName, ToolServices } from './tool-services.js';

/** What a handler knows about the call it serves. */
export interface ToolRun {
  callId: string;
  /** Name the tool was called by. */
  tool: string;
  /** Tenant, and the context keys this tool may receive. */
  context: ExecContext;
  /** Aborted at the deadline and when the caller cancels: pass it to everything that waits. */
  signal: AbortSignal;
  clock: Clock;
  /** Instant (epoch ms of `clock`) by which the call must have ended. */
  deadlineAt: EpochMs;
  /** Tells whoever waits how far the work is; never fails. */
  progress(progress: CallProgress): void;
}

/** Metadata of a tool, as an author writes it; defaults are those of ToolDefinition. */
export interface ToolMetadata {
  /** `^[A-Za-z0-9_-]{1,64}$`, unique in the fleet. */
  name: string;
  /** Version of the tool; default `1.0.0`. */
  version?: string;
  /** Read by the model: what the tool does, when to use it, what it returns. */
  description: string;
  /** One word: search, data, analytics, code, file, agent … */
  category: string;
  /** Further words a list can be filtered by. */
  tags?: string[];
  /** Which executor process runs it; default `compute`. */
  toolset?: Toolset;
  /** JSON Schema of the arguments, without context keys. */
  inputSchema: JsonObject;
  outputSchema?: JsonObject;
  timeoutSeconds?: number;
  memoryLimitMb?: number;
  /** Calls per minute and tenant; default 60, 0 = none. */
  rateLimit?: number;
  costMicroUsd?: MicroUsd;
  costCapMicroUsd?: MicroUsd;
  dangerous?: boolean;
  dangerousWhen?: DangerousArgument[];
  requiresAuth?: boolean;
  sessionAware?: boolean;
  contextKeys?: ContextKey[];
  /** Running it twice has the effect of running it once. Undeclared means no. */
  idempotent?: boolean;
  retryPolicy?: RetryPolicy;
  cacheTtlSeconds?: number;
  annotations?: JsonObject;
  aliases?: string[];
  author?: string;
  inputExamples?: JsonObject[];
}

/** A tool with its handler, as `defineTool` returns it. */
export interface BuiltinTool {
  readonly metadata: ToolMetadata;
  /** Hash of the file an own tool was loaded from. */
  readonly build?: string;
  /** Services the handler needs; the process refuses to start without them. */
  readonly needs: readonly ServiceName[];
  /** Runs one attempt. Failures of the tool are thrown as `ToolError('TOOL_ERROR', …)`. */
  readonly handle: (args: JsonObject, run: ToolRun, services: ToolServices) => ToolOutcome | Promise<ToolOutcome>;
}

/** What an author passes to `defineTool`. `Args` describes the arguments after the schema accepted them. */
export type ToolSpec<Args, Needs extends readonly ServiceName[]> = ToolMetadata & {
  needs?: Needs;
  handler: (args: Args, run: ToolRun & Pick<ToolServices, Needs[number]>) => ToolOutcome | Promise<ToolOutcome>;
};

/**
 * Defines a tool: metadata, schema and handler in one place.
 * Arguments reach the handler validated and coerced by the gateway against `inputSchema`; services named in `needs` are
 * handed over typed, so that there is no service locator.
 */
export function defineTool<Args extends object, const Needs extends readonly ServiceName[] = readonly []>(
  spec: ToolSpec<Args, Needs>,
): BuiltinTool {
  const { needs, handler, ...metadata } = spec;
  const names: readonly ServiceName[] = needs ?? [];
  return {
    metadata,
    needs: names,
    handle(args, run, services) {
      if (names.length === 0) return handler(args as Args, run as ToolRun & Pick<ToolServices, Needs[number]>);
      const injected = Object.fromEntries(names.map((name) => [name, services[name]]));
      return handler(args as Args, { ...run, ...injected } as ToolRun & Pick<ToolServices, Needs[number]>);
    },
  };
}
