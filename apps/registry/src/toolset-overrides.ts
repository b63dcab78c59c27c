/**
 * An override is written for one state of a definition. The registry pins the parts of the definition that the override covers, and
 * disables the override when one of them changes, because a preset or a description could then mean something else. Parts that it does not
 * cover may change; the quarantine of definitions covers those (quarantine.ts).
 */
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import type { ToolOverride } from '@toolfleet/contracts/toolset';
import { canonicalJson, compileSchema, explainErrors, sha256Hex } from '@toolfleet/bounded-schema';

/** Identifies the content of an override of a tool: changed content is a new override with its own pin. */
export function toPinKey(tool: string, override: ToolOverride): string {
  return `${tool} ${sha256Hex(canonicalJson(override as Json)).slice(0, 16)}`;
}

/**
 * The parts of a definition that an override covers: the description if it changes a name or a description: they tell a model
 * the tool's purpose; and of each argument that it presets, hides or gives a default, the schema and whether it is required.
 */
export function coveredFields(
  { description, input_schema: schema }: Pick<ToolDefinition, 'description' | 'input_schema'>,
  override: ToolOverride,
): JsonObject {
  const fields: JsonObject = {};
  if (override.name !== undefined || override.description !== undefined) fields['description'] = description;
  const required = Array.isArray(schema.required) ? schema.required : [];
  for (const name of coveredArguments(override)) {
    const property = propertyOf(schema, name) ?? null;
    fields[`argument ${name}`] = { schema: property, required: required.includes(name) };
    if (JSON.stringify(property).includes('"$ref"') && schema.$defs !== undefined) fields['$defs'] = schema.$defs;
  }
  return fields;
}

/** The covered parts that differ; empty when none does. */
export function changedFields(pinned: JsonObject, current: JsonObject): string[] {
  const names = new Set([...Object.keys(pinned), ...Object.keys(current)]);
  return [...names].filter((name) => canonicalJson(pinned[name] ?? null) !== canonicalJson(current[name] ?? null));
}

/** The parts of an override that do not fit a definition; empty when all do. */
export function findMisfits(
  { name: tool, input_schema: schema }: Pick<ToolDefinition, 'name' | 'input_schema'>,
  override: ToolOverride,
): string[] {
  const { preset = {}, defaults = {}, hide = [] } = override;
  const isFreeForm = schema.properties === undefined;
  const misfits: string[] = [];
  for (const name of coveredArguments(override)) {
    if (!isFreeForm && propertyOf(schema, name) === undefined) misfits.push(`'${name}' is not an argument of ${tool}`);
  }
  for (const [name, value] of [...Object.entries(preset), ...Object.entries(defaults)]) {
    const property = propertyOf(schema, name);
    if (property === undefined) continue;
    const check = compileSchema({ $defs: schema.$defs ?? {}, type: 'object', properties: { [name]: property } });
    const sent = { [name]: value };
    if (!check.check(sent)) misfits.push(...explainErrors(check.errors(sent)).map(({ message }) => message));
  }
  const required = Array.isArray(schema.required) ? schema.required : [];
  for (const name of hide) {
    const property = propertyOf(schema, name);
    const hasDefault = isJsonObject(property) && property.default !== undefined;
    if (required.includes(name) && !hasDefault && !Object.hasOwn(preset, name))
      misfits.push(`'${name}' is required: preset it instead of hiding it`);
  }
  return misfits;
}

function coveredArguments({ preset = {}, defaults = {}, hide = [] }: ToolOverride): Set<string> {
  return new Set([...Object.keys(preset), ...Object.keys(defaults), ...hide]);
}

function propertyOf(schema: JsonObject, name: string): Json | undefined {
  return isJsonObject(schema.properties) && Object.hasOwn(schema.properties, name)
    ? schema.properties[name]
    : undefined;
}
