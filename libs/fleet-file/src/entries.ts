import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { Value } from '@toolfleet/contracts/json-schema';
import { GATEWAY_TOOLS } from '@toolfleet/contracts/tool-definition';
import type { ToolsetSpec } from '@toolfleet/contracts/toolset';
import { findFaults, memberPath, type Fault } from './faults.js';
import { ENTRY_SECTIONS } from './schema.js';

/** An entry of `openapi_tools`, or a registration. Variables are not expanded. */
export type OpenApiEntry = Named & Omit<EntryFields<'openapi_tools'>, 'spec_inline'> & { spec_inline?: string };

/** An entry of `mcp_servers` or `mcp_tools`, or a registration. Variables are not expanded. */
export type McpEntry = Named & Omit<EntryFields<'mcp_servers'>, 'url'> & { url: string };

interface Named {
  name: string;
  /** The only tenant that sees the tools. Of a registration, the gateway sets it, never the caller. */
  tenant?: string;
}
type EntryFields<Section extends SourceSection> = Value<(typeof ENTRY_SECTIONS)[Section]['schema']>;

/** Sections with sources of tools. */
export type SourceSection = 'openapi_tools' | 'mcp_servers' | 'mcp_tools';

/**
 * Checks an entry, and removes keys without a value.
 * @param path place of the entry in messages; empty for a registration
 * @returns the fields, or the faults
 */
export function readFields(section: keyof typeof ENTRY_SECTIONS, body: Json, path: string): JsonObject | Fault[] {
  const { schema } = ENTRY_SECTIONS[section];
  const fields = isJsonObject(body) ? withoutUnset(schema, body) : body;
  const faults = findFaults(schema, fields, path);
  return faults.length > 0 ? faults : (fields as JsonObject);
}

/** Checks an entry of `openapi_tools` or the fields of a registration, without `name`. */
export function readOpenApiEntry(name: string, body: Json, path = ''): OpenApiEntry | Fault[] {
  const faults = findFaults(ENTRY_SECTIONS.openapi_tools.name, name, memberPath(path, 'name'));
  const fields = readFields('openapi_tools', body, path);
  if (Array.isArray(fields)) return [...faults, ...fields];
  if (isJsonObject(fields.spec_inline)) fields.spec_inline = JSON.stringify(fields.spec_inline);
  if (![fields.spec_url, fields.spec_inline, fields.spec_path].some(Boolean))
    faults.push({ path, message: 'needs spec_url, spec_path or spec_inline' });
  faults.push(...findSharingFaults(fields, path));
  return faults.length > 0 ? faults : ({ ...fields, name } as unknown as OpenApiEntry);
}

/** Checks an entry of `mcp_servers` or `mcp_tools` or the fields of a registration, without `name`. */
export function readMcpEntry(name: string, body: Json, isFunction: boolean, path = ''): McpEntry | Fault[] {
  const read = readFields(isFunction ? 'mcp_tools' : 'mcp_servers', body, path);
  if (Array.isArray(read)) return read;
  const { enabled: _enabled, ...fields } = read;
  const isLocal = fields.command !== undefined;
  if (!isLocal && fields.memory_limit_mb !== undefined)
    return [{ path: memberPath(path, 'memory_limit_mb'), message: 'is for local servers only (command)' }];
  if (!isLocal && !fields.url) return [{ path, message: 'needs a url' }];
  if (isFunction && fields.func_name === undefined) return [{ path, message: 'needs func_name' }];
  const sharing = findSharingFaults(fields, path);
  if (sharing.length > 0) return sharing;
  return { ...fields, name, url: fields.url ?? '' } as unknown as McpEntry;
}

/** Results of calls that act as one user upstream are shared with no other. */
function findSharingFaults({ auth, results, overrides }: JsonObject, path: string): Fault[] {
  if (auth === undefined) return [];
  const of = { '': results, ...(isJsonObject(overrides) ? overrides : {}) };
  return Object.entries(of).flatMap(([pattern, settings]) => {
    const isShared = settings === 'tenant' || (isJsonObject(settings) && settings.results === 'tenant');
    const at = pattern === '' ? path : memberPath(memberPath(path, 'overrides'), pattern);
    const message =
      'must not be tenant with auth: calls act with the credential of one user, who alone sees their results';
    return isShared ? [{ path: memberPath(at, 'results'), message }] : [];
  });
}

/** Rules beyond the schema of a toolset: names that are used twice, or by the gateway, and arguments that an override decides twice. */
export function findToolsetFaults(spec: ToolsetSpec, path = ''): Fault[] {
  const names = new Map<string, string>(GATEWAY_TOOLS.map((name) => [name, 'a tool of the gateway']));
  return Object.entries(spec.overrides ?? {}).flatMap(([tool, { name, preset = {}, defaults = {}, hide = [] }]) => {
    const at = memberPath(memberPath(path, 'overrides'), tool);
    const faults: Fault[] = [];
    const other = name === undefined ? undefined : names.get(name);
    if (other !== undefined) faults.push({ path: `${at}.name`, message: `'${name}' is the name of ${other} already` });
    if (name !== undefined) names.set(name, tool);
    const twice = [...Object.keys(defaults), ...hide].find((argument) => Object.hasOwn(preset, argument));
    const both = twice ?? hide.find((argument) => Object.hasOwn(defaults, argument));
    if (both !== undefined)
      faults.push({ path: at, message: `'${both}' may be in only one of preset, defaults and hide` });
    return faults;
  });
}

/** True for a single remote function, false for an MCP server. */
export function isFunctionEntry(entry: McpEntry): boolean {
  return entry.func_name !== undefined || entry.transport === 'function-args';
}

/** Without the known keys that have no value; also in settings by name pattern, where they are inherited. */
function withoutUnset(schema: JsonObject, fields: JsonObject): JsonObject {
  const known = isJsonObject(schema.properties) ? schema.properties : {};
  return Object.fromEntries(
    Object.entries(fields).flatMap(([name, value]): [string, Json][] => {
      if (value === null) return Object.hasOwn(known, name) ? [] : [[name, value]];
      return [[name, name === 'overrides' ? withoutUnsetPatterns(known[name], value) : value]];
    }),
  );
}

/** The same for a mapping of name patterns to settings. */
export function withoutUnsetPatterns(schema: Json | undefined, patterns: Json): Json {
  const settings = isJsonObject(schema) ? schema.additionalProperties : undefined;
  if (!isJsonObject(settings) || !isJsonObject(patterns)) return patterns;
  return Object.fromEntries(
    Object.entries(patterns).map(([name, value]) => [
      name,
      isJsonObject(value) ? withoutUnset(settings, value) : value,
    ]),
  );
}
