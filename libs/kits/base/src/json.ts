/** Any JSON value. Integers that a double cannot represent are BigInt (`large-integers.ts`). */
export type Json = null | boolean | number | bigint | string | Json[] | JsonObject;
/** A JSON object. */
export interface JsonObject {
  [key: string]: Json;
}

/** Members of an object; those that are undefined are not in its JSON. */
export type JsonMembers = Readonly<Record<string, Json | undefined>>;

/** The members that have a value, as an object. */
export function jsonObject(members: JsonMembers): JsonObject {
  const isPresent = (entry: [string, Json | undefined]): entry is [string, Json] => entry[1] !== undefined;
  return Object.fromEntries(Object.entries(members).filter(isPresent));
}

/** True for plain JSON objects (not arrays, not null). */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
