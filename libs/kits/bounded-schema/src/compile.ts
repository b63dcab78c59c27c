import { randomUUID } from 'node:crypto';
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { CodedError, RecentMap, type Json, type JsonObject, type KitCode } from '@toolfleet/base';
import { boundKeywords } from './bounded-keywords.js';
import { fingerprint } from './canonical.js';
import { explainErrors } from './explain.js';
import { boundedMatcher } from './pattern.js';
import { checkSchemaCost, checkSchemaSize } from './schema-limits.js';
import { addMeter, meteredSchema, StepsExhausted, withinErrors, withinSteps, withoutSteps } from './step-budget.js';

/** Compiled schemas in the cache; 5,000 tools fit. */
const MAX_COMPILED = 5_000;
/** Referenced subschemas with more keywords are compiled once, as functions. */
const MAX_INLINED_KEYWORDS = 8;

/** A compiled schema. Values are checked within a limit of steps. */
export interface CompiledSchema {
  readonly schema: JsonObject;
  /** The copy of it that `errors` refers to. */
  readonly checked: JsonObject;
  /**
   * Whether `value` is valid; also false when checking takes too long, as `errors` reports.
   * @param steps limit; by default an event loop's
   */
  check(value: Json, steps?: number): boolean;
  /** All faults of `value` as ajv reports them, or the first one when there are many; empty when valid. */
  errors(value: Json, steps?: number): ErrorObject[];
  /** Whether `value` is valid against the subschema at `pointer` (`/properties/x/anyOf/0`). */
  checkAt(pointer: string, value: Json): boolean;
}

const regExp = Object.assign(boundedMatcher, { code: 'boundedMatcher' });
const options: Options = {
  strict: false,
  logger: false, // unknown formats and keywords are legal in JSON Schema
  verbose: true, // explain needs the failing value
  ownProperties: true, // an inherited "toString" is not a property of the value
  discriminator: false,
  loopRequired: 20, // long lists are faster in a loop, because the engine does not optimise long functions
  inlineRefs: MAX_INLINED_KEYWORDS, // a large subschema with many references must not be compiled once per reference
  // The optimiser takes quadratic time.
  code: { optimize: false, regExp: regExp as unknown as NonNullable<Options['code']>['regExp'] & object },
};

/** One ajv per dialect and mode, created on first use: `quick` stops at the first fault, `full` reports all. */
const validators = new Map<string, Ajv>();

function getValidator(dialectUri: Json | undefined, mode: 'quick' | 'full'): Ajv {
  const Class = /draft-0[4-7]/.test(String(dialectUri ?? '')) ? Ajv : Ajv2020;
  const name = `${Class.name} ${mode}`;
  let ajv = validators.get(name);
  if (!ajv) validators.set(name, (ajv = createValidator(Class, mode === 'full')));
  return ajv;
}

function createValidator(Class: typeof Ajv | typeof Ajv2020, allErrors: boolean): Ajv {
  const ajv = new Class({ ...options, allErrors }) as Ajv;
  formats.default(ajv);
  boundKeywords(ajv);
  addMeter(ajv);
  return ajv;
}

const compiled = new RecentMap<string, CompiledSchema & { forget(): void }>({
  max: MAX_COMPILED,
  dispose: (entry) => entry.forget(),
});
const byIdentity = new WeakMap<JsonObject, CompiledSchema>();
/** Part of every internal name, so that a schema cannot guess a reference to another one. */
const prefix = randomUUID();
let serial = 0;

/**
 * Compiles a schema as JSON Schema 2020-12, or as draft-07 where `$schema` names an older draft. Cached by content: a new
 * revision of a tool that changed only its description costs nothing.
 * @throws CodedError SPEC_INVALID when the schema or a pattern in it is invalid, too large, or of exponential cost
 */
