import { _, Name, type Ajv, type CodeKeywordDefinition } from 'ajv';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import { countNodes, MAX_BODY_NODES } from '@toolfleet/base/json-text';
import { deeperParts, inPlaceParts, IN_PLACE_LISTS, referenceTarget } from './subschemas.js';

/**
 * The steps that the running validation has left. Schemas come from remote servers and values from callers and upstreams, and
 * JSON Schema can demand exponential work: a union with unions as branches, over `$ref`, twenty levels deep. Compiled
 * validators, patterns and coercion count their steps and stop at the limit.
 *
 * One counter per process is enough: validation is synchronous, so at most one runs at a time.
 */
const budget = { left: Number.POSITIVE_INFINITY };
let errorsLeft = Number.POSITIVE_INFINITY;
/** Names and values that JSON texts in the value may still have together. */
let textNodesLeft = Number.POSITIVE_INFINITY;
let counting = false;

/**
 * Steps of a validation on an event loop. A step is work of at most about 100 ns, so this is 20 ms, and 50 ms on a slow core.
 * An array of 20,000 objects with two members fits.
 */
const LOOP_STEPS = 200_000;
/** Steps of a validation in its own process: two seconds, and five on a slow core. */
export const CHILD_STEPS = 100 * LOOP_STEPS;
/** Error objects of a validation that reports all errors. A failed union has several for each of its forms. */
const MAX_ERRORS = 1_000;
/** Steps of an error object. It takes about 300 bytes, so its share of the garbage collection counts as well. */
const ERROR_STEPS = 10;

/** A validation has used up its steps. */
export class StepsExhausted extends Error {
  constructor(message = 'The value takes too long to check against its schema') {
    super(message);
  }
}

/** JSON text in a value exceeds the limits of a body: no number of steps would be enough. */
export class TextRefused extends StepsExhausted {}

/** Counts the names and values of a JSON text that is about to be parsed. @throws TextRefused, StepsExhausted */
export function chargeText(nodes: number, length: number): void {
  textNodesLeft -= nodes;
  if (textNodesLeft < 0) throw new TextRefused(`JSON texts have more than ${MAX_BODY_NODES} names and values`);
  chargeSteps(NODE_STEPS * nodes + (length >> TEXT_SHIFT));
}

/** Steps of parsing a name or value of JSON text. */
const NODE_STEPS = 2;

/** Charges work to the running validation; does nothing outside one. @throws StepsExhausted */
export function chargeSteps(steps: number): void {
  budget.left -= steps;
  if (budget.left < 0) exhausted();
}

function exhausted(): never {
  throw new StepsExhausted();
}

/**
 * Runs a validation with a limit of steps. Equal values and schemas take equal steps, whatever the machine does besides. Nested
 * validations share the steps of the outer one.
 * @throws StepsExhausted and whatever `work` throws
 */
export function withinSteps<T>(work: () => T, limit = LOOP_STEPS): T {
  if (counting) return work();
  counting = true;
  budget.left = limit;
  textNodesLeft = MAX_BODY_NODES;
  try {
    return work();
  } finally {
    counting = false;
    budget.left = Number.POSITIVE_INFINITY;
    textNodesLeft = Number.POSITIVE_INFINITY;
  }
}

/**
 * Runs work at the cost of the schema, not of the value, without charging the running validation: the first value that is
 * checked must not be refused for the compilation that it causes.
 */
export function withoutSteps<T>(work: () => T): T {
  const before = budget.left;
  budget.left = Number.POSITIVE_INFINITY;
  try {
    return work();
  } finally {
    budget.left = before;
  }
}

/** Runs a validator that reports all errors and stops after `MAX_ERRORS`. @throws StepsExhausted */
export function withinErrors(validate: () => void): void {
  errorsLeft = MAX_ERRORS;
  try {
    validate();
  } finally {
    errorsLeft = Number.POSITIVE_INFINITY;
  }
}

/** Stops a validator that has collected too many errors. @throws StepsExhausted */
function limitErrors(collected: number): void {
  if (collected > MAX_ERRORS) throw new StepsExhausted();
}

/** Charges one error object. Generated code calls it right before it creates one. */
function chargeError<T>(params: T): T {
  errorsLeft -= 1;
  if (errorsLeft < 0) throw new StepsExhausted();
  chargeSteps(ERROR_STEPS);
  return params;
}

/** Charges the parts of a value (values, names and their text) before work that visits all of them. @throws StepsExhausted */
export function chargeParts(value: Json): void {
  const open: Json[] = [value];
  for (let item = open.pop(); item !== undefined; item = open.pop()) {
    chargeSteps(PART_STEPS);
    if (typeof item === 'string') chargeSteps(item.length >> TEXT_SHIFT);
    else if (Array.isArray(item)) for (const member of item) open.push(member);
    else if (typeof item === 'object' && item !== null) {
      for (const name of Object.keys(item)) {
        chargeSteps(PART_STEPS + (name.length >> TEXT_SHIFT));
        open.push(item[name] as Json);
      }
    }
  }
}

/** Steps for each part of a value that is written as canonical JSON. */
const PART_STEPS = 2;
/** A step reads 32 UTF-16 units of text. */
const TEXT_SHIFT = 5;

/** Keyword that makes a compiled schema count its steps. Removed from schemas as they come in, then set in every part. */
const METER = 'x-steps';

