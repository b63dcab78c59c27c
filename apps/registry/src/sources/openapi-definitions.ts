import { toMicroUsd, type JsonObject } from '@toolfleet/contracts';
import type { OpenApiBinding, ToolDefinition, ToolSource } from '@toolfleet/contracts/tool-definition';
import { planJson, type OpenApiTool, type ParameterPlace } from '@toolfleet/openapi';
import { sourceName } from '../tool-key.js';
import { withEntrySettings } from '../tool-settings.js';
import type { OpenApiEntry } from '@toolfleet/fleet-file';

const SEMVER = /^\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?$/;
/** Methods with cacheable results. PUT and DELETE are idempotent, but every call must reach the server. */
const CACHEABLE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'QUERY']);

/** Source of a collection's tools. */
export function openApiSource(entry: Pick<OpenApiEntry, 'name' | 'tenant'>): ToolSource {
  return { kind: 'openapi', name: sourceName(entry.name, entry.tenant) };
}

/** Definition of an operation. Its binding contains everything an executor needs. */
export function toOperationDefinition(
  tool: OpenApiTool,
  baseUrl: string,
  entry: OpenApiEntry,
  options: JsonObject,
  documentVersion: unknown,
): ToolDefinition {
  const binding: OpenApiBinding = {
    kind: 'openapi',
    collection: entry.name,
    baseUrl,
    operationId: tool.operationId.slice(0, 512),
    method: tool.method,
    path: tool.path,
    plan: planJson(tool.plan()),
    options,
    auth: entry.auth,
  };
  const definition: ToolDefinition = {
    name: tool.name,
    aliases: toAliases(tool.name, entry),
    version: typeof documentVersion === 'string' && SEMVER.test(documentVersion) ? documentVersion : '1.0.0',
    description: tool.description,
    category: entry.category ?? 'api',
    input_schema: tool.inputSchema(),
    binding,
    source: openApiSource(entry),
    idempotent: tool.idempotent,
  };
  const tags = [...new Set(tool.tags.map((tag) => tag.slice(0, 64)))].filter((tag) => tag !== '').slice(0, 50);
  if (tags.length > 0) definition.tags = tags;
  const output = tool.outputSchema();
  if (output) definition.output_schema = output;
  if (entry.base_cost_per_use !== undefined) definition.cost_per_use_micro_usd = toMicroUsd(entry.base_cost_per_use);
  if (!CACHEABLE.has(tool.method)) definition.cache_ttl_seconds = 0;
  if (!tool.idempotent) definition.forwards_idempotency_key = true;
  if (entry.vendor_adapter ?? entry.auth_config?.vendor) definition.context_keys = ['prompt_params'];
  return withEntrySettings(definition, entry);
}

/** `collection.tool` resolves with and without the name prefix. */
function toAliases(name: string, { name: collection, name_prefix: prefix = '' }: OpenApiEntry): string[] {
  const aliases = [`${collection}.${name}`];
  if (prefix !== '' && name.startsWith(prefix)) aliases.push(`${collection}.${name.slice(prefix.length)}`);
  return aliases;
}

/** Tells which parameters the configuration supplies; they do not appear in the input schema. */
export function suppliedParameters(entry: Partial<OpenApiEntry>): (place: ParameterPlace, name: string) => boolean {
  const supplied = new Set<string>();
  for (const name of Object.keys(entry.extra_headers ?? {})) supplied.add(`header ${name.toLowerCase()}`);
  const nested = entry.auth_config?.extra_headers;
  if (typeof nested === 'object' && nested !== null) {
    for (const name of Object.keys(nested)) supplied.add(`header ${name.toLowerCase()}`);
  }
  if (entry.auth_type === 'api_key') {
    const { api_key_name: name, api_key_location: place } = entry.auth_config ?? {};
    supplied.add(`${typeof place === 'string' ? place : 'header'} ${String(name ?? 'X-API-Key').toLowerCase()}`);
  }
  return (place, name) => supplied.has(`${place} ${name.toLowerCase()}`);
}
