import type { Json, JsonObject } from './json.js';
import type { MicroUsd } from './units.js';

/** Toolsets of builtin-executor; each is its own Deployment in Kubernetes. */
export const TOOLSETS = ['compute', 'web', 'files', 'agent'] as const;
export type Toolset = (typeof TOOLSETS)[number];

/** A builtin tool served by builtin-executor. `agent` goes by queue, the others by NATS. */
export interface BuiltinBinding {
  kind: 'builtin';
  toolset: Toolset;
  /** Name of the handler, as in the manifest of libs/builtin-tools. */
  handler: string;
  /** Hash of the code of an own tool: other code is another revision, so that no cached result of the old one is shown. */
  build?: string;
}

/** Untrusted Python, by queue to python-sandbox. */
export interface PythonBinding {
  kind: 'python';
}

/** A tool of a remote MCP server, or a plain `{"function","args"}` endpoint. Secrets stay `${VAR}` unexpanded. */
export interface McpBinding {
  kind: 'mcp';
  server: string;
  transport: 'streamable-http' | 'function-args' | 'stdio';
  url: string;
  /** The remote's own name of the tool. */
  remoteName: string;
  /** Connection options as of the configuration (headers, oauth, command…), opaque to everyone but mcp-executor. */
  options?: JsonObject;
}

/** One operation of an OpenAPI document; `plan` is the complete plan made by libs/openapi. */
export interface OpenApiBinding {
  kind: 'openapi';
  collection: string;
  baseUrl: string;
  operationId: string;
  method: string;
  path: string;
  /** Serialisable plan of libs/openapi: parameters, body, servers, security. Opaque to everyone else. */
  plan: JsonObject;
  /** Auth, extra headers, adapter, limits as configured. Secrets stay `${VAR}` unexpanded. */
  options?: JsonObject;
}

/** How a definition is executed: the complete plan; executors ask the registry nothing. */
export type Binding = BuiltinBinding | PythonBinding | McpBinding | OpenApiBinding;

/**
 * When a call is tried again. `none`: never. `network`: on network and timeout errors, 3 attempts, base 1 s.
 * `idempotent`: on any execution error, 2 attempts, 200 ms, x1.5. `custom`: the given figures.
 */
export type RetryPolicy =
  | { kind: 'none' }
  | { kind: 'network' }
  | { kind: 'idempotent' }
  | {
      kind: 'custom';
      /** Attempts in all, the first included. */
      max_attempts: number;
      base_delay_ms: number;
      multiplier: number;
      /** Longest wait between attempts; hard ceiling 30,000. */
      max_delay_ms?: number;
      /** Classes that are tried again; default `timeout` and `network_error`. */
      on?: ('timeout' | 'network_error' | 'internal_error')[];
    };

/** A value of an argument that makes a call dangerous although the tool is not, such as `strictness: lenient`. */
export interface DangerousArgument {
  argument: string;
  values: Json[];
}

/** Context keys a trusted caller may send and a tool may receive. The model never sees them. */
export const CONTEXT_KEYS = ['session_id', 'user_id', 'project_id', 'model', 'prompt_params'] as const;
export type ContextKey = (typeof CONTEXT_KEYS)[number];

/** Who owns a name: a second owner of the same name is refused with 409. */
export interface ToolSource {
  kind: 'builtin' | 'openapi' | 'mcp' | 'plugin';
  /** Collection, server or `builtin`. */
  name: string;
}

/** Kinds of sources that executors announce over NATS; the registry itself makes the definitions of all others. */
export const ANNOUNCED_KINDS = ['builtin', 'plugin'] as const;

/** Source of what a toolset announces: its builtin tools, or the operator's plugins that it runs. */
export function toolsetSource(kind: (typeof ANNOUNCED_KINDS)[number], toolset: Toolset): ToolSource {
  return { kind, name: `${kind}.${toolset}` };
}

/**
 * A named capability a model can call, as announced to the registry and as it travels on NATS.
 * Field names are those of the published metadata; everything optional has the default named beside it.
 */
export interface ToolDefinition {
  /** `^[A-Za-z0-9_-]{1,64}$`, unique in the fleet. */
  name: string;
  /** Other names that resolve to this tool (`collection.tool`, `python_executor`); not listed. */
  aliases?: string[];
  /** Semantic version. */
  version: string;
  /** Visible to the model. */
  description: string;
  category: string;
  tags?: string[];
  /** JSON Schema 2020-12 of the arguments; `type: object`; no reference outside `#/$defs/`. */
  input_schema: JsonObject;
  output_schema?: JsonObject;
  binding: Binding;
  source: ToolSource;
  /** Longest attempt in seconds; undeclared resolves by name prefix, kind and global default. */
  timeout_seconds?: number;
  /** Default 128; a sandbox tool without one gets WASI_MEMORY_LIMIT_MB. */
  memory_limit_mb?: number;
  /** Calls per minute per tenant; default 60. 0 means no limit of its own. */
  rate_limit?: number;
  /** `reject` (default) answers 429 at once; `wait` waits within the deadline. */
  rate_limit_mode?: 'reject' | 'wait';
  /** Default 0. */
  cost_per_use_micro_usd?: MicroUsd;
  /** Most that one call may cost when the price is only known afterwards; reserved in full. */
  cost_cap_micro_usd?: MicroUsd;
  /** Never on a public door, no rule can lift it. Default false. */
  dangerous?: boolean;
  /** Argument values that make one call dangerous. */
  dangerous_when?: DangerousArgument[];
  /** Needs an authenticated user, not only a tenant. Default false. */
  requires_auth?: boolean;
  sandboxed?: boolean;
  /** Receives session_id and user_id, and the cache key includes the session. Default false. */
  session_aware?: boolean;
  /** Context keys this tool may receive beyond session_id and user_id. */
  context_keys?: ContextKey[];
  /** Roles of which the caller needs one. */
  required_roles?: string[];
  /** Declared; undeclared means not idempotent. */
  idempotent?: boolean;
  retry_policy?: RetryPolicy;
  /** Result cache TTL in seconds for idempotent tools; default 300, 0 = never cached. */
  cache_ttl_seconds?: number;
  /** Answer of last resort with disclaimer. */
  stub_data?: Json;
  /** Sends the call id upstream as `Idempotency-Key`. */
  forwards_idempotency_key?: boolean;
  /** MCP tasks extension: whether a call may or must become a task. Default forbidden. */
  task_support?: 'forbidden' | 'optional' | 'required';
  /** MCP annotations and title, passed on unchanged. */
  annotations?: JsonObject;
  author?: string;
  input_examples?: JsonObject[];
  /** Set: only this tenant sees the tool. */
  tenant?: string;
}

/** A definition as stored by the registry. */
export interface RegisteredTool extends ToolDefinition {
  /** Content hash (SHA-256, first 16 hex digits) of the definition. */
  revision: string;
  /** False while no live executor announces it: listed, marked unavailable. */
  available: boolean;
  /** Present: a changed remote tool awaits approval; not listed, calls are 403 TOOL_QUARANTINED. */
  quarantine?: { reason: string; since_at: number; pending_revision: string };
}

/** Pattern of a legal tool name. */
export const TOOL_NAME_PATTERN = /^[A-Za-z0-9_-]{1,64}$/;

/** Rate limit of a tool that declares none, per minute. */
export const DEFAULT_RATE_LIMIT = 60;
/** Shown where a tool declares no timeout; the engine resolves by name prefix and kind instead. */
export const SHOWN_TIMEOUT_SECONDS = 30;
/** Memory shown where a tool declares none. */
export const DEFAULT_MEMORY_LIMIT_MB = 128;
