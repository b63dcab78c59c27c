import { isJsonObject, type JsonObject } from '@toolfleet/base/json';
import type { EpochMs } from './units.js';
import {
  anything,
  choice,
  flag,
  integer,
  list,
  maybe,
  object,
  objectOf,
  record,
  text,
  type RecordOf,
  type Schema,
  type Value,
} from './json-schema.js';
import { SETTING_FIELDS, type ToolSettings } from './tool-settings.js';
import type { SourceAuth, UserAuth } from './user-auth.js';

/** Toolsets of builtin-executor. Each is its own Deployment in Kubernetes. */
export const TOOLSETS = ['compute', 'web', 'files', 'agent'] as const;
export type Toolset = (typeof TOOLSETS)[number];

/** Protocol revisions of MCP that this fleet knows, oldest first. From 2026-07-28 on there are no sessions. */
export const MCP_REVISIONS = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'] as const;
export type McpRevision = (typeof MCP_REVISIONS)[number];

/**
 * Features of an MCP server besides tools. A definition with such a method passes through the fleet as a tool does, under the name
 * `prompt:<name>`, `skill:<name>` or `resource:<server>`, but is not part of tool lists.
 */
const MCP_FEATURES = ['prompts/get', 'resources/read', 'skills/get'] as const;
type McpFeature = (typeof MCP_FEATURES)[number];

const short = (maxLength: number): Schema<string> => text(undefined, { minLength: 1, maxLength });
const url = text(undefined, { maxLength: 4096 });
/** Present: calls act upstream with the credential of the calling user. */
const auth = maybe(objectOf<SourceAuth>());

/** A tool of builtin-executor. The toolset `agent` is served from a queue, the others over NATS. */
const BUILTIN_BINDING = record({
  kind: choice(['builtin']),
  toolset: choice(TOOLSETS),
  /** Name of the handler, as in the manifest of libs/builtin-tools. */
  handler: short(128),
  /** Hash of a plugin's code. It makes changed code a new revision, so that results cached for the old one are not used. */
  build: maybe(short(64)),
});

/** Untrusted Python, run by python-sandbox from a queue; programs call tools and have a queue of their own. */
const PYTHON_BINDING = record({ kind: choice(['python', 'program']) });

/** A tool of a remote MCP server, or of a plain `{"function","args"}` endpoint. `${VAR}` references to secrets are not expanded. */
const MCP_BINDING = record({
  kind: choice(['mcp']),
  server: short(200),
  transport: choice(['streamable-http', 'function-args', 'stdio']),
  url,
  /** Name of the tool or prompt at the server; of a skill its address there, of resources the name of the server. */
  remoteName: short(512),
  /** The method of MCP that a call sends; absent: `tools/call`. */
  method: maybe(choice(MCP_FEATURES)),
  /**
   * Authority of the addresses that callers see instead of the server's (`toFleetAddress`). Absent: addresses
   * stay as they are.
   */
  authority: maybe(text(undefined, { pattern: '^mcp-[0-9a-f]{16}$' })),
  /** Digest of the approved result (`resultDigest`), where another one awaits an approval. */
  digest: maybe(text(undefined, { pattern: '^[0-9a-f]{64}$' })),
  /** Connection options as configured (headers, oauth, command…). Only mcp-executor reads them. */
  options: maybe(object()),
  auth,
});
export type McpBinding = Value<typeof MCP_BINDING>;

/** One operation of an OpenAPI document. */
const OPENAPI_BINDING = record({
  kind: choice(['openapi']),
  collection: short(200),
  baseUrl: url,
  operationId: short(512),
  method: short(16),
  path: short(4096),
  /** The request plan of libs/kits/openapi: parameters, body, servers, security. Opaque to all other code. */
  plan: object(),
  /** Authentication, extra headers, adapter and limits as configured. `${VAR}` references to secrets are not expanded. */
  options: maybe(object()),
  auth,
});
export type OpenApiBinding = Value<typeof OPENAPI_BINDING>;

const BINDINGS = [BUILTIN_BINDING, PYTHON_BINDING, MCP_BINDING, OPENAPI_BINDING];

/** Reads results that are kept. Run by the gateway itself; no source announces it. */
interface ResultBinding {
  kind: 'result';
}

/** How a tool is executed. Complete: executors need nothing else from the registry. */
export type Binding = Value<(typeof BINDINGS)[number]> | ResultBinding;

/** Whether a definition describes a prompt, a skill or resources. */
export function isFeature({ binding }: Pick<ToolDefinition, 'binding'>): boolean {
  return binding.kind === 'mcp' && binding.method !== undefined;
}

