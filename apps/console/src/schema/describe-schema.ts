import type { Json, JsonObject } from '@toolfleet/client';
import { objectOf, resolved, typesOf } from './form-model.js';

/** One line of a schema as people read it. */
export interface SchemaLine {
  /** `filters`, `filters.tags[]`. */
  path: string;
  depth: number;
  type: string;
  required: boolean;
  description: string;
  /** `one of "a", "b"`, `1 to 100`, `default 5`. */
  rules: string[];
}

/** What lies deeper is read as JSON. */
const MAX_DEPTH = 4;
const MAX_SHOWN = 8;

/** Every property of an object schema, nested ones below their parent. */
export function describeSchema(schema: JsonObject): SchemaLine[] {
  return linesOf(schema, { root: schema, above: [] }, '', 0);
}

/** Where a line stands: the whole schema, and the references on the way down to it. */
interface Place {
  root: JsonObject;
  above: readonly string[];
}

function linesOf(raw: JsonObject, { root, above }: Place, prefix: string, depth: number): SchemaLine[] {
  const reference = typeof raw['$ref'] === 'string' ? raw['$ref'] : undefined;
  // It holds itself: its properties stand above already.
  if (reference !== undefined && above.includes(reference)) return [];
  const schema = resolved(raw, root);
  const place: Place = { root, above: reference === undefined ? above : [...above, reference] };
  const required = new Set(Array.isArray(schema['required']) ? schema['required'] : []);
  return Object.entries(objectOf(schema['properties'])).flatMap(([name, value]) => {
    const own = objectOf(value);
    const property = resolved(own, root);
    const items = objectOf(property['items']);
    const path = `${prefix}${name}`;
    const line: SchemaLine = {
      path,
      depth,
      type: typeText(property, resolved(items, root)),
      required: required.has(name),
      description: typeof property['description'] === 'string' ? property['description'] : '',
      rules: rulesOf(property),
    };
    if (depth >= MAX_DEPTH) return [line];
    return [line, ...linesOf(own, place, `${path}.`, depth + 1), ...linesOf(items, place, `${path}[].`, depth + 1)];
  });
}

function typeText(schema: JsonObject, items: JsonObject): string {
  const types = typesOf(schema);
  if (types.length === 0) {
    if (schema['enum'] !== undefined || schema['const'] !== undefined) return 'choice';
    return Array.isArray(schema['oneOf'] ?? schema['anyOf']) ? 'one of several' : 'any';
  }
  return types
    .map((type) => (type === 'array' ? `list of ${typesOf(items).join(' or ') || 'any'}` : type))
    .join(' or ');
}

function rulesOf(schema: JsonObject): string[] {
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
