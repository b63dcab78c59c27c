import { isJsonObject, toMicroUsd, type Json, type JsonObject } from '@toolfleet/contracts';
import type { DiscoverMessage, DiscoverReply, RemoteTool } from '@toolfleet/contracts/execution';
import { PAGE_DIGEST } from '@toolfleet/contracts/app-page';
import type { DefinitionRegister } from '@toolfleet/contracts/registry';
import type { McpBinding, ToolDefinition, ToolSource } from '@toolfleet/contracts/tool-definition';
import { holdsSealed } from '@toolfleet/service';
import { sourceName } from '../tool-key.js';
import { boundToOrigins, withServerResource } from './discovered-auth.js';
import type { McpEntry } from '@toolfleet/fleet-file';
import { unusedPatternsNote, withEntrySettings } from '../tool-settings.js';
import {
  authorityOf,
  pinsContents,
  toFeatureDefinitions,
  unpinnedTexts,
  withoutDigest,
  type ServerDefinition,
} from './mcp-features.js';
import { MAX_LISTING_CHARS, readListing } from './mcp-listing.js';
import { registeredName } from './registered-name.js';
import { dropUncheckablePatterns, droppedPatternNote } from './uncheckable-patterns.js';

/** Valid aliases. */
const ALIAS = /^[A-Za-z0-9_.@-]{1,200}$/;
const VERSION = '1.0.0';

/** Source of an entry's tools. */
export function mcpSource(entry: Pick<McpEntry, 'name' | 'tenant'>): ToolSource {
  return { kind: 'mcp', name: sourceName(entry.name, entry.tenant) };
}

/** Definitions of all tools, prompts, skills and resources that the entry allows. Names depend only on the entry and the tool. */
export function toServerDefinitions(entry: McpEntry, found: DiscoverReply): ToolDefinition[] {
  const source = mcpSource(entry);
  const server: ServerDefinition = {
    version: VERSION,
    category: entry.category ?? 'mcp',
    source,
    binding: {
      kind: 'mcp',
      server: entry.name,
      transport: entry.command === undefined ? 'streamable-http' : 'stdio',
      url: entry.url,
      authority: authorityOf(entry, source, found),
      options: connectionOptions(entry, found.prior),
      auth: boundToOrigins(withServerResource(entry.auth, entry.url), [entry.url]),
    },
  };
  return [
    ...allowedTools(entry, found).map((tool) => toToolDefinition(entry, tool, server)),
    ...toFeatureDefinitions(entry, found, server, {
      ofServer: registeredName({ name: entry.name, prefix: '' }, entry.prefix || entry.name),
      of: (prompt) => registeredName(entry, prompt),
    }),
  ];
}

/** The tools of a server that the entry allows. */
function allowedTools({ tools }: McpEntry, found: DiscoverReply): RemoteTool[] {
  const allowed = tools && new Set(tools);
  return found.tools.filter(({ name }) => !allowed || allowed.has(name));
}

/** Registers the tools a server lists, with the trust and pinning options of its entry. */
export function toAnnouncement(entry: McpEntry, found: DiscoverReply): DefinitionRegister {
  return {
    source: mcpSource(entry),
    definitions: toServerDefinitions(entry, found),
    replace: true,
    options: {
      trusted: entry.trusted ?? false,
      pin: entry.pin ?? 'refuse',
      ...(entry.new_tools && { new_tools: entry.new_tools }),
      named: [...(entry.tools ?? []), ...(entry.prompts ?? []), ...(entry.resources ? [entry.name] : [])],
    },
  };
}

/** Definition of an entry for a plain `{"function","args"}` endpoint. */
export function toFunctionDefinition(entry: McpEntry): ToolDefinition {
  const parameters = entry.parameters;
  const functionName = entry.func_name ?? entry.name;
  const binding: McpBinding = {
    kind: 'mcp',
    server: entry.name,
    transport: 'function-args',
    url: entry.url,
    remoteName: functionName,
    options: parameters?.length ? connectionOptions(entry) : { ...connectionOptions(entry), whole_args: true },
    auth: boundToOrigins(entry.auth, [entry.url]),
  };
  const definition: ToolDefinition = {
    name: entry.name,
    version: VERSION,
    description: entry.description ?? `MCP tool ${entry.name}`,
    category: entry.category ?? 'mcp',
    input_schema: parameters?.length ? toInputSchema(parameters) : WHOLE_ARGS,
    binding,
    source: mcpSource(entry),
    idempotent: false,
    ...declaredLimits(entry),
  };
  return withEntrySettings(definition, entry);
}

