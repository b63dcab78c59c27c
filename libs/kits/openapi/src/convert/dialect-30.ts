import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import { uniqueValues } from './repair-keywords.js';

/** `exclusiveMinimum: true` of 3.0 (JSON Schema draft 5) is replaced by the number in `minimum`. */
export function applyExclusiveFlags(source: JsonObject, out: JsonObject): void {
  for (const [bound, flag] of [
    ['minimum', 'exclusiveMinimum'],
    ['maximum', 'exclusiveMaximum'],
  ] as const) {
    const number = out[bound];
    if (source[flag] !== true || number === undefined) continue;
    out[flag] = number;
    delete out[bound];
  }
}

/**
 * `nullable: true` (3.0, and sloppy 3.1): null joins the type and the enum; a schema without a type that is made of
 * allOf, oneOf or anyOf is wrapped instead, its description outside.
 */
export function applyNullable(source: JsonObject, out: JsonObject): JsonObject {
  if (source.nullable !== true) return out;
  if (typeof out.type === 'string' && out.type !== 'null') out.type = [out.type, 'null'];
  else if (Array.isArray(out.type) && !out.type.includes('null')) out.type = [...out.type, 'null'];
  if (Array.isArray(out.enum) && !out.enum.includes(null)) out.enum = [...out.enum, null];
  if (out.type !== undefined || !(out.allOf ?? out.oneOf ?? out.anyOf ?? out.$ref)) return out;
  const { description, ...rest } = out;
  const wrapped: JsonObject = { anyOf: [rest, { type: 'null' }] };
  if (description !== undefined) wrapped.description = description;
  return wrapped;
}

/**
 * Values of an enum that YAML read as numbers or booleans although the type is string (`enum: [1, 2]`), or strings where
 * the type is a number: taken literally, no value could ever pass.
 */
export function matchEnumToType(out: JsonObject, complain: (message: string) => void): void {
  if (!Array.isArray(out.enum)) return;
  const types = Array.isArray(out.type) ? out.type : [out.type];
  let fitted: Json[] | undefined;
  const has = (...names: string[]): boolean => names.some((name) => types.includes(name));
  if (has('string') && !has('number', 'integer', 'boolean')) {
    fitted = out.enum.map((value) => (typeof value === 'number' || typeof value === 'boolean' ? String(value) : value));
  } else if (has('number', 'integer') && !has('string')) {
    fitted = out.enum.map((value) =>
      typeof value === 'string' && value.trim() !== '' && Number.isFinite(Number(value)) ? Number(value) : value,
    );
  }
  if (!fitted || fitted.every((value, index) => value === (out.enum as Json[])[index])) return;
  out.enum = uniqueValues(fitted);
  complain('values of the enum are read as the declared type');
}

/** True when the schema says in so many words that null is allowed. */
export function allowsNull(schema: Json | undefined): boolean {
  if (!isJsonObject(schema)) return false;
  if (schema.type === 'null' || (Array.isArray(schema.type) && schema.type.includes('null'))) return true;
  if (schema.type === undefined && Array.isArray(schema.enum) && schema.enum.includes(null)) return true;
  return [schema.anyOf, schema.oneOf].some((list) => Array.isArray(list) && list.some(allowsNull));
}

/**
 * A default of another type than the schema's (`default: "a,b"` of an array). Defaults are filled into calls, so such a
 * one would make every call without the argument invalid.
 */
export function dropForeignDefault(out: JsonObject, complain: (message: string) => void): void {
  const value = out.default;
  if (value === undefined || value === null || out.type === undefined) return;
  const types = [out.type].flat();
  const isMember = !Array.isArray(out.enum) || out.enum.some((item) => JSON.stringify(item) === JSON.stringify(value));
  if (isMember && types.some((type) => isOfType(value, type))) return;
  delete out.default;
  complain('a default that the schema itself does not allow is dropped');
}

function isOfType(value: Json, type: Json): boolean {
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return isJsonObject(value);
  if (type === 'integer') return Number.isInteger(value);
  return typeof value === type;
}
