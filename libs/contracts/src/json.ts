/** Any JSON value, as it travels between processes. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
/** A JSON object. */
export interface JsonObject {
  [key: string]: Json;
}

/** True for plain JSON objects (not arrays, not null). */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Deepest nesting of a body that is read from outside. JSON.parse takes any depth, JSON.stringify and every other
 * recursion ends with a stack overflow some thousand levels down.
 */
export const MAX_BODY_DEPTH = 256;

/** Nesting of a JSON value, counted without recursion and only up to just above `limit`. */
export function depthOf(value: Json, limit: number): number {
  let level: Json[] = [value];
  let depth = 0;
  while (level.length > 0 && depth <= limit) {
    const deeper: Json[] = [];
    for (const item of level) {
      if (Array.isArray(item))
        for (const member of item) if (typeof member === 'object' && member !== null) deeper.push(member);
      if (isJsonObject(item))
        for (const key in item) if (typeof item[key] === 'object' && item[key] !== null) deeper.push(item[key]);
    }
    level = deeper;
    depth += 1;
  }
  return depth;
}

/**
 * Whether a value is nested deeper than a body may be.
 * @param length of its JSON, where it is known: a level takes two characters, so short ones need not be walked
 */
export function isNestedTooDeep(value: Json, length = Infinity): boolean {
  return length > 2 * MAX_BODY_DEPTH && depthOf(value, MAX_BODY_DEPTH) > MAX_BODY_DEPTH;
}
