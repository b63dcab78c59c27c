import { createHash } from 'node:crypto';
import { isJsonObject, toMicroUsd, type Json, type JsonObject } from '@toolfleet/contracts';
import type { DiscoverMessage, DiscoverReply, RemoteTool } from '@toolfleet/contracts/execution';
import type { DefinitionRegister } from '@toolfleet/contracts/registry';
import type { McpBinding, ToolDefinition, ToolSource } from '@toolfleet/contracts/tool-definition';
import { holdsSealed } from '@toolfleet/service';
import type { McpEntry } from './mcp-entry.js';
import { dropUncheckablePatterns, droppedPatternNote } from './uncheckable-patterns.js';

/** Characters of a name that are looked at: a server may call a tool by a megabyte. */
const MAX_READ = 512;
const MAX_NAME = 64;
const VERSION = '1.0.0';

/** Source of an entry's tools; the tenant is behind the name, so that two tenants may use one. */
export function mcpSource(entry: Pick<McpEntry, 'name' | 'tenant'>): ToolSource {
  return { kind: 'mcp', name: entry.tenant === undefined ? entry.name : `${entry.name}@${entry.tenant}` };
}

/** Definitions of everything a server lists and the entry allows. Names depend on nothing but server and tool. */
export function definitionsOfServer(entry: McpEntry, found: DiscoverReply): ToolDefinition[] {
  const allowed = entry.tools ? new Set(entry.tools) : undefined;
  const options = connectionOptions(entry, found.prior);
  return found.tools
    .filter((tool) => !allowed || allowed.has(tool.name))
    .map((tool) => definitionOfTool(entry, tool, options));
}

/** A line for each pattern that was dropped from the schemas of a listed tool, because arguments cannot be checked against it. */
export function droppedPatterns(entry: McpEntry, found: DiscoverReply): string[] {
  return found.tools
    .filter(({ name }) => entry.tools?.includes(name) ?? true)
    .flatMap((tool) => {
      const dropped = new Set<string>();
      for (const schema of [tool.input_schema, tool.output_schema]) if (schema) definitionSchema(schema, dropped);
      return [...dropped].map((pattern) => `${registeredName(entry, tool.name)}: ${droppedPatternNote(pattern)}`);
    });
}

/** What a server lists as its whole announcement, under the terms of its entry. */
export function announcementOf(entry: McpEntry, found: DiscoverReply): DefinitionRegister {
  return {
    source: mcpSource(entry),
    definitions: definitionsOfServer(entry, found),
    replace: true,
    options: { trusted: entry.trusted ?? false, pin: entry.pin ?? 'refuse' },
  };
}

/** Registered name of a remote tool: `<prefix>_<tool>`, always prefixed unless the operator chose `prefix: ""`. */
export function registeredName(entry: Pick<McpEntry, 'name' | 'prefix'>, tool: string): string {
  const prefix = entry.prefix ?? entry.name;
  const wanted = prefix === '' ? tool : `${prefix}_${tool}`;
  const clean = wanted
    .slice(0, MAX_READ)
    .replaceAll(/[^A-Za-z0-9_-]+/g, '_')
    .replaceAll(/^_+|_+$/g, '');
  if (clean === wanted && clean.length <= MAX_NAME) return clean;
  // Changed or cut: two tools may now look alike, so the hash of the original tells them apart whatever their order.
  const mark = createHash('sha256').update(wanted).digest('hex').slice(0, 6);
  return `${clean.slice(0, MAX_NAME - 7) || 'tool'}_${mark}`;
}

/** The one tool of a plain `{"function","args"}` entry. */
export function definitionOfFunction(entry: McpEntry): ToolDefinition {
  const parameters = entry.parameters;
  const functionName = entry.func_name ?? entry.name;
  const binding: McpBinding = {
    kind: 'mcp',
    server: entry.name,
    transport: 'function-args',
    url: entry.url,
    remoteName: functionName,
    options: { ...connectionOptions(entry), ...(parameters?.length ? {} : { whole_args: true }) },
  };
  return {
    name: entry.name,
    version: VERSION,
    description: entry.description ?? `MCP tool ${entry.name}`,
    category: entry.category ?? 'mcp',
    input_schema: parameters?.length ? schemaOfParameters(parameters) : WHOLE_ARGS,
    binding,
    source: mcpSource(entry),
    idempotent: false,
    ...figures(entry),
  };
}

