import { isJsonObject, toUsd, type Json, type JsonObject } from '@toolfleet/contracts';
import {
  DEFAULT_MEMORY_LIMIT_MB,
  DEFAULT_RATE_LIMIT,
  SHOWN_TIMEOUT_SECONDS,
  type RegisteredTool,
} from '@toolfleet/contracts/tool-definition';
import { inlineDefinitions, type SchemaStyle } from '@toolfleet/schema';
import { hasEffects, isSafeMethod } from './tool-plan.js';

/** Formats in which a definition can be listed. */
export const TOOL_FORMATS = ['native', 'openai', 'openai-responses', 'anthropic', 'mcp'] as const;
export type ToolFormat = (typeof TOOL_FORMATS)[number];

/**
 * Renders a definition in the format that a model provider or client expects. No format contains the context keys, because they
 * are not part of the input schema. Schemas of remote tools are listed without `$schema`, which some clients take for an unknown
 * dialect; an author of a builtin tool or a plugin sets it on purpose.
 * @param style `inline` expands references, for providers that refuse `$defs`
 */
export function formatTool(tool: RegisteredTool, format: ToolFormat, style: SchemaStyle = 'defs'): JsonObject {
  const parameters = toParameters(tool, style);
  switch (format) {
    case 'native':
      return toNative(tool, parameters);
    case 'openai':
      return { type: 'function', function: { name: tool.name, description: tool.description, parameters } };
    case 'openai-responses':
      // The strict mode, its default, allows no optional arguments.
      return { type: 'function', name: tool.name, description: tool.description, parameters, strict: false };
    case 'anthropic':
      return { name: tool.name, description: tool.description, input_schema: parameters };
    case 'mcp':
      return toMcp(tool, parameters, style);
  }
}

/** The tool object of the public API. */
function toNative(tool: RegisteredTool, parameters: JsonObject): JsonObject {
  const shown: JsonObject = {
    name: tool.name,
    description: tool.description,
    category: tool.category,
    version: tool.version,
    parameters,
    timeout_seconds: tool.timeout_seconds ?? SHOWN_TIMEOUT_SECONDS,
    cost_per_use: toUsd(tool.cost_per_use_micro_usd ?? 0),
  };
  if (!tool.available) shown.available = false;
  if (tool.tags?.length) shown.tags = tool.tags;
  return shown;
}

/** A tool as MCP clients see it. Only an object schema is a valid output schema in all protocol revisions. */
function toMcp(tool: RegisteredTool, inputSchema: JsonObject, style: SchemaStyle): JsonObject {
  const annotations = toolAnnotations(tool);
  const { title } = annotations;
  const shown: JsonObject = { name: tool.name };
  if (typeof title === 'string') shown.title = title;
  shown.description = tool.description;
  shown.inputSchema = inputSchema;
  if (tool.output_schema?.type === 'object') shown.outputSchema = toListedSchema(tool, tool.output_schema, style);
  shown.annotations = annotations;
  return shown;
}

/**
 * The annotations of a tool for MCP clients. Those of an operation follow from its HTTP method; an operation that is not safe may
 * overwrite or delete. `idempotentHint` is what this fleet acts on, so a claim of an untrusted server does not appear in it.
 */
export function toolAnnotations({ annotations, binding, idempotent }: RegisteredTool): JsonObject {
  const shown: JsonObject = {};
  if (binding.kind === 'openapi') {
    const isSafe = isSafeMethod(binding.method);
    Object.assign(shown, { readOnlyHint: isSafe, destructiveHint: !isSafe, openWorldHint: true });
  }
  Object.assign(shown, annotations);
  if (idempotent !== undefined) shown.idempotentHint = idempotent;
  return shown;
}

/** Renders the properties of a tool with their defaults filled in. */
export function toolMetadata(tool: RegisteredTool): JsonObject {
  const optional = (value: Json | undefined) => value ?? null;
  return {
    name: tool.name,
    version: tool.version,
    description: tool.description,
    category: tool.category,
    author: optional(tool.author),
    requires_auth: tool.requires_auth ?? false,
    rate_limit: tool.rate_limit ?? DEFAULT_RATE_LIMIT,
    timeout_seconds: tool.timeout_seconds ?? SHOWN_TIMEOUT_SECONDS,
    memory_limit_mb: tool.memory_limit_mb ?? DEFAULT_MEMORY_LIMIT_MB,
    sandboxed: tool.sandboxed ?? false,
    dangerous: tool.dangerous ?? false,
    session_aware: tool.session_aware ?? false,
    idempotent: tool.idempotent ?? false,
    has_effects: hasEffects(tool),
    retry_policy: optional(tool.retry_policy),
    rate_limit_mode: tool.rate_limit_mode ?? 'reject',
    cache_ttl_seconds: optional(tool.cache_ttl_seconds),
    stub_data: optional(tool.stub_data),
    cost_per_use: toUsd(tool.cost_per_use_micro_usd ?? 0),
    tags: tool.tags ?? [],
    input_examples: tool.input_examples ?? [],
    source: { kind: tool.source.kind, name: tool.source.name },
    revision: tool.revision,
    available: tool.available,
  };
}

/**
 * The tool as its public callers can use it: without the argument values that `dangerous_when` refuses them. An argument whose
 * default is such a value becomes required, because a call that omits it is refused.
 */
export function toPublicTool(tool: RegisteredTool): RegisteredTool {
  const { dangerous_when: rules, input_schema: schema } = tool;
  if (!rules?.length || !isJsonObject(schema.properties)) return tool;
  const properties = { ...schema.properties };
  const required = Array.isArray(schema.required) ? [...schema.required] : [];
  for (const { argument, values } of rules) {
    const property = properties[argument];
    if (!isJsonObject(property)) continue;
    const shown: JsonObject = { ...property };
    const legal = property.type === 'boolean' ? [true, false] : property.enum;
    if (Array.isArray(legal)) shown.enum = legal.filter((value) => !values.includes(value));
    if (property.default !== undefined && values.includes(property.default)) {
      delete shown.default;
      if (!required.includes(argument)) required.push(argument);
    }
    properties[argument] = shown;
  }
  const isUsable = (example: JsonObject) =>
    rules.every(({ argument, values }) => example[argument] === undefined || !values.includes(example[argument]));
  return {
    ...tool,
    input_schema: { ...schema, properties, required },
    input_examples: tool.input_examples?.filter(isUsable),
  };
}

/** The input schema with `type` and `properties`, which some providers require. */
function toParameters(tool: RegisteredTool, style: SchemaStyle): JsonObject {
  const schema = toListedSchema(tool, tool.input_schema, style);
  return schema.type === 'object' && schema.properties
    ? schema
    : { ...schema, type: 'object', properties: schema.properties ?? {} };
}

/** Expanded schemas by the registered one, which is replaced and never changed. */
const inlined = new WeakMap<JsonObject, JsonObject>();

function toListedSchema({ binding }: RegisteredTool, registered: JsonObject, style: SchemaStyle): JsonObject {
  const isRemote = binding.kind === 'mcp' || binding.kind === 'openapi';
  if (style === 'defs' && !isRemote) return registered;
  const { $schema: _dialect, ...schema } = registered;
  if (style === 'defs') return schema;
  let expanded = inlined.get(registered);
  if (!expanded) inlined.set(registered, (expanded = inlineDefinitions(schema)));
  return expanded;
}
