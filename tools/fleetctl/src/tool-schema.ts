import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';

/** A schema with its reference followed and the members of `allOf` in it. @param root with the `$defs` that references name */
export function resolved(schema: Json | undefined, root: JsonObject, depth = 0): JsonObject {
  if (!isJsonObject(schema)) return {};
  const { $ref: reference, allOf, ...own } = schema;
  if (depth > 20) return own;
  const parts = Array.isArray(allOf) ? allOf : [];
  if (typeof reference === 'string' && reference.startsWith('#/')) parts.unshift(atPointer(root, reference));
  return parts.reduce<JsonObject>((whole, part) => {
    const { properties, required, ...rest } = resolved(part, root, depth + 1);
    return {
      ...rest,
      ...whole,
      ...mergedMembers(properties, whole['properties']),
      required: [...((required ?? []) as Json[]), ...((whole['required'] ?? []) as Json[])],
    };
  }, own);
}

const mergedMembers = (one: Json | undefined, other: Json | undefined): JsonObject =>
  one === undefined && other === undefined ? {} : { properties: { ...(one as object), ...(other as object) } };

function atPointer(root: JsonObject, reference: string): Json {
  const names = reference.slice(2).split('/');
  return names.reduce<Json>((at, name) => {
    const key = decodeURIComponent(name).replaceAll('~1', '/').replaceAll('~0', '~');
    return isJsonObject(at) ? (at[key] ?? null) : null;
  }, root);
}

/** Members of an object schema, with references followed. */
export function membersOf(schema: JsonObject, root: JsonObject): Record<string, JsonObject> {
  const found = Object.entries((schema['properties'] ?? {}) as JsonObject);
  return Object.fromEntries(found.map(([name, member]) => [name, resolved(member, root)]));
}

/** The schema at a dotted path, such as `body.author.name` or `tasks.0.name`; undefined where the schema has none. */
export function schemaAt(path: readonly string[], schema: JsonObject, root: JsonObject): JsonObject | undefined {
  return path.reduce<JsonObject | undefined>((at, name) => {
    if (at === undefined) return undefined;
    const members = membersOf(at, root);
    if (Object.hasOwn(members, name)) return members[name];
    if (/^\d+$/.test(name) && at['items'] !== undefined) return resolved(at['items'], root);
    return isOpen(at) ? resolved(at['additionalProperties'], root) : undefined;
  }, schema);
}

/** Whether an object takes members that its schema does not name. */
const isOpen = (schema: JsonObject): boolean =>
  (schema['properties'] === undefined && schema['type'] === 'object') ||
  (schema['additionalProperties'] ?? false) !== false;