function definitionOfTool(entry: McpEntry, tool: RemoteTool, options: JsonObject): ToolDefinition {
  const schema = definitionSchema(tool.input_schema);
  const annotations: JsonObject = { ...tool.annotations, ...(tool.title ? { title: tool.title } : {}) };
  // Hints are promises of the server: they count only for servers the operator trusts (!3), and are never permissions.
  const promised =
    entry.trusted === true && (annotations['readOnlyHint'] === true || annotations['idempotentHint'] === true);
  return {
    name: registeredName(entry, tool.name),
    aliases: [`${entry.name}.${tool.name}`],
    version: VERSION,
    description: tool.description || tool.title || `Tool ${tool.name} of the MCP server ${entry.name}`,
    category: entry.category ?? 'mcp',
    input_schema: schema,
    ...(tool.output_schema ? { output_schema: definitionSchema(tool.output_schema) } : {}),
    binding: {
      kind: 'mcp',
      server: entry.name,
      transport: entry.command === undefined ? 'streamable-http' : 'stdio',
      url: entry.url,
      remoteName: tool.name,
      options: hasHeaderParameters(tool.input_schema) ? { ...options, header_schema: tool.input_schema } : options,
    },
    source: mcpSource(entry),
    idempotent: promised,
    ...(Object.keys(annotations).length > 0 ? { annotations } : {}),
    ...figures(entry),
  };
}

function figures(entry: McpEntry): Partial<ToolDefinition> {
  const attemptSeconds = entry.max_seconds ?? entry.timeout_seconds;
  return {
    ...(entry.cost_per_use === undefined ? {} : { cost_per_use_micro_usd: toMicroUsd(entry.cost_per_use) }),
    ...(entry.rate_limit === undefined ? {} : { rate_limit: entry.rate_limit }),
    ...(attemptSeconds === undefined ? {} : { timeout_seconds: attemptSeconds }),
    ...(entry.forwards_idempotency_key ? { forwards_idempotency_key: true } : {}),
    ...(entry.task_support === undefined ? {} : { task_support: entry.task_support }),
  };
}

/** What mcp-executor needs to connect. Variables stay unexpanded; the same object for every tool of the server. */
export function connectionOptions(entry: McpEntry, prior?: JsonObject): JsonObject {
  const options: JsonObject = {};
  for (const field of [
    'headers',
    'oauth',
    'command',
    'args',
    'env',
    'cwd',
    'memory_limit_mb',
    'timeout_seconds',
    'max_response_bytes',
    'max_seconds',
  ] as const) {
    const value = entry[field];
    if (value !== undefined) options[field] = value as Json;
  }
  // Where the executor may open what is sealed.
  if (holdsSealed(options)) options['registration'] = mcpSource(entry).name;
  if (prior) options['prior'] = prior;
  return options;
}

/** The question to mcp-executor: which tools does this server list? */
export function discoverMessage(entry: McpEntry): DiscoverMessage {
  return {
    server: entry.name,
    transport: entry.command === undefined ? 'streamable-http' : 'stdio',
    url: entry.url,
    ...connectionOptions(entry),
  };
}

const DIALECT = 'https://json-schema.org/draft/2020-12/schema';

/**
 * A remote schema as a definition may carry it: unchanged, but for patterns that cannot be checked and the older spelling
 * `definitions` of `$defs`. An older dialect is not named then: the drafts agree on everything a tool list uses, and the fleet
 * validates as 2020-12.
 */
function definitionSchema(schema: JsonObject, dropped = new Set<string>()): JsonObject {
  const { $schema: dialect, ...plain } = schema;
  const rest = dropUncheckablePatterns(dialect === DIALECT ? schema : plain, dropped);
  if (!isJsonObject(rest['definitions']) || isJsonObject(rest['$defs'])) return rest;
  const { definitions, ...others } = rest;
  return renameReferences({ ...others, $defs: definitions }) as JsonObject;
}

function renameReferences(value: Json): Json {
  if (Array.isArray(value)) return value.map(renameReferences);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) =>
      key === '$ref' && typeof item === 'string'
        ? [key, item.replace(/^#\/definitions\//, '#/$defs/')]
        : [key, renameReferences(item)],
    ),
  );
}

function hasHeaderParameters(schema: JsonObject): boolean {
  return JSON.stringify(schema).includes('"x-mcp-header"');
}

const WHOLE_ARGS: JsonObject = {
  type: 'object',
  properties: { args: { type: 'object', description: 'Arguments of the remote function' } },
};

const TYPES: Record<string, string> = {
  string: 'string',
  integer: 'integer',
  float: 'number',
  number: 'number',
  boolean: 'boolean',
  array: 'array',
  object: 'object',
};

/** The parameter list of the configuration file as JSON Schema; an unknown type means object. */
function schemaOfParameters(parameters: readonly JsonObject[]): JsonObject {
  const properties: JsonObject = {};
  const required: string[] = [];
  for (const parameter of parameters) {
    const name = String(parameter['name'] ?? '');
    if (name === '') continue;
    const property: JsonObject = { type: TYPES[String(parameter['type'] ?? 'string')] ?? 'object' };
    for (const field of ['description', 'default', 'enum', 'pattern', 'items'] as const) {
      const value = parameter[field];
      if (value !== undefined && value !== null) property[field] = value;
    }
    if (typeof parameter['min_value'] === 'number') property['minimum'] = parameter['min_value'];
    if (typeof parameter['max_value'] === 'number') property['maximum'] = parameter['max_value'];
    properties[name] = property;
    if (parameter['required'] === true) required.push(name);
  }
  return { type: 'object', properties, ...(required.length > 0 ? { required } : {}) };
}
