import { isJsonObject, toUsd, type JsonObject } from '@toolfleet/contracts';
import { toFleetAddress } from '@toolfleet/contracts/resource-address';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { LIST_FORMATS, ToolLimits, ToolMetadata } from '@toolfleet/contracts/resources';
import { maxResultBytes, SIZES } from '@toolfleet/contracts/subjects';
import {
  inlineDefinitions,
  toAnthropicSchema,
  toGeminiSchema,
  toStrictSchema,
  withPlainNames,
  type SchemaStyle,
} from '@toolfleet/bounded-schema';
import { hasEffects, isSafeMethod } from '@toolfleet/engine';

type ToolFormat = Exclude<(typeof LIST_FORMATS)[number], 'python' | 'pydantic' | 'typescript'>;

/** Renders a definition; `parameters` is its input schema as listed. */
type Formatter = (tool: RegisteredTool, parameters: JsonObject, style: SchemaStyle) => JsonObject;

/** Every format in which a definition can be listed. No format contains the context keys, because they are not part of the input schema. */
const FORMATTERS: Readonly<Record<ToolFormat, Formatter>> = {
  native: toNative,
  openai: (tool, parameters) => ({ type: 'function', function: toFunction(tool, parameters) }),
  'openai-strict': (tool, parameters) => ({ type: 'function', function: toStrictFunction(tool, parameters) }),
  // Strict mode, the default of this API, does not allow optional arguments.
  'openai-responses': (tool, parameters) => ({ type: 'function', ...toFunction(tool, parameters), strict: false }),
  'openai-responses-strict': (tool, parameters) => ({ type: 'function', ...toStrictFunction(tool, parameters) }),
  anthropic: ({ name, description }, parameters) => ({
    name,
    description,
    input_schema: derive(anthropicSchemas, parameters, toAnthropicSchema),
  }),
  gemini: toGemini,
  mcp: toMcp,
};

/** Formats in which a definition can be listed. */
export const TOOL_FORMATS = Object.keys(FORMATTERS) as readonly ToolFormat[];

/**
 * Renders a definition in the format that a model provider or client expects. Schemas of remote tools are listed without `$schema`,
 * which some clients take for an unknown dialect; an author of a builtin tool or a plugin sets it on purpose.
 * @param style `inline` expands references, for providers that refuse `$defs`
 */
export function formatTool(tool: RegisteredTool, format: ToolFormat, style: SchemaStyle = 'defs'): JsonObject {
  return FORMATTERS[format](tool, toParameters(tool, style), style);
}

const toFunction = ({ name, description }: RegisteredTool, parameters: JsonObject): JsonObject => ({
  name,
  description,
  parameters,
});

/** A function of OpenAI's strict mode; one with another schema is listed without it. */
function toStrictFunction(tool: RegisteredTool, parameters: JsonObject): JsonObject {
  const strict = derive(strictSchemas, parameters, toStrictSchema);
  return { ...toFunction(tool, strict ?? parameters), strict: strict !== undefined };
}

/** A function declaration of Gemini (it refuses empty `parameters`). */
function toGemini(tool: RegisteredTool): JsonObject {
  const { name, description } = tool;
  const parameters = derive(geminiSchemas, toParameters(tool, 'inline'), toGeminiSchema);
  return parameters.properties === undefined ? { name, description } : { name, description, parameters };
}

/** Key of `_meta` with the limits of a tool, in lists for MCP clients. */
const LIMITS_META = 'io.toolfleet/limits';

/** The limits that calls of a tool have. `withLimits` has completed the definition. */
function toolLimits({ rate_limit, timeout_seconds, memory_limit_mb, binding }: RegisteredTool): ToolLimits {
  return {
    rate_limit: rate_limit!,
    timeout_seconds: timeout_seconds!,
    memory_limit_mb: memory_limit_mb ?? null,
    max_request_bytes: SIZES.request,
    max_result_bytes: maxResultBytes(binding) ?? null,
  };
}

/** The tool object of the public API. */
function toNative(tool: RegisteredTool, parameters: JsonObject): JsonObject {
  const shown: JsonObject = {
    name: tool.name,
    description: tool.description,
    category: tool.category,
    version: tool.version,
    parameters,
    ...toolLimits(tool),
    cost_per_use: toUsd(tool.cost_per_use_micro_usd ?? 0),
  };
  if (!tool.available) shown.available = false;
  if (tool.tags?.length) shown.tags = tool.tags;
  return shown;
}

/** A tool as MCP clients see it; hosts pass its schema on to providers that want plain names of arguments. Only an object schema is a valid output schema in all protocol revisions. */
function toMcp(tool: RegisteredTool, inputSchema: JsonObject, style: SchemaStyle): JsonObject {
  const annotations = toolAnnotations(tool);
  const { title } = annotations;
  const shown: JsonObject = { name: tool.name };
  if (typeof title === 'string') shown.title = title;
  shown.description = tool.description;
  shown.inputSchema = derive(plainSchemas, inputSchema, withPlainNames);
  const outputSchema = tool.select === undefined ? toShapedSchema(tool.output_schema) : undefined;
  if (outputSchema) shown.outputSchema = toListedSchema(tool, outputSchema, style);
  shown.annotations = annotations;
  const listing = toFleetListing(tool);
  const meta = isJsonObject(listing?.['_meta']) ? listing['_meta'] : {};
  return { ...shown, ...listing, _meta: { ...meta, [LIMITS_META]: { ...toolLimits(tool) } } };
}

