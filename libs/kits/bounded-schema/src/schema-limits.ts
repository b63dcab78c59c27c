import { CodedError, type Json, type JsonObject, isJsonObject } from '@toolfleet/base';
import { nestingDepth } from '@toolfleet/base/json-text';
import { patternCost } from './pattern.js';
import { deeperParts, inPlaceParts, referenceTarget } from './subschemas.js';

/** Maximum length of a schema as JSON, in UTF-16 units. The largest of 3,965 real tool schemas is well below 256 KiB. */
const MAX_SCHEMA_CHARS = 512 * 1024;
/** Maximum nesting of a schema document. */
const MAX_SCHEMA_DEPTH = 64;
/** Maximum nesting of arguments; it also keeps recursion over them within the stack. */
export const MAX_ARGUMENT_DEPTH = 128;
/**
 * Maximum cost of compiling a schema. A unit is work of 20 to 60 µs: a schema at the limit holds the event loop for
 * up to half a second, once. The dearest of 3,547 schemas of public API documents has 5,200 (`createResponse` of OpenAI, 110 ms).
 */
const MAX_COMPILE_COST = 10_000;
/** Maximum number of schemas that apply to one and the same value. */
const MAX_FAN_OUT = 10_000;

/**
 * Rejects schemas that would take too long to compile: they come from remote servers and documents.
 * @throws CodedError SPEC_INVALID
 */
export function checkSchemaSize(schema: JsonObject): void {
  const depth = nestingDepth(schema, MAX_SCHEMA_DEPTH);
  if (depth > MAX_SCHEMA_DEPTH) refuse(`the schema is nested deeper than ${MAX_SCHEMA_DEPTH} levels`);
  const size = JSON.stringify(schema).length;
  if (size > MAX_SCHEMA_CHARS) refuse(`the schema has ${size} characters, at most ${MAX_SCHEMA_CHARS} are allowed`);
}

/**
 * Rejects a schema that takes too long to compile, one that applies more than `MAX_FAN_OUT` schemas to one value (unions of unions
 * multiply), and one that applies a schema to the value it is already applied to: this would never end. Takes time proportional
 * to the schema.
 * @throws CodedError SPEC_INVALID
 */
export function checkSchemaCost(schema: JsonObject): void {
  const costs = new Map<JsonObject, number>();
  const targets = new Set<JsonObject>();
  let cost = 0;
  // Ajv writes one function for the schema and one for each target of a reference.
  const open: { node: Json; depth: number }[] = [{ node: schema, depth: 0 }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { node, depth } = next;
    cost += compileCost(node) * (1 + depth / DEPTHS_PER_COST);
    if (cost > MAX_COMPILE_COST) {
      refuse('it takes too long to compile; use fewer or shorter unions, conditions, patterns and lists of properties');
    }
    if (!isJsonObject(node)) continue;
    countFanOut(schema, node, costs);
    const target = referenceTarget(schema, node);
    if (target && !targets.has(target)) {
      targets.add(target);
      open.push({ node: target, depth: 0 });
    }
    // Definitions are compiled where a reference names them.
    const { $defs: _, definitions: __, ...own } = node;
    let place = depth;
    for (const part of [...inPlaceParts(own), ...deeperParts(own)]) open.push({ node: part, depth: (place += 1) });
  }
}

/**
 * The check of a part stands inside the check of the part before it, and V8 takes time for each level: a part behind a hundred
 * others costs twice as much.
 */
const DEPTHS_PER_COST = 100;
/** Longer lists are checked in a loop. */
const MAX_UNROLLED = { required: 20, enum: 200 };

/** The cost of compiling one part of a schema, without the parts in it. Measured, and rounded up. */
function compileCost(node: Json): number {
  if (!isJsonObject(node)) return 1;
  let cost = 1 + Object.keys(node).length;
  if (Array.isArray(node['required'])) cost += Math.min(node['required'].length, MAX_UNROLLED.required) / 2;
  if (Array.isArray(node['enum'])) cost += Math.min(node['enum'].length, MAX_UNROLLED.enum) / 3;
  for (const keyword of ['dependentRequired', 'dependencies'] as const)
    if (isJsonObject(node[keyword])) for (const names of Object.values(node[keyword])) cost += unrolledCost(names);
  if (typeof node['pattern'] === 'string') cost += patternCost(node['pattern']);
  if (isJsonObject(node['patternProperties']))
    for (const pattern of Object.keys(node['patternProperties'])) cost += patternCost(pattern);
  return cost;
}

/** The cost of names that are checked in one expression, each of them inside the one before. */
function unrolledCost(names: Json): number {
  return Array.isArray(names) ? names.length * (1 + names.length / DEPTHS_PER_COST) : 1;
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

function refuse(message: string): never {
  throw new CodedError('SPEC_INVALID', { message: `Schema refused: ${message}` });
}