/**
 * The method of MCP by which a call reaches its server, and by which policies see calls of every kind of tool. Arguments of prompts and
 * resources are the parameters of their method; with `argument` they ask for its completion, with `directory` for the children of a
 * directory.
 */
export function mcpMethod(
  binding: Binding,
  args: JsonObject,
): McpFeature | 'tools/call' | 'completion/complete' | 'resources/directory/read' {
  const method = binding.kind === 'mcp' ? binding.method : undefined;
  if (method === undefined) return 'tools/call';
  if (args.argument !== undefined) return 'completion/complete';
  return method === 'resources/read' && args.directory === true ? 'resources/directory/read' : method;
}

/** How users get the credential that a tool acts with; undefined for tools that use the credential of their source. */
export function userAuthOf(binding: Binding): UserAuth | undefined {
  return binding.kind === 'mcp' || binding.kind === 'openapi' ? binding.auth?.user : undefined;
}

/** True for tools that call other tools on behalf of their caller: toolset `agent`, and programs. */
export function callsTools({ binding }: Pick<ToolDefinition, 'binding'>): boolean {
  return binding.kind === 'program' || (binding.kind === 'builtin' && binding.toolset === 'agent');
}

/**
 * Whether a tenant's callers of a tool see the results of each other. Never results of calls that act, or may act, with the credential of one
 * user.
 */
export function sharesResults(tool: Pick<ToolDefinition, 'binding' | 'results'>): boolean {
  return tool.results === 'tenant' && !userAuthOf(tool.binding) && !callsTools(tool);
}

/** Context that internal callers may send and tools may receive. It is not part of a tool's schema, so models never see it. */
const CONTEXT_KEYS = ['session_id', 'user_id', 'project_id', 'model', 'prompt_params'] as const;
export type ContextKey = (typeof CONTEXT_KEYS)[number];

/** Context that a definition may declare: what callers send, and the tenant of the credential. */
const DECLARED_KEYS = [...CONTEXT_KEYS, 'tenant_id'] as const;

/** Owner of a tool's name. A second source that registers the same name gets 409. */
export interface ToolSource {
  kind: 'builtin' | 'openapi' | 'mcp' | 'plugin';
  /** Collection, server or `builtin`. */
  name: string;
}

/** Kinds of sources with definitions that executors announce over NATS. The registry builds the definitions of all others. */
export const ANNOUNCED_KINDS = ['builtin', 'plugin'] as const;

/** Source of the definitions that a toolset announces: its builtin tools or its plugins. */
export function toolsetSource(kind: (typeof ANNOUNCED_KINDS)[number], toolset: Toolset): ToolSource {
  return { kind, name: `${kind}.${toolset}` };
}

/** Values of an argument that make a single call dangerous, such as `strictness: lenient`. */
const DANGEROUS_ARGUMENT = record({
  argument: text(undefined, { minLength: 1, maxLength: 256 }),
  values: list(anything(), undefined, { minItems: 1, maxItems: 100 }),
});

/** 1,000 USD. A higher price of one call is a wrong unit. */
const price = integer(undefined, { minimum: 0, maximum: 1_000_000_000 });

/** The fields of a definition besides the settings of every tool (`TOOL_SETTINGS`). Names are as in the published metadata. */
const TOOL_FIELDS = {
  /** `^[A-Za-z0-9_-]{1,64}$`, unique in the fleet. */
  name: text(),
  /** Other names that resolve to this tool (`collection.tool`, `python_executor`). Not listed. */
  aliases: maybe(list(text(undefined, { pattern: '^[A-Za-z0-9_.@-]{1,200}$' }), undefined, { maxItems: 20 })),
  /** Semantic version. */
  version: short(128),
  /** Shown to models. */
  description: short(65_536),
  /** One word, such as search, data, analytics, code, file or agent. */
  category: short(64),
  /** Further words for filtering. */
  tags: maybe(list(short(64), undefined, { maxItems: 50 })),
  /** JSON Schema 2020-12 of the arguments; `type: object`; no reference outside `#/$defs/`. */
  input_schema: object(),
  output_schema: maybe(object()),
  binding: { type: 'object', oneOf: BINDINGS } as Schema<Binding>,
  /** Price of each call; default 0. */
  cost_per_use_micro_usd: maybe(price),
  /** Highest cost of a call without a price in advance. Reserved in full. */
  cost_cap_micro_usd: maybe(price),
  /** Argument values that make a single call dangerous. */
  dangerous_when: maybe(list(DANGEROUS_ARGUMENT, undefined, { maxItems: 20 })),
  sandboxed: maybe(flag()),
  /** Further context that the tool receives. */
  context_keys: maybe(list(choice(DECLARED_KEYS), undefined, { maxItems: DECLARED_KEYS.length })),
  /** The caller needs at least one of these roles. */
  required_roles: maybe(list(short(64), undefined, { maxItems: 50 })),
  /** Sends the call id to the upstream as `Idempotency-Key`. */
  forwards_idempotency_key: maybe(flag()),
  /** Whether a call may or must become a task (MCP tasks). Default forbidden. */
  task_support: maybe(choice(['forbidden', 'optional', 'required'])),
  /** MCP annotations and title, passed through unchanged. */
  annotations: maybe(object()),
  /**
   * Listed members of an MCP server: of a tool `icons` and `_meta`, of a prompt everything, of resources `{resources, resourceTemplates, subscribe}` with
   * the server's own addresses.
   */
  listing: maybe(object()),
  author: maybe(short(256)),
  input_examples: maybe(list(object(), undefined, { maxItems: 20 })),
  /** The only tenant that sees the tool; absent: all tenants. */
  tenant: maybe(text(undefined, { pattern: '^[A-Za-z0-9_.:-]{1,128}$' })),
};

