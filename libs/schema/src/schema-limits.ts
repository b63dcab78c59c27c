import { ToolError, type Json, type JsonObject, isJsonObject } from '@toolfleet/contracts';
import { nestingDepth } from '@toolfleet/contracts/json-text';
import { deeperParts, inPlaceParts, referenceTarget } from './subschemas.js';

/** Maximum length of a schema as JSON, in UTF-16 units. The largest of 3,965 real tool schemas is well below 256 KiB. */
const MAX_SCHEMA_CHARS = 512 * 1024;
/** Maximum nesting of a schema document. */
const MAX_SCHEMA_DEPTH = 64;
/** Maximum nesting of arguments; it also keeps recursion over them within the stack. */
export const MAX_ARGUMENT_DEPTH = 128;
/**
 * Maximum number of subschemas. Compiling one takes up to half a millisecond on the event loop; the largest of 2,338 operations
 * in 40 public API documents has 1,636.
 */
const MAX_SCHEMA_PARTS = 5_000;
/** Maximum number of schemas that apply to one and the same value. */
const MAX_FAN_OUT = 10_000;

/**
 * Rejects schemas that would take too long to compile: they come from remote servers and documents.
 * @throws ToolError SPEC_INVALID
 */
export function checkSchemaSize(schema: JsonObject): void {
  const depth = nestingDepth(schema, MAX_SCHEMA_DEPTH);
  if (depth > MAX_SCHEMA_DEPTH) refuse(`the schema is nested deeper than ${MAX_SCHEMA_DEPTH} levels`);
  const size = JSON.stringify(schema).length;
  if (size > MAX_SCHEMA_CHARS) refuse(`the schema has ${size} characters, at most ${MAX_SCHEMA_CHARS} are allowed`);
}

/**
 * Rejects a schema with too many subschemas, one that applies more than `MAX_FAN_OUT` schemas to one value (unions of unions
 * multiply), and one that applies a schema to the value it is already applied to, which would never end.
 * @throws ToolError SPEC_INVALID
 */
export function checkFanOut(schema: JsonObject): void {
  const costs = new Map<JsonObject, number>();
  const seen = new Set<JsonObject>();
  const open: Json[] = [schema];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    if (!isJsonObject(node) || seen.has(node)) continue;
    seen.add(node);
    if (seen.size > MAX_SCHEMA_PARTS) refuse(`it consists of more than ${MAX_SCHEMA_PARTS} schemas`);
    countFanOut(schema, node, costs);
    const target = referenceTarget(schema, node);
    if (target) open.push(target);
    open.push(...inPlaceParts(node), ...deeperParts(node));
  }
}

/**
 * Counts the schemas that one schema applies to a value, itself included.
 * @param costs counts so far; 0 marks a schema that is being counted
 */
function countFanOut(root: JsonObject, schema: JsonObject, costs: Map<JsonObject, number>): number {
  const known = costs.get(schema);
  if (known === 0) refuse('a part of it refers to itself and to the same part of the value');
  if (known !== undefined) return known;
  costs.set(schema, 0);
  let cost = 1;
  const target = referenceTarget(root, schema);
  for (const part of target ? [target, ...inPlaceParts(schema)] : inPlaceParts(schema)) {
    cost += isJsonObject(part) ? countFanOut(root, part, costs) : 1;
    if (cost > MAX_FAN_OUT) {
      refuse(
        `its unions and references apply more than ${MAX_FAN_OUT} schemas to one value; use fewer branches or levels`,
      );
    }
  }
  costs.set(schema, cost);
  return cost;
}

/** Counts the values in a JSON value, up to just above `limit`. */
export function countNodes(value: Json, limit: number): number {
  const open: Json[] = [value];
  let count = 0;
  while (open.length > 0 && count <= limit) {
    const item = open.pop();
    count += 1;
    if (typeof item !== 'object' || item === null) continue;
    for (const member of Object.values(item)) {
      open.push(member);
      if (open.length > limit) return limit + 1;
    }
  }
  return count;
}

function refuse(message: string): never {
  throw new ToolError('SPEC_INVALID', { message: `Schema refused: ${message}` });
}