function toToolDefinition(entry: McpEntry, tool: RemoteTool, server: ServerDefinition): ToolDefinition {
  const schema = definitionSchema(tool.input_schema);
  const annotations: JsonObject = { ...tool.annotations };
  const name = registeredName(entry, tool.name, tool);
  // People see the name that the server gave it.
  const title = tool.title ?? (name.endsWith(tool.name) ? undefined : tool.name);
  if (title) annotations['title'] ??= title;
  // MCP: clients must consider annotations untrusted unless they come from a trusted server. They never grant a permission.
  const promised =
    entry.trusted === true && (annotations['readOnlyHint'] === true || annotations['idempotentHint'] === true);
  const { options } = server.binding;
  const definition: ToolDefinition = {
    ...server,
    name,
    aliases: [`${entry.name}.${tool.name}`].filter((alias) => ALIAS.test(alias)),
    description: tool.description || tool.title || `Tool ${tool.name} of the MCP server ${entry.name}`,
    input_schema: schema,
    output_schema: tool.output_schema && definitionSchema(tool.output_schema),
    binding: {
      ...server.binding,
      remoteName: tool.name,
      options: hasHeaderParameters(tool.input_schema) ? { ...options, header_schema: tool.input_schema } : options,
    },
    idempotent: promised,
    annotations: Object.keys(annotations).length > 0 ? annotations : undefined,
    listing: readListing(
      pinsContents(entry) || !tool.listing ? tool : { listing: withoutDigest(tool.listing, PAGE_DIGEST) },
    ).listing,
    ...declaredLimits(entry),
  };
  return withEntrySettings(definition, entry);
}

/**
 * Notes for administrators about the tools of a server: overrides without a tool, schema patterns, icons and `_meta` that were
 * dropped.
 */
export function serverNotes(entry: McpEntry, found: DiscoverReply): string[] {
  const unused = unusedPatternsNote(entry.overrides, toServerDefinitions(entry, found));
  const refused = (found.skills?.refused ?? []).map((reason) => `a skill is left out: ${reason}`);
  const notes = [
    ...(found.notes ?? []),
    ...droppedPatterns(entry, found),
    ...droppedListings(entry, found),
    ...unpinnedTexts(entry, found),
    ...refused,
  ];
  return unused === undefined ? notes : [unused, ...notes];
}

function droppedListings(entry: McpEntry, found: DiscoverReply): string[] {
  return allowedTools(entry, found)
    .flatMap((tool) =>
      readListing(tool).dropped.map((field) => [registeredName(entry, tool.name, tool), field] as const),
    )
    .map(
      ([name, field]) =>
        `${name}: its ${field} is not shown; it must be safe and have at most ${MAX_LISTING_CHARS} characters`,
    );
}

/** A line for each pattern that was dropped from the schemas of a listed tool, because arguments cannot be checked against it. */
function droppedPatterns(entry: McpEntry, found: DiscoverReply): string[] {
  return allowedTools(entry, found).flatMap((tool) => {
    const dropped = new Set<string>();
    for (const schema of [tool.input_schema, tool.output_schema]) if (schema) definitionSchema(schema, dropped);
    return [...dropped].map((pattern) => `${registeredName(entry, tool.name, tool)}: ${droppedPatternNote(pattern)}`);
  });
}

/** The price, the time limit of a server that reports progress, and the task support that an entry declares. */
function declaredLimits(entry: McpEntry): Partial<ToolDefinition> {
  return {
    cost_per_use_micro_usd: entry.cost_per_use === undefined ? undefined : toMicroUsd(entry.cost_per_use),
    timeout_seconds: entry.max_seconds,
    forwards_idempotency_key: entry.forwards_idempotency_key || undefined,
    task_support: entry.task_support,
  };
}

/** Options with which mcp-executor connects, identical for all tools of a server. Variables stay unexpanded. */
function connectionOptions(entry: McpEntry, prior?: JsonObject): JsonObject {
  const options: JsonObject = {};
  for (const field of [
    'headers',
    'oauth',
    'command',
    'args',
    'env',
    'cwd',
    'memory_limit_mb',
    'protocol_version',
    'start_seconds',
    'timeout_seconds',
    'max_response_bytes',
    'max_seconds',
  ] as const) {
    const value = entry[field];
    if (value !== undefined) options[field] = value as Json;
  }
  // The executor opens sealed values only for this registration.
  if (holdsSealed(options)) options['registration'] = mcpSource(entry).name;
  if (prior) options['prior'] = prior;
  return options;
}

/** The request that asks mcp-executor which tools a server lists. */
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
 * A remote schema as JSON Schema 2020-12, without patterns that cannot be checked: `definitions` of older drafts becomes `$defs`,
 * and the name of an older dialect is dropped. The drafts agree on everything else that tool lists use.
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

/** The parameter list of a function entry as JSON Schema. An unknown type becomes `object`. */
function toInputSchema(parameters: NonNullable<McpEntry['parameters']>): JsonObject {
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
  return required.length > 0 ? { type: 'object', properties, required } : { type: 'object', properties };
}