export function compileSchema(schema: JsonObject): CompiledSchema {
  const same = byIdentity.get(schema);
  if (same) return same;
  checkSchemaSize(schema);
  checkSchemaCost(schema);
  const content = fingerprint(schema);
  const entry = compiled.get(content) ?? build(schema);
  compiled.set(content, entry);
  byIdentity.set(schema, entry);
  return entry;
}

function build(original: JsonObject): CompiledSchema & { forget(): void } {
  // `$async` would make every check a promise (always true)
  const { $schema: dialectUri, $id: _id, id: _oldId, $async: _async, ...plain } = original;
  const quick = getValidator(dialectUri, 'quick');
  const schema = meteredSchema(plain, quick);
  serial += 1;
  const key = `schema:${prefix}:${serial}`;
  const check = compileIn(quick, schema, key);
  let explain: ValidateFunction | undefined;
  const parts = new Map<string, ValidateFunction>();
  return {
    schema: original,
    checked: schema,
    check(value, steps) {
      try {
        return withinSteps(() => check(value) as boolean, steps);
      } catch (error) {
        if (!(error instanceof StepsExhausted)) throw error;
        return false;
      }
    },
    errors(value, steps) {
      let first: ErrorObject[] = [];
      try {
        return withinSteps(() => {
          if (check(value)) return [];
          first = check.errors ?? [];
          const all = (explain ??= compileIn(getValidator(dialectUri, 'full'), schema, key));
          withinErrors(() => void all(value));
          return all.errors ?? first;
        }, steps);
      } catch (error) {
        if (!(error instanceof StepsExhausted)) throw error;
        return first.length > 0 ? first : [tooCostly(error)];
      }
    },
    checkAt(pointer, value) {
      let part = parts.get(pointer);
      if (!part) {
        const at = `${key}#${pointer.split('/').map(encodeURIComponent).join('/')}`;
        if (!quick.getSchema(key)) compileIn(quick, schema, key); // evicted from the cache, but still in use here
        part = quick.getSchema(at);
        if (!part) throw new CodedError('INTERNAL', { message: `No schema at ${pointer}` });
        parts.set(pointer, part);
      }
      return part(value) as boolean;
    },
    forget() {
      quick.removeSchema(key);
      if (explain) getValidator(dialectUri, 'full').removeSchema(key);
    },
  };
}

function compileIn(ajv: Ajv, schema: JsonObject, key: string): ValidateFunction {
  try {
    return withoutSteps(() => {
      ajv.addSchema(schema, key);
      const validate = ajv.getSchema(key);
      if (!validate) throw new Error('not compiled');
      void validate(null); // makes V8 parse the whole function now, so that a failure rejects the schema and not a later call
      return validate;
    });
  } catch (error) {
    ajv.removeSchema(key);
    const reason = error instanceof Error ? error.message : String(error);
    throw new CodedError('SPEC_INVALID', { message: `Schema refused: ${reason.slice(0, 500)}`, cause: error });
  }
}

/** The keyword of the error of a value after its steps were used up. */
export const STEPS_KEYWORD = 'steps';

function tooCostly(error: StepsExhausted): ErrorObject {
  return { keyword: STEPS_KEYWORD, instancePath: '', schemaPath: '#', params: {}, message: error.message };
}

/**
 * Compiles a validator for messages between processes.
 * @param code of the error for invalid messages
 * @returns a function that returns its message, typed, and throws a CodedError that names every fault of an invalid one
 * @throws CodedError SPEC_INVALID when the schema does not compile
 */
export function validateMessage<T>(schema: JsonObject, code: KitCode = 'REQUEST_INVALID'): (message: unknown) => T {
  const validator = compileSchema(schema);
  return (message) => {
    if (validator.check(message as Json)) return message as T;
    if (message === undefined || message === null) throw new CodedError(code, { message: 'The message is empty' });
    const faults = explainErrors(validator.errors(message as Json));
    throw new CodedError(code, {
      message: `Invalid message: ${faults.map((fault) => `${fault.path || '/'}: ${fault.message}`).join('; ')}`,
      details: { faults: faults.map((fault) => ({ ...fault })) },
    });
  };
}
