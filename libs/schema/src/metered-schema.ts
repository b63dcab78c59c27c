import { _, type Ajv, type CodeKeywordDefinition } from 'ajv';
import { isJsonObject, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import { decodeFragment, schemaAt } from './json-pointer.js';
import { countNodes } from './limits.js';
import { chargeSteps } from './steps.js';

/** Keyword that makes a compiled schema count its steps. Never read from a schema of others: it is set in every part. */
const METER = 'x-steps';

/**
 * Most schemas in a schema. Compiling one takes up to half a millisecond, on the event loop; the largest of 2,338 operations of
 * 40 public API documents has 1,636.
 */
export const MAX_SCHEMA_PARTS = 5_000;
/** Most schemas that may be applied to one and the same value. */
export const MAX_FAN_OUT = 10_000;

/** Keywords whose schemas apply to the same value. */
const IN_PLACE_LISTS = ['allOf', 'anyOf', 'oneOf'] as const;
const IN_PLACE = ['not', 'if', 'then', 'else'] as const;
/** Keywords whose schemas apply to parts of the value. */
const OF_PARTS = [
  'additionalProperties',
  'unevaluatedProperties',
  'items',
  'additionalItems',
  'unevaluatedItems',
  'contains',
  'propertyNames',
] as const;
/** Objects whose members are schemas. */
const MAPS = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies'] as const;
/** Keywords whose own work grows with the number of members of an object. */
const SIZED = ['additionalProperties', 'patternProperties', 'propertyNames', 'minProperties', 'maxProperties'] as const;

const meter: CodeKeywordDefinition = {
  keyword: METER,
  before: '$ref',
  schemaType: 'number',
  code({ gen, data, schema }) {
    const charge = gen.scopeValue('func', { ref: chargeFor });
    gen.code(_`${charge}(${schema as number}, ${data})`);
  },
};

/** Teaches a validator to count its steps. */
export function addMeter(ajv: Ajv): void {
  ajv.addKeyword(meter);
}

/** `figure`: twice the weight of a schema, plus 1 when its work grows with the members of an object. */
function chargeFor(figure: number, value: Json): void {
  let steps = figure >> 1;
  if (typeof value === 'string') steps += value.length >> 6;
  else if ((figure & 1) === 1 && isJsonObject(value)) steps += Object.keys(value).length;
  chargeSteps(steps);
}

/**
 * A copy of a schema that counts its steps when `ajv` has compiled it.
 * @param schema whose references are JSON pointers into it
 */
export function meteredSchema(schema: JsonObject, ajv: Ajv): JsonObject {
  const copy = structuredClone(schema);
  const done = new Set<JsonObject>();
  const open: Json[] = [copy];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    if (!isJsonObject(node) || done.has(node)) continue;
    done.add(node);
    delete node[METER];
    // References are pointers from the root, as everywhere in the fleet: an id of a part would give them another base.
    if (node !== copy) for (const id of ['$id', 'id'] as const) if (typeof node[id] === 'string') delete node[id];
    const target = referenceTarget(copy, node);
    if (target) open.push(target);
    open.push(...inPlaceParts(node), ...deeperParts(node));
    if (Object.keys(node).some((keyword) => ajv.RULES.all[keyword] !== undefined)) node[METER] = figureOf(node);
  }
  return copy;
}

function figureOf(node: JsonObject): number {
  let sizes = 0;
  for (const keyword of [...IN_PLACE_LISTS, 'required', 'properties', 'prefixItems', 'dependentRequired']) {
    const value = node[keyword];
    if (typeof value === 'object' && value !== null) sizes += Object.keys(value).length;
  }
  for (const keyword of ['enum', 'const'] as const) {
    if (node[keyword] !== undefined) sizes += countNodes(node[keyword], 1_000_000);
  }
  const sized = SIZED.some((keyword) => node[keyword] !== undefined) || node['unevaluatedProperties'] !== undefined;
  return 2 * (1 + (sizes >> 3)) + (sized ? 1 : 0);
}

/**
 * Refuses a schema of too many parts, one that applies more than `MAX_FAN_OUT` schemas to one value, and one that applies a
 * schema to a value it is being applied to: compiling or validating would take too long, or not end.
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
    fanOutOf(schema, node, costs);
    const target = referenceTarget(schema, node);
    if (target) open.push(target);
    open.push(...inPlaceParts(node), ...deeperParts(node));
  }
}

/** Schemas applied to a value by one schema, itself included. 0 in `costs`: being counted. */
function fanOutOf(root: JsonObject, schema: JsonObject, costs: Map<JsonObject, number>): number {
  const known = costs.get(schema);
  if (known === 0) refuse('a part of it refers to itself and to the same part of the value');
  if (known !== undefined) return known;
  costs.set(schema, 0);
  let cost = 1;
  const target = referenceTarget(root, schema);
  for (const part of target ? [target, ...inPlaceParts(schema)] : inPlaceParts(schema)) {
    cost += isJsonObject(part) ? fanOutOf(root, part, costs) : 1;
    if (cost > MAX_FAN_OUT) {
      refuse(
        `its unions and references apply more than ${MAX_FAN_OUT} schemas to one value; use fewer branches or levels`,
      );
    }
  }
  costs.set(schema, cost);
  return cost;
}

function inPlaceParts(node: JsonObject): Json[] {
  const parts: Json[] = [];
  for (const keyword of IN_PLACE_LISTS) if (Array.isArray(node[keyword])) parts.push(...node[keyword]);
  for (const keyword of IN_PLACE) if (node[keyword] !== undefined) parts.push(node[keyword]);
  for (const keyword of ['dependentSchemas', 'dependencies'] as const)
    if (isJsonObject(node[keyword])) parts.push(...Object.values(node[keyword]).filter(isJsonObject));
  return parts;
}

function deeperParts(node: JsonObject): Json[] {
  const parts: Json[] = [];
  for (const keyword of MAPS) if (isJsonObject(node[keyword])) parts.push(...Object.values(node[keyword]));
  for (const keyword of OF_PARTS) {
    const value = node[keyword];
    if (value !== undefined) parts.push(...(Array.isArray(value) ? value : [value]));
  }
  if (Array.isArray(node['prefixItems'])) parts.push(...node['prefixItems']);
  return parts;
}

/** The schema a `$ref` or `$dynamicRef` points to; undefined for none, and for one that leads nowhere, which ajv refuses. */
function referenceTarget(root: JsonObject, node: JsonObject): JsonObject | undefined {
  const reference = typeof node['$ref'] === 'string' ? node['$ref'] : node['$dynamicRef'];
  if (typeof reference !== 'string' || !/^#(?:\/|$)/.test(reference)) return undefined;
  const target = schemaAt(root, decodeFragment(reference));
  return isJsonObject(target) ? target : undefined;
}

function refuse(message: string): never {
  throw new ToolError('SPEC_INVALID', { message: `Schema refused: ${message}` });
}
