import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';

/** Rules of model providers for tool names: OpenAI and Anthropic (older models) 64 characters, Gemini a letter or `_` first. */
export const PROVIDER_NAMES: Readonly<Record<string, RegExp>> = {
  openai: /^[A-Za-z0-9_-]{1,64}$/,
  anthropic: /^[A-Za-z0-9_-]{1,128}$/,
  gemini: /^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$/,
};

/** Fields of Gemini's `Schema` by the type they apply to (https://ai.google.dev/api/caching#Schema). */
const GEMINI_FIELDS: Readonly<Record<string, readonly string[]>> = {
  string: ['format', 'enum', 'minLength', 'maxLength', 'pattern'],
  number: ['format', 'minimum', 'maximum'],
  integer: ['format', 'minimum', 'maximum'],
  boolean: [],
  array: ['items', 'minItems', 'maxItems'],
  object: ['properties', 'required', 'minProperties', 'maxProperties', 'propertyOrdering'],
};
const GEMINI_FORMATS: Readonly<Record<string, readonly Json[]>> = {
  string: ['enum', 'date-time'],
  number: ['float', 'double'],
  integer: ['int32', 'int64'],
};

/** What Gemini's API would refuse in a schema, with its path; empty when it would take it. */
export function geminiFaults(schema: Json, path = ''): string[] {
  if (!isJsonObject(schema)) return [`${path}: not a schema object`];
  if (schema.anyOf !== undefined) {
    const others = Object.keys(schema).filter((key) => key !== 'anyOf');
    const options = Array.isArray(schema.anyOf) ? schema.anyOf : [];
    return [
      ...others.map((key) => `${path}: ${key} next to anyOf`),
      ...(options.length === 0 ? [`${path}: empty anyOf`] : []),
      ...options.flatMap((option, index) => geminiFaults(option, `${path}/anyOf/${index}`)),
    ];
  }
  const { type, format, enum: values, items, properties, required } = schema;
  if (typeof type !== 'string' || !GEMINI_FIELDS[type]) return [`${path}: type ${JSON.stringify(type)}`];
  const legal = new Set([...GEMINI_FIELDS[type], 'type', 'title', 'description', 'nullable']);
  const faults = Object.keys(schema).flatMap((key) => (legal.has(key) ? [] : [`${path}: ${key} of ${type}`]));
  if (format !== undefined && !GEMINI_FORMATS[type]?.includes(format)) faults.push(`${path}: format ${String(format)}`);
  const isEnum =
    Array.isArray(values) && values.length > 0 && values.every((value) => value !== '' && typeof value === 'string');
  if (values !== undefined && !isEnum) faults.push(`${path}: enum must have non-empty strings`);
  if (format === 'enum' && values === undefined) faults.push(`${path}: format enum without values`);
  if (type === 'array') faults.push(...geminiFaults(items ?? null, `${path}/items`));
  if (properties !== undefined) {
    const named = isJsonObject(properties) ? Object.entries(properties) : [];
    if (named.length === 0) faults.push(`${path}: empty properties`);
    faults.push(...named.flatMap(([name, part]) => geminiFaults(part, `${path}/${name}`)));
  }
  const needed = Array.isArray(required) ? required : [];
  const isDeclared = (name: Json) => isJsonObject(properties) && Object.hasOwn(properties, String(name));
  return [...faults, ...needed.filter((name) => !isDeclared(name)).map((name) => `${path}: requires ${String(name)}`)];
}

/** Keywords of OpenAI's strict mode (https://platform.openai.com/docs/guides/structured-outputs#supported-schemas). */
const STRICT_KEYWORDS: ReadonlySet<string> = new Set([
  ...[
    'type',
    'description',
    'enum',
    'anyOf',
    '$ref',
    '$defs',
    'properties',
    'required',
    'additionalProperties',
    'items',
  ],
  ...['pattern', 'format', 'multipleOf', 'maximum', 'exclusiveMaximum', 'minimum', 'exclusiveMinimum'],
  ...['minItems', 'maxItems'],
]);

/** What OpenAI's API would refuse in the parameters of a strict function, with its path. */
export function strictFaults(schema: Json, path = ''): string[] {
  if (!isJsonObject(schema)) return [`${path}: not a schema object`];
  const faults = Object.keys(schema).flatMap((key) => (STRICT_KEYWORDS.has(key) ? [] : [`${path}: ${key}`]));
  if (path === '' && schema.type !== 'object') faults.push('the root must be an object');
  if (!['type', 'enum', '$ref', 'anyOf'].some((key) => schema[key] !== undefined)) faults.push(`${path}: no type`);
  const types = [schema.type].flat();
  if (types.includes('object')) faults.push(...closedFaults(schema, path));
  if (types.includes('array')) faults.push(...strictFaults(schema.items ?? null, `${path}/items`));
  const options = Array.isArray(schema.anyOf) ? schema.anyOf : [];
  const definitions = isJsonObject(schema.$defs) ? Object.entries(schema.$defs) : [];
  return [
    ...faults,
    ...options.flatMap((option, index) => strictFaults(option, `${path}/anyOf/${index}`)),
    ...definitions.flatMap(([name, part]) => strictFaults(part, `${path}/$defs/${name}`)),
  ];
}

/** An object must be closed and require all of its properties. */
function closedFaults(schema: JsonObject, path: string): string[] {
  const { properties, required, additionalProperties: extra } = schema;
  const named = isJsonObject(properties) ? Object.entries(properties) : [];
  const needed = Array.isArray(required) ? required : [];
  return [
    ...(extra === false ? [] : [`${path}: additionalProperties must be false`]),
    ...named.filter(([name]) => !needed.includes(name)).map(([name]) => `${path}: ${name} is not required`),
    ...named.flatMap(([name, part]) => strictFaults(part, `${path}/${name}`)),
  ];
}

/** What Anthropic's API would refuse in the input schema of a tool: its errors name the pattern of names, and the keywords. */
export function anthropicFaults(schema: JsonObject): string[] {
  const names = isJsonObject(schema.properties) ? Object.keys(schema.properties) : [];
  return [
    ...(schema.type === 'object' ? [] : ['the root must be an object']),
    ...['allOf', 'anyOf', 'oneOf']
      .filter((keyword) => schema[keyword] !== undefined)
      .map((keyword) => `${keyword} at the top`),
    ...names.filter((name) => !/^[a-zA-Z0-9_.-]{1,64}$/.test(name)).map((name) => `the name ${name}`),
  ];
}
