import { randomUUID } from 'node:crypto';
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { LRUCache } from 'lru-cache';
import { ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import { boundKeywords } from './bounded-keywords.js';
import { fingerprint } from './canonical.js';
import { checkSchemaSize, countNodes } from './limits.js';
import { addMeter, checkFanOut, meteredSchema } from './metered-schema.js';
import { boundedMatcher } from './pattern.js';
import { StepsExhausted, withinSteps } from './steps.js';

/** Compiled schemas kept; a fleet of 5,000 tools fits. */
const MAX_COMPILED = 5_000;
/** Larger parts that are referred to are compiled once, as functions. */
const MAX_INLINED_KEYWORDS = 8;
/** Values with more nodes get their first fault only: a million faults would be a million objects. */
const MAX_EXPLAINED_NODES = 10_000;

/** A schema that is ready to run. */
export interface CompiledSchema {
  readonly schema: JsonObject;
  /** True when `value` is valid. False, too, when finding that out takes too long; `errors` then says so. */
  check(value: Json): boolean;
  /** All faults of `value` as ajv reports them; empty when valid. */
  errors(value: Json): ErrorObject[];
  /** True when `value` is valid against the part of the schema at `pointer` (`/properties/x/anyOf/0`). */
  checkAt(pointer: string, value: Json): boolean;
}

const regExp = Object.assign(boundedMatcher, { code: 'boundedMatcher' });
const options: Options = {
  strict: false,
  logger: false, // unknown formats and keywords are legal in JSON Schema
  verbose: true, // explain needs the failing value
  ownProperties: true, // "toString" is not there only because every object inherits one
  discriminator: false,
  inlineRefs: MAX_INLINED_KEYWORDS, // one large part that is referred to everywhere must not be compiled as often
  // The optimiser takes quadratic time.
  code: { optimize: false, regExp: regExp as unknown as NonNullable<Options['code']>['regExp'] & object },
};

/** One ajv per dialect and mode, made when first needed: `quick` stops at the first fault, `full` goes on. */
const validators = new Map<string, Ajv>();

function validatorOf(dialectUri: Json | undefined, mode: 'quick' | 'full'): Ajv {
  const Class = /draft-0[4-7]/.test(String(dialectUri ?? '')) ? Ajv : Ajv2020;
  const name = `${Class.name} ${mode}`;
  let ajv = validators.get(name);
  if (!ajv) validators.set(name, (ajv = dialect(Class, mode === 'full')));
  return ajv;
}

function dialect(Class: typeof Ajv | typeof Ajv2020, allErrors: boolean): Ajv {
  const ajv = new Class({ ...options, allErrors }) as Ajv;
  formats.default(ajv);
  boundKeywords(ajv);
  addMeter(ajv);
  return ajv;
}

const compiled = new LRUCache<string, CompiledSchema & { forget(): void }>({
  max: MAX_COMPILED,
  dispose: (entry) => entry.forget(),
});
const byIdentity = new WeakMap<JsonObject, CompiledSchema>();
/** Part of every internal name: a schema must not be able to refer to another one's. */
const prefix = randomUUID();
let serial = 0;

/**
 * Compiles a schema, JSON Schema 2020-12 unless it says draft-07 or older. Compiled once per content: a new revision of a
 * tool that changed only its description costs nothing.
 * @throws ToolError SPEC_INVALID for schemas that are invalid, too large, of exponential cost, or hold a pattern that is
 */
export function compileSchema(schema: JsonObject): CompiledSchema {
  const same = byIdentity.get(schema);
  if (same) return same;
  checkSchemaSize(schema);
  checkFanOut(schema);
  const content = fingerprint(schema);
  const entry = compiled.get(content) ?? build(schema);
  compiled.set(content, entry);
  byIdentity.set(schema, entry);
  return entry;
}

function build(original: JsonObject): CompiledSchema & { forget(): void } {
  // `$async` would make every check a promise, which is always true
  const { $schema: dialectUri, $id: _id, id: _oldId, $async: _async, ...plain } = original;
  const quick = validatorOf(dialectUri, 'quick');
  const schema = meteredSchema(plain, quick);
  serial += 1;
  const key = `schema:${prefix}:${serial}`;
  const check = compileIn(quick, schema, key);
  let explain: ValidateFunction | undefined;
  const parts = new Map<string, ValidateFunction>();
  return {
    schema: original,
    check(value) {
      try {
        return withinSteps(value, () => check(value) as boolean);
      } catch (error) {
        if (!(error instanceof StepsExhausted)) throw error;
        return false;
      }
    },
    errors(value) {
      let first: ErrorObject[] = [];
      try {
        return withinSteps(value, () => {
          if (check(value)) return [];
          first = check.errors ?? [];
          if (countNodes(value, MAX_EXPLAINED_NODES) > MAX_EXPLAINED_NODES) return first;
          explain ??= compileIn(validatorOf(dialectUri, 'full'), schema, key);
          explain(value);
          return explain.errors ?? first;
        });
      } catch (error) {
        if (!(error instanceof StepsExhausted)) throw error;
        return first.length > 0 ? first : [tooCostly(error)];
      }
    },
    checkAt(pointer, value) {
      let part = parts.get(pointer);
      if (!part) {
        const at = `${key}#${pointer.split('/').map(encodeURIComponent).join('/')}`;
        if (!quick.getSchema(key)) compileIn(quick, schema, key); // forgotten meanwhile, but still in use here
        part = quick.getSchema(at);
        if (!part) throw new ToolError('INTERNAL', { message: `No schema at ${pointer}` });
        parts.set(pointer, part);
      }
      return part(value) as boolean;
    },
    forget() {
      quick.removeSchema(key);
      if (explain) validatorOf(dialectUri, 'full').removeSchema(key);
    },
  };
}

function compileIn(ajv: Ajv, schema: JsonObject, key: string): ValidateFunction {
  try {
    ajv.addSchema(schema, key);
    const validate = ajv.getSchema(key);
    if (!validate) throw new Error('not compiled');
    void validate(null); // has the engine read the whole program, so that one it cannot read is refused here and not in a call
    return validate;
  } catch (error) {
    ajv.removeSchema(key);
    const reason = error instanceof Error ? error.message : String(error);
    throw new ToolError('SPEC_INVALID', { message: `Schema refused: ${reason.slice(0, 500)}`, cause: error });
  }
}

/** What is wrong with a value that could not be checked to the end. */
function tooCostly(error: StepsExhausted): ErrorObject {
  return { keyword: 'steps', instancePath: '', schemaPath: '#', params: {}, message: error.message };
}
