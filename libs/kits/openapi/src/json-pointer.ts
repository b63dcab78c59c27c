import type { Json, JsonObject } from '@toolfleet/base';
import { escapePointer, unescapePointer } from '@toolfleet/bounded-schema';

export { escapePointer as escapeToken, setOwn } from '@toolfleet/bounded-schema';

/** Reference tokens of a JSON pointer, unescaped in the order of RFC 6901 section 4 (`~1` first, then `~0`). */
export function pointerTokens(pointer: string): string[] {
  if (pointer === '') return [];
  return pointer.slice(1).split('/').map(unescapePointer);
}

/** The pointer of reference tokens. */
export function toPointer(tokens: readonly string[]): string {
  return tokens.map((token) => `/${escapePointer(token)}`).join('');
}

const ARRAY_INDEX = /^(0|[1-9][0-9]*)$/;

/** The value at the tokens, or undefined. Only own properties count: `constructor` is not a member of a document. */
export function valueAt(root: Json, tokens: readonly string[]): Json | undefined {
  let value: Json | undefined = root;
  for (const token of tokens) {
    if (Array.isArray(value)) value = ARRAY_INDEX.test(token) ? value[Number(token)] : undefined;
    else if (typeof value === 'object' && value !== null) {
      value = Object.hasOwn(value, token) ? value[token] : undefined;
    } else return undefined;
  }
  return value;
}

/** A member that is an object, else undefined. */
export function objectAt(node: JsonObject | undefined, key: string): JsonObject | undefined {
  if (!node || !Object.hasOwn(node, key)) return undefined;
  const value = node[key];
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
}

/** A member that is a string, else undefined. */
export function stringAt(node: JsonObject | undefined, key: string): string | undefined {
  const value = node && Object.hasOwn(node, key) ? node[key] : undefined;
  return typeof value === 'string' ? value : undefined;
}

/** A member that is an array, else an empty one. */
export function arrayAt(node: JsonObject | undefined, key: string): Json[] {
  const value = node && Object.hasOwn(node, key) ? node[key] : undefined;
  return Array.isArray(value) ? value : [];
}
