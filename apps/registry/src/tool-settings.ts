/**
 * Settings of administrators for tools: fields of a source's entry apply to all its tools, `overrides` of the entry to those a
 * name pattern matches, and the section `tool_settings` of the configuration file to tools of every source.
 */
import type { JsonObject } from '@toolfleet/contracts';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import { TOOL_SETTINGS, type ToolSettings } from '@toolfleet/contracts/tool-settings';
import type { SettingsByPattern } from '@toolfleet/fleet-file';

/** A local MCP server is one process for all its tools, so its memory limit belongs to the entry. */
const NAMES_OF_SOURCE = Object.keys(TOOL_SETTINGS).filter((name) => name !== 'memory_limit_mb');

/**
 * The settings that apply to a tool with these names. A more specific pattern wins, field by field: an exact name over patterns,
 * then the pattern with more characters besides `*`. The order in the mapping does not matter, because many JSON writers sort keys.
 */
export function matchSettings(overrides: SettingsByPattern | undefined, names: readonly string[]): ToolSettings {
  const matching = Object.keys(overrides ?? {})
    .filter((pattern) => names.some((name) => matches(pattern, name)))
    .toSorted((a, b) => specificity(a) - specificity(b) || (a < b ? -1 : 1));
  return Object.assign({}, ...matching.map((pattern) => overrides?.[pattern])) as ToolSettings;
}

/** Patterns that match none of the tools, probably typos. Each tool has several names. */
function unusedPatterns(overrides: SettingsByPattern | undefined, tools: readonly (readonly string[])[]): string[] {
  return Object.keys(overrides ?? {}).filter(
    (pattern) => !tools.some((names) => names.some((name) => matches(pattern, name))),
  );
}

/** A line about patterns of an entry that match no tool; undefined when all match. */
export function unusedPatternsNote(
  overrides: SettingsByPattern | undefined,
  definitions: readonly ToolDefinition[],
): string | undefined {
  const unused = unusedPatterns(overrides, definitions.map(namesInOverrides));
  return unused.length > 0 ? `overrides match no tool: ${unused.slice(0, 20).join(', ')}` : undefined;
}

/** Names by which `overrides` of an entry may refer to a tool: its registered name and its name at the source. */
function namesInOverrides({ name, binding }: ToolDefinition): string[] {
  if (binding.kind === 'mcp') return [name, binding.remoteName];
  return binding.kind === 'openapi' ? [name, binding.operationId] : [name];
}

/**
 * A definition with the settings of its entry.
 * @param entry settings of the whole source, and its `overrides`
 */
export function withEntrySettings(
  definition: ToolDefinition,
  entry: ToolSettings & { overrides?: SettingsByPattern },
): ToolDefinition {
  const ofSource = pickSettings(entry as JsonObject);
  // Calls of a method that writes have to reach the server, unless an override names the tool.
  if (definition.cache_ttl_seconds === 0) delete ofSource.cache_ttl_seconds;
  // With `max_seconds`, `timeout_seconds` of the entry limits the time between two reports of progress.
  if (definition.timeout_seconds !== undefined) delete ofSource.timeout_seconds;
  const ofTool = matchSettings(entry.overrides, namesInOverrides(definition));
  return applySettings(definition, { ...ofSource, ...ofTool });
}

/**
 * A definition with settings that take precedence over its own, except that protections only rise: a tool that declares
 * itself dangerous, or requires a user, stays so.
 */
export function applySettings(definition: ToolDefinition, settings: ToolSettings): ToolDefinition {
  if (Object.keys(settings).length === 0) return definition;
  const { memory_limit_mb: memoryMb, ...given } = settings;
  const applied: ToolDefinition = { ...definition, ...given };
  if (definition.dangerous) applied.dangerous = true;
  if (definition.requires_auth) applied.requires_auth = true;
  const { binding } = applied;
  if (binding.kind === 'python' && memoryMb !== undefined) applied.memory_limit_mb = memoryMb;
  // mcp-executor also limits attempts by the options of the connection.
  if (binding.kind === 'mcp' && given.timeout_seconds !== undefined)
    applied.binding = { ...binding, options: { ...binding.options, timeout_seconds: given.timeout_seconds } };
  return applied;
}

function pickSettings(entry: JsonObject): ToolSettings {
  return Object.fromEntries(
    NAMES_OF_SOURCE.flatMap((name) => (entry[name] === undefined || entry[name] === null ? [] : [[name, entry[name]]])),
  ) as ToolSettings;
}

function specificity(pattern: string): number {
  return pattern.includes('*') ? pattern.replaceAll('*', '').length : Infinity;
}

/** Matches in linear time per `*`: each part between two `*` is searched after the one before. */
function matches(pattern: string, name: string): boolean {
  const [first = '', ...parts] = pattern.split('*');
  const last = parts.pop();
  if (last === undefined) return pattern === name;
  if (!name.startsWith(first)) return false;
  let at = first.length;
  for (const part of parts) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return name.length - last.length >= at && name.endsWith(last);
}
