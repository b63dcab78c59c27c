import type { Json } from '@toolfleet/base';

/** Levels that are described; deeper ones are shown as `{…}` or `[…]`. */
const MAX_DEPTH = 4;
/** Maximum number of keys of an object that are named. */
const MAX_KEYS = 20;
/** Longest key that is shown. */
const MAX_KEY_CHARS = 40;
/** Maximum length of a description. */
const MAX_CHARS = 800;

/**
 * The shape of a value in a line for a model that is about to write an expression for it: `{data: [1200 × {id: number, name:
 * string}], total: number}`. Items of an array are described by the first one.
 */
export function describeShape(value: Json): string {
  const shape = shapeOf(value, 0);
  return shape.length > MAX_CHARS ? `${shape.slice(0, MAX_CHARS - 1)}…` : shape;
}

function shapeOf(value: Json, depth: number): string {
  if (Array.isArray(value)) {
    if (value.length === 0) return '[]';
    return depth >= MAX_DEPTH ? '[…]' : `[${value.length} × ${shapeOf(value[0] as Json, depth + 1)}]`;
  }
  if (value === null) return 'null';
  if (typeof value !== 'object') return typeof value;
  const keys = Object.keys(value);
  if (keys.length === 0) return '{}';
  if (depth >= MAX_DEPTH) return '{…}';
  const named = keys.slice(0, MAX_KEYS).map((key) => `${showKey(key)}: ${shapeOf(value[key] as Json, depth + 1)}`);
  if (keys.length > MAX_KEYS) named.push(`… ${keys.length - MAX_KEYS} more keys`);
  return `{${named.join(', ')}}`;
}

function showKey(key: string): string {
  const shown = key.length > MAX_KEY_CHARS ? `${key.slice(0, MAX_KEY_CHARS)}…` : key;
  return /^[A-Za-z_]\w*$/.test(shown) ? shown : JSON.stringify(shown);
}