/** Steps of applying one schema, without its subschemas and patterns: these charge for themselves. */
interface Price {
  base: number;
  /** For each member of an object, or item of an array. */
  member: number;
  /** How much of a text is read, in UTF-16 units; null for all of it. Part of a schema, so it must be a JSON value. */
  text: number | null;
}

/** The variable of generated code that counts the collected errors. */
const ERROR_COUNT = new Name('errors');

const meter: CodeKeywordDefinition = {
  keyword: METER,
  before: '$ref',
  schemaType: 'object',
  code({ gen, data, schema, it }) {
    const { base, member, text } = schema as Price;
    // Errors of types and of schemas `false` are not created by a keyword.
    if (it.allErrors) gen.code(_`${gen.scopeValue('func', { ref: limitErrors })}(${ERROR_COUNT})`);
    if (member === 0 && text === 0) {
      // As `chargeSteps`, without a function call for each part of a schema.
      const steps = _`${gen.scopeValue('obj', { ref: budget })}.left`;
      gen.code(_`if ((${steps} -= ${base}) < 0) ${gen.scopeValue('func', { ref: exhausted })}()`);
      return;
    }
    gen.code(_`${gen.scopeValue('func', { ref: chargeFor })}(${base}, ${member}, ${text}, ${data})`);
  },
};

/** Makes an ajv instance count steps, error objects' included. */
export function addMeter(ajv: Ajv): void {
  for (const rule of Object.values(ajv.RULES.all)) {
    if (typeof rule !== 'object' || !rule.definition.error) continue;
    const { params, ...error } = rule.definition.error;
    // Ajv has no hook for errors, but evaluates `params` for every error object that it creates.
    rule.definition.error = {
      ...error,
      params: (cxt) => {
        const created = typeof params === 'function' ? params(cxt) : (params ?? _`{}`);
        return _`${cxt.gen.scopeValue('func', { ref: chargeError })}(${created})`;
      },
    };
  }
  ajv.addKeyword(meter);
}

function chargeFor(base: number, member: number, text: number | null, value: Json): void {
  let steps = base;
  if (typeof value === 'string') {
    steps += Math.min(value.length, text ?? value.length) >> TEXT_SHIFT;
  } else if (member > 0 && typeof value === 'object' && value !== null) {
    steps += member * (Array.isArray(value) ? value.length : Object.keys(value).length);
  }
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
    if (Object.keys(node).some((keyword) => ajv.RULES.all[keyword] !== undefined)) node[METER] = { ...priceOf(node) };
  }
  return copy;
}

/** Keywords with time that grows with the members of a value, and the steps of each member. Measured, and rounded up. */
const MEMBER_STEPS: Readonly<Record<string, number>> = {
  additionalProperties: 2,
  unevaluatedProperties: 3,
  patternProperties: 1,
  propertyNames: 4,
  minProperties: 1,
  maxProperties: 1,
};
/** Names and nodes of a keyword that are looked up or compared in one step. */
const LOOKUPS_PER_STEP = 4;
const FORMAT_STEPS = 5;
/** Formats of dates are split into their parts. */
const TIME_STEPS = 20;

function priceOf(node: JsonObject): Price {
  let lookups = 0;
  for (const keyword of [...IN_PLACE_LISTS, 'required', 'properties', 'prefixItems']) lookups += sizeOf(node[keyword]);
  for (const keyword of ['enum', 'const'] as const)
    if (node[keyword] !== undefined) lookups += countNodes(node[keyword], 1_000_000);
  // These are compiled to one long function, not optimized by the engine.
  for (const keyword of ['dependentRequired', 'dependencies'] as const)
    if (node[keyword] !== undefined) lookups += 2 * LOOKUPS_PER_STEP * countNodes(node[keyword], 1_000_000);
  let member = 0;
  for (const [keyword, steps] of Object.entries(MEMBER_STEPS)) if (node[keyword] !== undefined) member += steps;
  member += ERROR_STEPS * countFalse(node);
  return {
    base: 1 + Math.floor(lookups / LOOKUPS_PER_STEP) + formatSteps(node['format']),
    member,
    text: textOf(node),
  };
}

/** `minLength` and `maxLength` stop at twice their limit (`boundKeywords`), and texts of other lengths than an allowed one are not compared. */
function textOf(node: JsonObject): number | null {
  if (node['format'] !== undefined) return null;
  let read = 0;
  for (const keyword of ['minLength', 'maxLength'] as const) {
    const limit = node[keyword];
    if (typeof limit === 'number') read = Math.max(read, 2 * limit);
  }
  for (const keyword of ['enum', 'const'] as const)
    if (node[keyword] !== undefined) read = Math.max(read, JSON.stringify(node[keyword]).length);
  return read;
}

function formatSteps(format: Json | undefined): number {
  if (typeof format !== 'string') return 0;
  return /date|time/.test(format) ? TIME_STEPS : FORMAT_STEPS;
}

/** Schemas `false` that create an error object for every member. Ajv compiles them without asking a keyword. */
function countFalse(node: JsonObject): number {
  let count = 0;
  for (const keyword of ['items', 'additionalItems', 'unevaluatedItems', 'propertyNames', 'contains'] as const)
    if (node[keyword] === false) count += 1;
  for (const keyword of ['properties', 'patternProperties'] as const)
    if (isJsonObject(node[keyword])) count += Object.values(node[keyword]).filter((part) => part === false).length;
  return count;
}

const sizeOf = (value: Json | undefined): number =>
  typeof value === 'object' && value !== null ? Object.keys(value).length : 0;
