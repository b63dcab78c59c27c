import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import { decodeFragment, schemaAt, setOwn } from './subschemas.js';

/** How listed schemas share their parts: as references to `$defs`, or expanded where they are used. */
export type SchemaStyle = 'defs' | 'inline';

/** References followed on one path when a caller names no depth. */
const DEFAULT_DEPTH = 4;
/** Values an inlined schema may have: inlining grows a document 4-fold on average, up to 90-fold. */
const MAX_NODES = 20_000;

/** Keywords with data as value: a `$ref` in it is not a reference. */
const DATA: ReadonlySet<string> = new Set(['enum', 'const', 'default', 'examples', 'required']);
/** Keywords with a map of names to schemas as value: there, a name that equals a keyword means nothing. */
const NAMES: ReadonlySet<string> = new Set(['properties', 'patternProperties', 'dependentSchemas']);
type Position = 'schema' | 'names' | 'data';

/**
 * The schema without references and definitions, for model providers that refuse `$defs`. Every reference inside the document
 * (`#/…`) is replaced by its target down to `depth`; below that, and beyond 20,000 values, it becomes an open schema with a
 * description names the cut part. Keywords next to a reference override its target's.
 */
export function inlineDefinitions(schema: JsonObject, depth = DEFAULT_DEPTH): JsonObject {
  let nodes = 0;

  const expand = (ref: string, left: number): JsonObject => {
    const target = schemaAt(schema, decodeFragment(ref));
    if (left === 0 || nodes > MAX_NODES) {
      return { description: `${ref.slice(ref.lastIndexOf('/') + 1)} (not expanded further)` };
    }
    const expanded = target === undefined ? {} : copy(target, left - 1, 'schema');
    return isJsonObject(expanded) ? expanded : {};
  };
  const copy = (value: Json, left: number, position: Position): Json => {
    nodes += 1;
    if (Array.isArray(value)) return value.map((item) => copy(item, left, position));
    if (!isJsonObject(value)) return value;
    const isRef = position === 'schema' && typeof value['$ref'] === 'string' && value['$ref'].startsWith('#');
    const out: JsonObject = isRef ? expand(String(value['$ref']), left) : {};
    for (const [key, item] of Object.entries(value)) {
      if (position === 'schema' && (key === '$defs' || key === 'definitions' || (isRef && key === '$ref'))) continue;
      setOwn(out, key, copy(item, left, nextPosition(position, key)));
    }
    return out;
  };
  return copy(schema, depth, 'schema') as JsonObject;
}

function nextPosition(position: Position, key: string): Position {
  if (position !== 'schema') return position === 'names' ? 'schema' : 'data';
  if (DATA.has(key)) return 'data';
  return NAMES.has(key) ? 'names' : 'schema';
}