/** Icons and `_meta` of a tool, with the page of its MCP App at an address that can be read through the fleet. */
function toFleetListing({ binding, listing }: RegisteredTool): JsonObject | undefined {
  const meta = listing?.['_meta'];
  if (binding.kind !== 'mcp' || binding.authority === undefined || !isJsonObject(meta)) return listing;
  const shown: JsonObject = { ...meta };
  const { authority } = binding;
  const { ui, 'ui/resourceUri': flat } = meta;
  if (typeof flat === 'string') shown['ui/resourceUri'] = toFleetAddress(flat, authority);
  if (isJsonObject(ui) && typeof ui['resourceUri'] === 'string')
    shown['ui'] = { ...ui, resourceUri: toFleetAddress(ui['resourceUri'], authority) };
  return { ...listing, _meta: shown };
}

/** Member of a structured result that is the selection of a call. */
export const SELECTION = 'toolfleet_selection';
/** Member of a structured result that is the handle of a kept result. */
export const HANDLE = 'toolfleet_result';
/** Keywords at the top of an output schema that would refuse an object with no other member than a selection. */
const REFUSING = ['required', 'additionalProperties', 'unevaluatedProperties', 'propertyNames', 'minProperties'];
/** Keywords at the top that may refuse it, depending on their references. */
const COMPOSING = ['$ref', '$dynamicRef', 'allOf', 'anyOf', 'oneOf', 'not', 'if', 'const', 'enum'];

/**
 * The output schema as MCP clients see it. MCP requires each structured result to match it, and clients enforce that, but a result may be a
 * selection or a handle, so nothing is required at the top level. Schemas with a top level that refers to others, and schemas that are not
 * objects in all protocol revisions, are not listed.
 */
function toShapedSchema(schema: JsonObject | undefined): JsonObject | undefined {
  if (schema?.type !== 'object' || COMPOSING.some((keyword) => schema[keyword] !== undefined)) return undefined;
  return derive(shapedSchemas, schema, (whole) =>
    Object.fromEntries(Object.entries(whole).filter(([keyword]) => !REFUSING.includes(keyword))),
  );
}

/**
 * The annotations of a tool for MCP clients. An operation's follow from its HTTP method; an operation that is not safe may
 * overwrite or delete. This fleet acts on `idempotentHint`, so a claim of an untrusted server does not appear in it.
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
export function toolMetadata(tool: RegisteredTool): ToolMetadata {
  const optional = <T>(value: T | undefined) => value ?? null;
  return {
    name: tool.name,
    version: tool.version,
    description: tool.description,
    category: tool.category,
    author: optional(tool.author),
    requires_auth: tool.requires_auth ?? false,
    ...toolLimits(tool),
    sandboxed: tool.sandboxed ?? false,
    dangerous: tool.dangerous ?? false,
    session_aware: tool.session_aware ?? false,
    idempotent: tool.idempotent ?? false,
    has_effects: hasEffects(tool),
    retry_policy: optional(tool.retry_policy),
    rate_limit_mode: tool.rate_limit_mode ?? 'reject',
    cache_ttl_seconds: optional(tool.cache_ttl_seconds),
    select: optional(tool.select),
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
 * The tool as its public callers can use it: without the argument values that `dangerous_when` refuses them. An argument with
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

/** The input schema with `type` and `properties`, as some providers require. */
function toParameters(tool: RegisteredTool, style: SchemaStyle): JsonObject {
  const schema = toListedSchema(tool, tool.input_schema, style);
  return schema.type === 'object' && schema.properties
    ? schema
    : { ...schema, type: 'object', properties: schema.properties ?? {} };
}

/** Schemas in other forms by the listed one, replaced and never changed. */
const inlined = new WeakMap<JsonObject, JsonObject>();
const strictSchemas = new WeakMap<JsonObject, JsonObject | undefined>();
const anthropicSchemas = new WeakMap<JsonObject, JsonObject>();
const shapedSchemas = new WeakMap<JsonObject, JsonObject>();
const plainSchemas = new WeakMap<JsonObject, JsonObject>();
const geminiSchemas = new WeakMap<JsonObject, JsonObject>();

function derive<T>(known: WeakMap<JsonObject, T>, schema: JsonObject, make: (schema: JsonObject) => T): T {
  if (!known.has(schema)) known.set(schema, make(schema));
  return known.get(schema) as T;
}

function toListedSchema({ binding }: RegisteredTool, registered: JsonObject, style: SchemaStyle): JsonObject {
  const isRemote = binding.kind === 'mcp' || binding.kind === 'openapi';
  if (style === 'defs' && !isRemote) return registered;
  const { $schema: _dialect, ...schema } = registered;
  if (style === 'defs') return schema;
  return derive(inlined, registered, () => inlineDefinitions(schema));
}
