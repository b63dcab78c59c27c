import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { boundedMatcher } from '@toolfleet/bounded-schema';

const MAX_CACHED = 10_000;
/** Characters of a pattern that a note shows. */
const MAX_SHOWN = 120;

const SCHEMA_LISTS = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems']);
const SCHEMA_MAPS = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);
const SCHEMAS = new Set([
  'additionalProperties',
  'contains',
  'else',
  'if',
  'items',
  'not',
  'propertyNames',
  'then',
  'unevaluatedItems',
  'unevaluatedProperties',
]);

const checkable = new Map<string, boolean>();

/** Whether the argument validator can match a pattern in bounded time. It refuses schemas with any other pattern. */
export function isCheckable(pattern: string): boolean {
  let verdict = checkable.get(pattern);
  if (verdict === undefined) {
    try {
      boundedMatcher(pattern, 'u');
      verdict = true;
    } catch {
      verdict = false;
    }
    if (checkable.size > MAX_CACHED) checkable.clear();
    checkable.set(pattern, verdict);
  }
  return verdict;
}

/**
 * Drops what `isCheckable` refuses from a schema of a remote server, so it accepts more than before and never less: a
 * `not` or `if` over a dropped pattern is dropped whole, `oneOf` becomes `anyOf`, and properties with a pattern in
 * `patternProperties` is dropped are not refused as additional ones.
 * @param dropped receives each dropped pattern
 * @returns the schema itself when all its patterns can be checked
 */
export function dropUncheckablePatterns(schema: JsonObject, dropped: Set<string>): JsonObject {
  const out: JsonObject = {};
  let isChanged = false;
  for (const [keyword, value] of Object.entries(schema)) {
    const kept = convertKeyword(keyword, value, dropped);
    isChanged ||= kept !== value;
    if (kept !== undefined) out[keyword] = kept;
  }
  if (!isChanged) return schema;
  if (keyCount(out['patternProperties']) < keyCount(schema['patternProperties'])) {
    delete out['additionalProperties'];
    delete out['unevaluatedProperties'];
  }
  if (out['not'] !== schema['not']) delete out['not'];
  if (out['if'] !== schema['if']) for (const keyword of ['if', 'then', 'else']) delete out[keyword];
  if (out['oneOf'] !== schema['oneOf']) {
    const { oneOf, ...rest } = out;
    return rest['anyOf'] === undefined ? { ...rest, anyOf: oneOf as Json } : rest;
  }
  return out;
}

/** Describes a dropped pattern for replies and logs. */
export function droppedPatternNote(pattern: string): string {
  return `the pattern ${JSON.stringify(pattern.slice(0, MAX_SHOWN))} cannot be checked and is dropped`;
}

/** The value to keep, the same one when nothing in it is dropped; undefined drops the keyword. */
function convertKeyword(keyword: string, value: Json, dropped: Set<string>): Json | undefined {
  const convert = (item: Json): Json => (isJsonObject(item) ? dropUncheckablePatterns(item, dropped) : item);
  if (keyword === 'pattern' && typeof value === 'string' && !isCheckable(value)) {
    dropped.add(value);
    return undefined;
  }
  if (SCHEMAS.has(keyword)) return convert(value);
  if (SCHEMA_LISTS.has(keyword) && Array.isArray(value)) {
    const items = value.map(convert);
    return items.some((item, index) => item !== value[index]) ? items : value;
  }
  if (!SCHEMA_MAPS.has(keyword) || !isJsonObject(value)) return value;
  const entries = Object.entries(value).filter(([name]) => {
    if (keyword !== 'patternProperties' || isCheckable(name)) return true;
    dropped.add(name);
    return false;
  });
  const converted = entries.map(([name, item]): [string, Json] => [name, convert(item)]);
  const isSame = converted.length === keyCount(value) && converted.every(([name, item]) => item === value[name]);
  return isSame ? value : Object.fromEntries(converted);
}

function keyCount(value: Json | undefined): number {
  return isJsonObject(value) ? Object.keys(value).length : 0;
}
