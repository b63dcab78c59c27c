import type {
  CallProgress,
  ContentBlock,
  EpochMs,
  Json,
  JsonObject,
  MicroUsd,
  ToolError,
  Usage,
} from '@toolfleet/contracts';
import type { ExecContext } from '@toolfleet/contracts/execution';
import type { ContextKey, DangerousArgument, RetryPolicy, Toolset } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';
import type { AgentServices } from './agent/agent-services.js';
import type { BoundedWork } from './bounded/bounded-work.js';
import type { Workspaces } from './files/workspaces.js';
import type { PageReader } from './web/page-reader.js';
import type { SearchProvider } from './web/search-providers.js';

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

/**
 * What a process hands to the tools it serves. A tool names what it needs and gets exactly that, typed; a process that
 * serves a tool without having what it needs does not start.
 */
export interface ToolServices {
  /** Child processes with bounds on time and memory, for work whose cost cannot be known (patterns, queries). */
  bounded: BoundedWork;
  /** Fetches and reads web pages. */
  pages: PageReader;
  /** Searches the web. */
  search: SearchProvider;
  /** A chat model, and the fleet's tools on behalf of a caller. */
  agent: AgentServices;
  /** The workspaces file tools may touch. */
  workspaces: Workspaces;
}

/** Name of a service. */
export type ServiceName = keyof ToolServices;

/** What a handler returns when it succeeded, or when it was stopped and has something to show or to charge for. */
export interface ToolOutcome {
  output: Json;
  /** Summary for the model; cut at 6,000 characters on the way. */
  text: string;
  metadata?: JsonObject;
  usage?: Usage;
  content?: ContentBlock[];
  /** Why it ended early; a handler that has nothing else to say throws it. */
  failure?: ToolError;
}

/** Longest `text` a model gets. */
export const MAX_TEXT_CHARACTERS = 6_000;

/** Success: `output` for programs, `text` for the model. */
export function ok(
  output: Json,
  text: string,
  extra: Pick<ToolOutcome, 'metadata' | 'usage' | 'content' | 'failure'> = {},
): ToolOutcome {
  return { output, text: cutText(text), ...extra };
}

/** Cuts a text at the cap, saying how much is missing; never inside a surrogate pair. */
export function cutText(text: string, limit = MAX_TEXT_CHARACTERS): string {
  if (text.length <= limit) return text;
  const note = `\n… (${text.length - limit} more characters)`;
  let end = Math.max(0, limit - note.length);
  const code = text.charCodeAt(end - 1);
  if (code >= 0xd800 && code <= 0xdbff) end -= 1;
  return text.slice(0, end) + note;
}