/** Shape and ranges of an announced definition. Unknown fields pass, so that builds differ while they are replaced one by one. */
export const TOOL_DEFINITION = record({ ...TOOL_FIELDS, ...SETTING_FIELDS });

/** A tool that models can call, as announced to the registry and sent over NATS. */
export interface ToolDefinition extends RecordOf<typeof TOOL_FIELDS>, ToolSettings {
  source: ToolSource;
}

/** A definition as stored by the registry. */
export interface RegisteredTool extends ToolDefinition {
  /** Content hash (SHA-256, first 16 hex digits) of the definition. */
  revision: string;
  /** False while no live executor serves it. The tool stays listed, marked as unavailable. */
  available: boolean;
  /**
   * Present while a changed remote tool awaits approval, or after an administrator rejected the change. It is not listed and
   * calls fail with TOOL_QUARANTINED.
   */
  quarantine?: { reason: string; since_at: number; pending_revision: string; rejected?: boolean };
  /** Since when it shares results (`sharesResults`): calls before are not shared. */
  shared_since?: EpochMs;
}

/**
 * Whether a tool is for models. A tool of an MCP App with only `app` in `_meta.ui.visibility` is called by the app's own pages.
 */
export function isForModels({ listing }: Pick<ToolDefinition, 'listing'>): boolean {
  const meta = listing?.['_meta'];
  const ui = isJsonObject(meta) ? meta['ui'] : undefined;
  const visibility = isJsonObject(ui) ? ui['visibility'] : undefined;
  return !Array.isArray(visibility) || visibility.includes('model') || !visibility.includes('app');
}

/** Valid tool names. */
export const TOOL_NAME_PATTERN = /^[A-Za-z0-9_-]{1,64}$/;
/** Tools that gateways serve themselves. No source, plugin or toolset can give a tool one of these names. */
export const GATEWAY_TOOLS = ['search_tools', 'describe_tools', 'call_tool', 'read_result'] as const;
/** Valid names of the prompts, skills and resources of MCP servers. */
export const FEATURE_NAME_PATTERN = /^(?:prompt|skill|resource):[A-Za-z0-9_-]{1,64}$/;

/** Calls per minute of a tool that declares no rate limit. */
export const DEFAULT_RATE_LIMIT = 60;
/** Time in which an MCP server without a declared limit answers its first request. */
export const START_SECONDS = 15;
/** Memory of the process of a local MCP server without a declared limit, in MiB. */
export const LOCAL_SERVER_MEMORY_MB = 512;

/** How much of each tool a list shows: its name, also its description, or also its schemas. */
export const TOOL_DETAILS = ['names', 'summary', 'full'] as const;
export type ToolDetail = (typeof TOOL_DETAILS)[number];

/** Maximum length of a description in a summary, in characters. */
const MAX_SUMMARY = 240;

/** The beginning of a description: as many whole sentences of its first paragraph as fit, else its first words. */
export function summaryOf({ description }: RegisteredTool): string {
  const paragraph = description
    .trim()
    .split(/\n\s*\n/, 1)[0]!
    .replaceAll(/\s+/g, ' ');
  if (paragraph.length <= MAX_SUMMARY) return paragraph;
  const cut = paragraph.slice(0, MAX_SUMMARY);
  const sentences = /^.*[.!?](?=\s)/.exec(cut)?.[0];
  return sentences ?? `${cut.slice(0, cut.lastIndexOf(' ')).trimEnd()}…`;
}
