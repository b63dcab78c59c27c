import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import { mergeAll } from './merge-all.js';

/** Keywords of Gemini's `Schema` object that mean the same in JSON Schema (https://ai.google.dev/api/caching#Schema). */
const KEPT = [
  ...['title', 'description', 'minItems', 'maxItems', 'minLength', 'maxLength', 'pattern', 'minimum', 'maximum'],
] as const;
/** Formats by type; a request with any other is refused. */
const FORMATS: Readonly<Record<string, readonly Json[]>> = {
  string: ['date-time'],
  number: ['float', 'double'],
  integer: ['int32', 'int64'],
};
const ANY: readonly Json[] = ['string', 'number', 'boolean', 'object', 'array'];

/**
 * A schema without references as Gemini's `Schema` object, a subset of OpenAPI 3.0: one type per value, `nullable` instead of the
 * type null, `enum` for strings only, `items` on every array, and nothing next to `anyOf` but in its branches. What the subset
 * cannot express is left out or becomes part of the description; check each call against the whole schema.
 * @param schema with references expanded (`inlineDefinitions`)
 */
export function toGeminiSchema(schema: Json): JsonObject {
  const own = isJsonObject(schema) ? mergeAll(schema) : {};
  const options = [own.anyOf, own.oneOf].find((value) => Array.isArray(value));
  if (Array.isArray(options)) return toUnion(own, options);
  const types = readTypes(own);
  const isNullable = types.includes('null') || own.nullable === true;
  const others = types.filter((type) => type !== 'null');
  const named = others.length > 0 ? others : ['string'];
  const shown =
    named.length === 1 ? toTyped(own, String(named[0])) : { anyOf: named.map((type) => toTyped(own, String(type))) };
  return isNullable ? toNullable(shown) : shown;
}

/**
 * A union. Its description moves into the branches. If the schema itself has properties or items, branches only refine it: their properties
 * become optional ones of the whole, and the union is left out.
 */
function toUnion({ anyOf: _any, oneOf: _one, ...own }: JsonObject, options: readonly Json[]): JsonObject {
  const branches = options.filter(isJsonObject);
  if (own.properties !== undefined || own.items !== undefined) {
    const refined = branches.map(mergeAll).map(({ properties = {} }) => ({ properties }));
    return toGeminiSchema({ allOf: own.properties === undefined ? [own] : [...refined, own] });
  }
  const typed = branches.map((option) => mergeAll({ allOf: [own, option] })).filter(({ type }) => type !== 'null');
  const isNullable = typed.length < branches.length || own.nullable === true;
  const shown = typed.length < 2 ? toGeminiSchema(typed[0] ?? own) : { anyOf: typed.flatMap(toBranches) };
  return isNullable ? toNullable(shown) : shown;
}

/** A branch of a union; a union inside it becomes part of the outer one. */
function toBranches(branch: JsonObject): JsonObject[] {
  const shown = toGeminiSchema(branch);
  return Array.isArray(shown.anyOf) ? shown.anyOf.filter(isJsonObject) : [shown];
}

const toNullable = (shown: JsonObject): JsonObject =>
  Array.isArray(shown.anyOf)
    ? { anyOf: shown.anyOf.map((branch) => ({ ...(branch as JsonObject), nullable: true })) }
    : { ...shown, nullable: true };

/** The types of a value: as declared, as its values or keywords show, else any. */
function readTypes({ type, properties, items, ...schema }: JsonObject): readonly Json[] {
  if (type !== undefined) return [type].flat();
  const values = schema.const === undefined ? schema.enum : [schema.const];
  if (Array.isArray(values) && values.length > 0) return [...new Set(values.map(typeOfValue))];
  if (properties !== undefined) return ['object'];
  return items === undefined ? ANY : ['array'];
}

function typeOfValue(value: Json): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value;
}

/** One type with the keywords that apply to it. */
function toTyped(schema: JsonObject, type: string): JsonObject {
  const shown: JsonObject = { type };
  for (const key of KEPT) if (schema[key] !== undefined && appliesTo(key, type)) shown[key] = schema[key];
  if (type === 'integer' && typeof schema.exclusiveMinimum === 'number') shown.minimum ??= schema.exclusiveMinimum + 1;
  if (type === 'integer' && typeof schema.exclusiveMaximum === 'number') shown.maximum ??= schema.exclusiveMaximum - 1;
  if (schema.format !== undefined && FORMATS[type]?.includes(schema.format)) shown.format = schema.format;
  addValues(shown, schema);
  if (type === 'array') shown.items = toItems(schema);
  if (type === 'object') addProperties(shown, schema);
  return shown;
}

const SCOPES: readonly (readonly [string, RegExp])[] = [
  ['array', /Items$/],
  ['string', /Length$|^pattern$/],
  ['number', /imum$/],
];

function appliesTo(key: string, type: string): boolean {
  const scope = SCOPES.find(([, keys]) => keys.test(key))?.[0];
  return scope === undefined || scope === (type === 'integer' ? 'number' : type);
}

/** The values a schema allows: `enum` takes strings only, so others are named in the description. */
function addValues(shown: JsonObject, schema: JsonObject): void {
  const values = schema.const === undefined ? schema.enum : [schema.const];
  if (!Array.isArray(values)) return;
  const own = values.filter((value) => value !== null);
  if (own.length === 0) return;
  if (shown.type === 'string') {
    // An empty value is refused.
    const texts = own.filter((value) => typeof value === 'string' && value !== '');
    if (texts.length > 0) Object.assign(shown, { format: 'enum', enum: texts });
    return;
  }
  const note = `One of: ${own.map((value) => JSON.stringify(value)).join(', ')}`;
  shown.description = typeof shown.description === 'string' ? `${shown.description} ${note}` : note;
}

/** The schema of items; a tuple's are a union. */
function toItems({ items, prefixItems }: JsonObject): JsonObject {
  const tuple = [prefixItems, items].find((value) => Array.isArray(value));
  if (!Array.isArray(tuple)) return toGeminiSchema(isJsonObject(items) ? items : { type: 'string' });
  return tuple.length === 0 ? { type: 'string' } : toGeminiSchema({ anyOf: tuple });
}

function addProperties(shown: JsonObject, { properties, required }: JsonObject): void {
  if (!isJsonObject(properties) || Object.keys(properties).length === 0) return;
  shown.properties = Object.fromEntries(Object.entries(properties).map(([name, own]) => [name, toGeminiSchema(own)]));
  // A required property that is not declared is refused.
  const declared = Array.isArray(required) ? required.filter((name) => Object.hasOwn(properties, String(name))) : [];
  if (declared.length > 0) shown.required = declared;
}
