import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';

/** Keywords with schemas for the same value. */
export const IN_PLACE_LISTS = ['allOf', 'anyOf', 'oneOf'] as const;
const IN_PLACE = ['not', 'if', 'then', 'else'] as const;
/** Keywords with schemas for parts of the value. */
const OF_PARTS = [
  'additionalProperties',
  'unevaluatedProperties',
  'items',
  'additionalItems',
  'unevaluatedItems',
  'contains',
  'propertyNames',
] as const;
/** Objects with schemas as members. */
const MAPS = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies'] as const;
/** The part of a document at a JSON pointer (RFC 6901); undefined when there is none. */
export function schemaAt(root: Json, pointer: string): Json | undefined {
  let node: Json | undefined = root;
  for (const token of pointer.split('/').slice(1)) {
    const key = unescapePointer(token);
    if (typeof node !== 'object' || node === null || !Object.hasOwn(node, key)) return undefined;
    node = (node as JsonObject)[key];
  }
  return node;
}

/** Escapes a name for use as one token of a JSON pointer: `a/b` becomes `a~1b`. */
export function escapePointer(name: string): string {
  return /[~/]/.test(name) ? name.replaceAll('~', '~0').replaceAll('/', '~1') : name;
}

/** The name that a token of a JSON pointer stands for: `a~1b` is `a/b`. */
export function unescapePointer(token: string): string {
  return token.replaceAll('~1', '/').replaceAll('~0', '~');
}

/** Sets an own property, even one called `__proto__`; an assignment would change the prototype. */
export function setOwn<T>(target: { [name: string]: T }, name: string, value: T): void {
  if (name === '__proto__')
    Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
  else target[name] = value;
}

/** Converts a reference inside a document (`#/$defs/a%20b`) to a JSON pointer (`/$defs/a b`). */
export function decodeFragment(ref: string): string {
  try {
    return decodeURIComponent(ref.slice(1));
  } catch {
    return ref.slice(1);
  }
}

/** Schemas inside `node` that apply to the same value. */
export function inPlaceParts(node: JsonObject): Json[] {
  const parts: Json[] = [];
  for (const keyword of IN_PLACE_LISTS) if (Array.isArray(node[keyword])) parts.push(...node[keyword]);
  for (const keyword of IN_PLACE) if (node[keyword] !== undefined) parts.push(node[keyword]);
  for (const keyword of ['dependentSchemas', 'dependencies'] as const)
    if (isJsonObject(node[keyword])) parts.push(...Object.values(node[keyword]).filter(isJsonObject));
  return parts;
}

/** Schemas inside `node` that apply to parts of the value, and definitions. */
export function deeperParts(node: JsonObject): Json[] {
  const parts: Json[] = [];
  for (const keyword of MAPS) if (isJsonObject(node[keyword])) parts.push(...Object.values(node[keyword]));
  for (const keyword of OF_PARTS) {
    const value = node[keyword];
    if (value !== undefined) parts.push(...(Array.isArray(value) ? value : [value]));
  }
  if (Array.isArray(node['prefixItems'])) parts.push(...node['prefixItems']);
  return parts;
}

/** The schema that a `$ref` or `$dynamicRef` points to; undefined without one, and for a broken one (ajv rejects it). */
export function referenceTarget(root: JsonObject, node: JsonObject): JsonObject | undefined {
  const reference = typeof node['$ref'] === 'string' ? node['$ref'] : node['$dynamicRef'];
  if (typeof reference !== 'string' || !/^#(?:\/|$)/.test(reference)) return undefined;
  const target = schemaAt(root, decodeFragment(reference));
  return isJsonObject(target) ? target : undefined;
}
