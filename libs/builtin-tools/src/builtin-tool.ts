import {
  ToolError,
  type ContentBlock,
  type ErrorCode,
  type Json,
  type JsonObject,
  type MicroUsd,
  type Usage,
} from '@toolfleet/contracts';
import type { Schema } from '@toolfleet/contracts/json-schema';
import type { ToolDefinition, Toolset } from '@toolfleet/contracts/tool-definition';
import type { CamelCased } from '@toolfleet/contracts/wire';
import type { AgentServices } from './agent/agent-services.js';
import type { BoundedWork } from './bounded/bounded-work.js';
import type { Workspaces } from './files/workspaces.js';
import type { PageReader } from './web/page-reader.js';
import type { ToolRun } from './tool-run.js';
import type { SearchProvider } from './web/search-provider.js';

/** Optional fields of a definition that authors set, under the same name in camelCase. */
export const AUTHORED_FIELDS = [
  'tags',
  'aliases',
  'output_schema',
  'timeout_seconds',
  'memory_limit_mb',
  'cost_cap_micro_usd',
  'dangerous',
  'dangerous_when',
  'requires_auth',
  'session_aware',
  'context_keys',
  'idempotent',
  'retry_policy',
  'cache_ttl_seconds',
  'select',
  'rate_limit_mode',
  'stub_data',
  'annotations',
  'author',
  'input_examples',
] as const satisfies readonly (keyof ToolDefinition)[];

type Authored = Pick<ToolDefinition, 'name' | 'description' | 'category' | (typeof AUTHORED_FIELDS)[number]>;

/** Metadata of a tool as its author writes it: fields of `ToolDefinition` and their defaults. The model reads the description. */
export interface BuiltinMetadata extends CamelCased<Authored> {
  /** Version of the tool; default `1.0.0`. */
  version?: string;
  /** The executor process that runs it; default `compute`. */
  toolset?: Toolset;
  /** JSON Schema of the arguments, without context keys. */
  inputSchema: JsonObject;
  /** Calls per minute and tenant; default 60, 0 = none. */
  rateLimit?: number;
  costMicroUsd?: MicroUsd;
}

/** A tool with its handler, as `defineTool` returns it. */
export interface BuiltinTool {
  readonly metadata: BuiltinMetadata;
  /** Hash of the plugin file that defines it. */
  readonly build?: string;
  /** Services that the handler needs; the process does not start without them. */
  readonly needs: readonly ToolServiceName[];
  /** Runs one attempt. @throws ToolError, usually TOOL_ERROR, if the tool fails */
  readonly handle: (args: JsonObject, run: ToolRun, services: ToolServices) => ToolOutcome | Promise<ToolOutcome>;
}

/** The argument of `defineTool`. `Args` is the type of the arguments after validation, as a schema of `json-schema` says it. */
type ToolSpec<Args, Needs extends readonly ToolServiceName[]> = BuiltinMetadata & {
  inputSchema: Schema<Args>;
  needs?: Needs;
  handler: (args: Args, run: ToolRun & Pick<ToolServices, Needs[number]>) => ToolOutcome | Promise<ToolOutcome>;
};

/**
 * Defines a tool with its metadata, schema and handler. The gateway validates and coerces the arguments against
 * `inputSchema`, and fills in its defaults, before they reach the handler. Services named in `needs` are passed to the handler in
 * its second argument, with their types.
 */
export function defineTool<Args extends object, const Needs extends readonly ToolServiceName[] = readonly []>(
  spec: ToolSpec<Args, Needs>,
): BuiltinTool {
  const { needs, handler, ...metadata } = spec;
  const names: readonly ToolServiceName[] = needs ?? [];
  const handle: BuiltinTool['handle'] = (args, run, services) => {
    if (names.length === 0) return handler(args as Args, run as ToolRun & Pick<ToolServices, Needs[number]>);
    const injected = Object.fromEntries(names.map((name) => [name, services[name]]));
    return handler(args as Args, { ...run, ...injected } as ToolRun & Pick<ToolServices, Needs[number]>);
  };
  return {
    metadata,
    needs: names,
    handle,
  };
}

/**
 * The services that a process offers to its tools. A tool lists those it needs; a process without them does not start.
 */
export interface ToolServices {
  /** Child processes with limits on time and memory, for work of unpredictable cost (patterns, queries). */
  bounded: BoundedWork;
  /** Fetches and reads web pages. */
  pages: PageReader;
  /** Searches the web. */
  search: SearchProvider;
  /** A chat model, and the tools of the fleet on behalf of a caller. */
  agent: AgentServices;
  /** The workspaces of the file tools. */
  workspaces: Workspaces;
}

/** Name of a service. */
export type ToolServiceName = keyof ToolServices;

/** The result of a handler that succeeded, or that was stopped but has partial output or usage to report. */
export interface ToolOutcome {
  output: Json;
  /** Summary for the model, cut at 6,000 characters. */
  text: string;
  metadata?: JsonObject;
  usage?: Usage;
  content?: ContentBlock[];
  /** Why the handler ended early. A handler without partial output throws it instead. */
  failure?: ToolError;
}

/** Longest `text` of an outcome. */
const MAX_TEXT_CHARACTERS = 6_000;

/** Builds an outcome: `output` for programs, `text` for the model. */
export function ok(
  output: Json,
  text: string,
  extra: Pick<ToolOutcome, 'metadata' | 'usage' | 'content' | 'failure'> = {},
): ToolOutcome {
  return { output, text: cutText(text), ...extra };
}

/** An argument that an operation of a tool needs. @throws ToolError TOOL_ERROR without it */
export function required<T>(value: T | undefined, name: string, operation: string): T {
  if (value !== undefined) return value;
  const message = `Operation ${operation} needs the argument ${name}`;
  throw new ToolError('TOOL_ERROR', { message, details: { missing: name } });
}

/** How a tool failed. */
interface FailOptions {
  /** A code of the catalogue; default TOOL_ERROR. The code decides whether the call is retried and charged. */
  code?: ErrorCode;
  /** Advice for the model; shown after the message and in `metadata.details.hint`. */
  hint?: string;
  details?: JsonObject;
  /** Partial output, for programs. */
  output?: Json;
  /** Earliest useful retry, in ms. */
  retryAfterMs?: number;
}

/** Builds the outcome of a tool that failed: a value, for handlers that return a failure instead of throwing a ToolError. */
export function fail(message: string, options: FailOptions = {}): ToolOutcome {
  const { code = 'TOOL_ERROR', hint, output = null, retryAfterMs } = options;
  const details = hint === undefined ? options.details : { ...options.details, hint };
  const failure = new ToolError(code, { message, details, retryAfterMs });
  return { output, text: cutText(hint === undefined ? message : `${message} ${hint}`), failure };
}

/** Cuts a text at the limit and appends how much is missing. Does not split surrogate pairs. */
export function cutText(text: string, limit = MAX_TEXT_CHARACTERS): string {
  if (text.length <= limit) return text;
  const note = `\n… (${text.length - limit} more characters)`;
  let end = Math.max(0, limit - note.length);
  const code = text.charCodeAt(end - 1);
  if (code >= 0xd800 && code <= 0xdbff) end -= 1;
  return text.slice(0, end) + note;
}
