import { isJsonObject, type JsonObject } from '@toolfleet/base';

/** `allOf` as one schema: properties and requirements of all parts together, other keywords of the last part that has them. */
export function mergeAll({ allOf, ...schema }: JsonObject): JsonObject {
  if (!Array.isArray(allOf)) return schema;
  const parts = [...allOf.filter(isJsonObject).map(mergeAll), schema];
  const merged: JsonObject = Object.assign({}, ...parts);
  const properties: JsonObject = Object.assign({}, ...parts.map((part) => part.properties ?? {}));
  const required = parts.flatMap((part) => (Array.isArray(part.required) ? part.required : []));
  if (Object.keys(properties).length > 0) Object.assign(merged, { type: 'object', properties });
  if (required.length > 0) merged.required = [...new Set(required)];
  return merged;
}
