import type { Json, JsonObject } from '@toolfleet/client';
import { asObject, dereference, schemaTypes } from './form.js';

/** One property of a schema, described for people. */
interface SchemaLine {
  /** `filters`, `filters.tags[]`. */
  path: string;
  depth: number;
  type: string;
  required: boolean;
  description: string;
  /** `one of "a", "b"`, `1 to 100`, `default 5`. */
  rules: string[];
}

/** Deeper properties are shown only as JSON. */
const MAX_DEPTH = 4;
const MAX_SHOWN = 8;

/** Every property of an object schema; nested ones follow their parent. */
export function describeSchema(schema: JsonObject): SchemaLine[] {
  return describeProperties(schema, { root: schema, above: [] }, '', 0);
}

/** The whole schema, and the references followed on the way to a property. */
interface SchemaPlace {
  root: JsonObject;
  above: readonly string[];
}

function describeProperties(
  raw: JsonObject,
  { root, above }: SchemaPlace,
  prefix: string,
  depth: number,
): SchemaLine[] {
  const reference = typeof raw['$ref'] === 'string' ? raw['$ref'] : undefined;
  // A recursive reference: its properties are listed already.
  if (reference !== undefined && above.includes(reference)) return [];
  const schema = dereference(raw, root);
  const place: SchemaPlace = { root, above: reference === undefined ? above : [...above, reference] };
  const required = new Set(Array.isArray(schema['required']) ? schema['required'] : []);
  const parts = Array.isArray(schema['allOf']) ? schema['allOf'] : [];
  const ofParts = parts.flatMap((part) => describeProperties(asObject(part), place, prefix, depth));
  const own = Object.entries(asObject(schema['properties'])).flatMap(([name, value]) => {
    const given = asObject(value);
    const property = dereference(given, root);
    const items = asObject(property['items']);
    const path = `${prefix}${name}`;
    const line: SchemaLine = {
      path,
      depth,
      type: typeText(property, dereference(items, root)),
      required: required.has(name),
      description: typeof property['description'] === 'string' ? property['description'] : '',
      rules: describeRules(property),
    };
    if (depth >= MAX_DEPTH) return [line];
    return [
      line,
      ...describeProperties(given, place, `${path}.`, depth + 1),
      ...describeProperties(items, place, `${path}[].`, depth + 1),
    ];
  });
  return [...ofParts, ...own];
}

function typeText(schema: JsonObject, items: JsonObject): string {
  const types = schemaTypes(schema);
  if (types.length === 0) {
    if (schema['enum'] !== undefined || schema['const'] !== undefined) return 'choice';
    if (Array.isArray(schema['allOf'])) return 'object';
    return Array.isArray(schema['oneOf'] ?? schema['anyOf']) ? 'one of several' : 'any';
  }
  return types
    .map((type) => (type === 'array' ? `list of ${schemaTypes(items).join(' or ') || 'any'}` : type))
    .join(' or ');
}

function describeRules(schema: JsonObject): string[] {
  const {
    enum: choices,
    const: fixed,
    minimum,
    maximum,
    minLength,
    maxLength,
    minItems,
    maxItems,
    pattern,
    format,
  } = schema;
  const rules: string[] = [];
  if (fixed !== undefined) rules.push(`always ${JSON.stringify(fixed)}`);
  if (Array.isArray(choices)) rules.push(`one of ${shortList(choices)}`);
  range(rules, minimum, maximum, '');
  range(rules, minLength, maxLength, ' characters');
  range(rules, minItems, maxItems, ' items');
  if (typeof format === 'string') rules.push(format);
  if (typeof pattern === 'string') rules.push(`matches ${pattern}`);
  if (schema['default'] !== undefined) rules.push(`default ${JSON.stringify(schema['default'])}`);
  return rules;
}

function range(rules: string[], least: Json | undefined, most: Json | undefined, unit: string): void {
  if (typeof least === 'number' && typeof most === 'number') rules.push(`${least} to ${most}${unit}`);
  else if (typeof least === 'number') rules.push(`at least ${least}${unit}`);
  else if (typeof most === 'number') rules.push(`at most ${most}${unit}`);
}

function shortList(values: readonly Json[]): string {
  const shown = values.slice(0, MAX_SHOWN).map((value) => JSON.stringify(value));
  return shown.join(', ') + (values.length > MAX_SHOWN ? `, … (${values.length})` : '');
}
