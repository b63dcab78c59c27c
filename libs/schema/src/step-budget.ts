import { _, type Ajv, type CodeKeywordDefinition } from 'ajv';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { countNodes } from './schema-limits.js';
import { deeperParts, inPlaceParts, IN_PLACE_LISTS, referenceTarget } from './subschemas.js';

/**
 * The steps that the running validation has left. Schemas come from remote servers and values from callers and upstreams, and
 * JSON Schema can demand exponential work: a union whose branches are unions, over `$ref`, twenty levels deep. Compiled
 * validators, patterns and coercion count their steps and stop at the limit.
 *
 * One counter per process is enough: validation is synchronous, so at most one runs at a time.
 */
let left = Number.POSITIVE_INFINITY;
let counting = false;

/** Steps that every validation gets, about 5 ms. Values need a few steps per part. */
const MIN_STEPS = 100_000;
/** Steps per part of a larger value: a union of 30 forms whose members are checked one by one needs about this many. */
const STEPS_PER_PART = 64;
/** About 100 ms: more than parsing the largest NATS message takes. */
const MAX_STEPS = 2_000_000;
/** UTF-16 units of text that count as one part of a value. */
const PART_CHARS = 64;

/** A validation has used up its steps. */
export class StepsExhausted extends Error {
  constructor() {
    super('The value takes too long to check against its schema');
  }
}

/** Charges work to the running validation; does nothing outside one. @throws StepsExhausted */
export function chargeSteps(steps: number): void {
  left -= steps;
  if (left < 0) throw new StepsExhausted();
}

/**
 * Runs a validation of `value` with a limit of steps: a fixed number first, then one in proportion to the value. Nested
 * validations share the steps of the outer one.
 * @param work may run twice, so it must have no side effects
 * @throws StepsExhausted and whatever `work` throws
 */
export function withinSteps<T>(value: Json, work: () => T): T {
  if (counting) return work();
  try {
    return counted(MIN_STEPS, work);
  } catch (error) {
    if (!(error instanceof StepsExhausted)) throw error;
    const limit = Math.min(MAX_STEPS, STEPS_PER_PART * countParts(value, MAX_STEPS / STEPS_PER_PART));
    if (limit <= MIN_STEPS) throw error;
    return counted(limit, work);
  }
}

function counted<T>(limit: number, work: () => T): T {
  counting = true;
  left = limit;
  try {
    return work();
  } finally {
    counting = false;
    left = Number.POSITIVE_INFINITY;
  }
}

/** Counts the parts of a value (values and names; long texts count as several), up to `most`. */
function countParts(value: Json, most: number): number {
  const open: Json[] = [value];
  let parts = 0;
  for (let item = open.pop(); item !== undefined && parts < most; item = open.pop()) {
    parts += 1;
    if (typeof item === 'string') parts += item.length / PART_CHARS;
    else if (Array.isArray(item)) for (const member of item) open.push(member);
    else if (typeof item === 'object' && item !== null) {
      for (const name of Object.keys(item)) {
        parts += name.length / PART_CHARS;
        open.push(item[name] as Json);
      }
    }
  }
  return Math.min(parts, most);
}

/** Keyword that makes a compiled schema count its steps. Removed from schemas as they come in, then set in every part. */
const METER = 'x-steps';

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

/** Adds the keyword that counts steps to an ajv instance. */
export function addMeter(ajv: Ajv): void {
  ajv.addKeyword(meter);
}

/** @param weight of a schema, as `encodeWeight` returns it */
function chargeFor(weight: number, value: Json): void {
  let steps = weight >> 1;
  if (typeof value === 'string') steps += value.length >> 6;
  else if ((weight & 1) === 1 && isJsonObject(value)) steps += Object.keys(value).length;
  chargeSteps(steps);
}

/**
 * Copies a schema so that its validator counts steps once `ajv` has compiled it.
 * @param schema its references must be JSON pointers into it
 */
export function meteredSchema(schema: JsonObject, ajv: Ajv): JsonObject {
  const copy = structuredClone(schema);
  const done = new Set<JsonObject>();
  const open: Json[] = [copy];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    if (!isJsonObject(node) || done.has(node)) continue;
    done.add(node);
    delete node[METER];
    // References are pointers from the root: an `$id` in a subschema would change their base.
    if (node !== copy) for (const id of ['$id', 'id'] as const) if (typeof node[id] === 'string') delete node[id];
    const target = referenceTarget(copy, node);
    if (target) open.push(target);
    open.push(...inPlaceParts(node), ...deeperParts(node));
    if (Object.keys(node).some((keyword) => ajv.RULES.all[keyword] !== undefined)) node[METER] = encodeWeight(node);
  }
  return copy;
}

/** Twice the steps that applying a schema costs, plus 1 when its work grows with the members of an object. */
function encodeWeight(node: JsonObject): number {
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
