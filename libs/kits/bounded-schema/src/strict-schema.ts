import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';

/** Keywords that strict mode accepts unchanged. Other constraints are left out: check each call against the whole schema. */
const KEPT = ['type', 'enum', '$ref', 'pattern', 'multipleOf', 'maximum', 'exclusiveMaximum', 'minimum'] as const;
const ALSO_KEPT = ['exclusiveMinimum', 'minItems', 'maxItems'] as const;
const FORMATS: ReadonlySet<Json> = new Set([
  ...['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid'],
]);
/** Keywords that change which properties a value may have. Without them strict mode would promise another shape. */
const NOT_EXPRESSED = [
  'allOf',
  'not',
  'if',
  'patternProperties',
  'dependentSchemas',
  'dependentRequired',
  'prefixItems',
];

/** Limits of one schema, from the same page. */
const MAX_LEVELS = 10;
const MAX_PROPERTIES = 5_000;
const MAX_VALUES = 1_000;
const MAX_NAME_CHARS = 120_000;

/** Thrown inside this file only. */
class NotStrict extends Error {}

/**
 * The input schema of a tool for OpenAI's strict mode (https://platform.openai.com/docs/guides/structured-outputs#supported-schemas):
 * every object is closed and requires all of its properties, and an optional argument may be null, treated by a call as
 * absent. Undefined where strict mode cannot express the schema: objects with free keys, values of any type, optional properties
 * below the first level (their null would reach the tool), `allOf`, more than 10 levels or 5,000 properties.
 */
export function toStrictSchema(schema: JsonObject): JsonObject | undefined {
  try {
    const strict = toObject(schema, true);
    return isStrictSize(strict) ? strict : undefined;
  } catch (error) {
    if (error instanceof NotStrict) return undefined;
    throw error;
  }
}

function toObject(schema: JsonObject, isRoot = false): JsonObject {
  const { properties, additionalProperties: extra } = schema;
  const isOpen = isRoot ? extra === true || isJsonObject(extra) : extra !== undefined && extra !== false;
  if (isOpen || !isJsonObject(properties) || (!isRoot && Object.keys(properties).length === 0)) throw new NotStrict();
  const required = new Set<Json>(Array.isArray(schema.required) ? schema.required : []);
  const strict = Object.entries(properties).map(([name, property]) => {
    const own = toStrict(property);
    if (required.has(name)) return [name, own] as const;
    if (isRoot) return [name, orNull(own)] as const;
    throw new NotStrict();
  });
  const definitions = [schema.$defs, schema.definitions].some((value) => value !== undefined)
    ? { $defs: toDefinitions(schema) }
    : undefined;
  if (isRoot) rejectUnexpressed(schema);
  return {
    type: 'object',
    properties: Object.fromEntries(strict),
    required: Object.keys(properties),
    additionalProperties: false,
    ...definitions,
  };
}

/** Definitions of both names, under `$defs`. */
function toDefinitions({ $defs, definitions }: JsonObject): JsonObject {
  if (definitions !== undefined) throw new NotStrict(); // References name the other place.
  return isJsonObject($defs)
    ? Object.fromEntries(Object.entries($defs).map(([name, value]) => [name, toStrict(value)]))
    : {};
}

function toStrict(schema: Json): JsonObject {
  if (!isJsonObject(schema)) throw new NotStrict();
  rejectUnexpressed(schema);
  const types = [schema.type].flat();
  const strict: JsonObject = {};
  for (const key of [...KEPT, ...ALSO_KEPT]) if (schema[key] !== undefined) strict[key] = schema[key];
  if (schema.const !== undefined) strict.enum = [schema.const];
  if (schema.format !== undefined && FORMATS.has(schema.format)) strict.format = schema.format;
  const described = describe(schema);
  if (described !== undefined) strict.description = described;
  const options = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(options)) strict.anyOf = options.map(toStrict);
  if (types.includes('object')) Object.assign(strict, toObject(schema), { type: schema.type });
  if (types.includes('array')) strict.items = toStrict(schema.items ?? null);
  const isAny = !['type', 'enum', '$ref', 'anyOf'].some((key) => strict[key] !== undefined);
  if (isAny) throw new NotStrict();
  return strict;
}

function rejectUnexpressed(schema: JsonObject): void {
  if (NOT_EXPRESSED.some((keyword) => schema[keyword] !== undefined)) throw new NotStrict();
}

/** The description with the default, a keyword that strict mode refuses. */
function describe({ description, default: fallback }: JsonObject): string | undefined {
  const note = fallback === undefined || fallback === null ? '' : ` (default: ${JSON.stringify(fallback)})`;
  const text = `${typeof description === 'string' ? description : ''}${note}`.trim();
  return text === '' ? undefined : text;
}

/** Whether a strict schema is within the limits. */
function isStrictSize(schema: JsonObject): boolean {
  let [properties, values, chars] = [0, 0, 0];
  const measure = (node: Json, level: number): boolean => {
    if (!isJsonObject(node)) return true;
    if (level > MAX_LEVELS) return false;
    const named = [node.properties, node.$defs].flatMap((part) => (isJsonObject(part) ? Object.entries(part) : []));
    const listed = Array.isArray(node.enum) ? node.enum : [];
    const options = Array.isArray(node.anyOf) ? node.anyOf : [];
    properties += named.length;
    values += listed.length;
    for (const text of [...named.map(([name]) => name), ...listed]) chars += String(text).length;
    return (
      named.every(([, part]) => measure(part, level + 1)) &&
      options.every((part) => measure(part, level)) &&
      measure(node.items ?? null, level + 1)
    );
  };
  const isShallow = measure(schema, 1);
  return isShallow && properties <= MAX_PROPERTIES && values <= MAX_VALUES && chars <= MAX_NAME_CHARS;
}

function orNull(schema: JsonObject): JsonObject {
  const { description, ...rest } = schema;
  if (schema.anyOf === undefined && schema.type !== undefined) {
    const types = [schema.type].flat();
    const strict: JsonObject = { ...schema, type: types.includes('null') ? schema.type : [...types, 'null'] };
    if (Array.isArray(schema.enum) && !schema.enum.includes(null)) strict.enum = [...schema.enum, null];
    return strict;
  }
  const strict: JsonObject = { anyOf: [...(Array.isArray(rest.anyOf) ? rest.anyOf : [rest]), { type: 'null' }] };
  if (description !== undefined) strict.description = description;
  return strict;
}
