import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { setOwn } from '../json-pointer.js';

/** Values an inlined schema may have: inlining grows a document 4-fold on average, up to 90-fold. */
const MAX_NODES = 20_000;

/**
 * `schema_style: inline`: replaces every reference by its target down to a depth and cuts there with an open schema and a
 * description, for model providers that refuse `$defs`.
 */
export function inlineDefinitions(schema: JsonObject, depth: number): JsonObject {
  const { $defs, ...root } = schema;
  const definitions = isJsonObject($defs) ? $defs : {};
  let nodes = 0;

  const copy = (value: Json, left: number, data: boolean): Json => {
    nodes += 1;
    if (Array.isArray(value)) return value.map((item) => copy(item, left, data));
    if (!isJsonObject(value)) return value;
    const name = data || typeof value.$ref !== 'string' ? undefined : value.$ref.slice('#/$defs/'.length);
    const out: JsonObject = {};
    if (name !== undefined) {
      const target = Object.hasOwn(definitions, name) ? definitions[name] : true;
      const open = left === 0 || nodes > MAX_NODES;
      const expanded = open ? { description: `${name} (not expanded further)` } : copy(target as Json, left - 1, false);
      if (isJsonObject(expanded)) Object.assign(out, expanded);
    }
    for (const [key, item] of Object.entries(value)) {
      if (key !== '$ref' || data) setOwn(out, key, copy(item, left, data || DATA.has(key)));
    }
    return out;
  };
  return copy(root, depth, false) as JsonObject;
}

const DATA: ReadonlySet<string> = new Set(['enum', 'const', 'default', 'examples', 'required']);
