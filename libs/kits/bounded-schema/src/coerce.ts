import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import { asDoubles } from '@toolfleet/base/json-text';
import { canonicalJson } from './canonical.js';
import { coerceScalar, fits, parseLarge, parseStructure, jsonType, type TypeName } from './coerce-scalar.js';
import type { CompiledSchema } from './compile.js';
import { decodeFragment, escapePointer, schemaAt, setOwn } from './subschemas.js';
import { chargeSteps } from './step-budget.js';

/** One conversion that was applied. It has no values, because they may be secret. */
export interface Coercion {
  /** JSON pointer into the arguments; empty for the arguments as a whole. */
  path: string;
  from: string;
  to: string;
}

/** `all`: every lossless conversion. `json_text`: only arrays, objects and large integers sent as text (inside an OpenAPI body). */
type CoercionMode = 'all' | 'json_text';

/** Converts a value on its way to a schema; returns the same reference when there is nothing to convert. */
export type Coercer = (value: Json, path: string, notes: CoercionNotes) => Json;

/** Maximum number of union branches tried for the arguments of one call. */
export const MAX_UNION_TRIALS = 1_000;

/** Collected while the arguments of one call are converted. */
interface CoercionNotes {
  made: Coercion[];
  /** Union branches that may still be tried: nested unions multiply. */
  readonly trials: { left: number };
}

/** Undefined when a part of the schema converts nothing. */
type MaybeCoercer = Coercer | undefined;

/**
 * Builds the conversion for a schema once per revision, so that a call runs closures only. Supports `$ref`, `allOf`, `anyOf` and
 * `oneOf`; a union converts a value only when exactly one conversion makes it valid.
 */
export function buildCoercer(compiled: CompiledSchema, pointer: string, mode: CoercionMode): MaybeCoercer {
  return new Builder(compiled, mode).at(pointer);
}

class Builder {
  readonly #built = new Map<string, { coercer: MaybeCoercer; done: boolean }>();

  constructor(
    private readonly compiled: CompiledSchema,
    private readonly mode: CoercionMode,
  ) {}

  at(pointer: string): MaybeCoercer {
    const known = this.#built.get(pointer);
    if (known?.done) return known.coercer;
    if (known) return (value, path, notes) => known.coercer?.(value, path, notes) ?? value; // recursive schema
    const slot: { coercer: MaybeCoercer; done: boolean } = { coercer: undefined, done: false };
    this.#built.set(pointer, slot);
    const schema = schemaAt(this.compiled.schema, pointer);
    if (isJsonObject(schema)) slot.coercer = sequence(this.#steps(schema, pointer));
    slot.done = true;
    return slot.coercer;
  }

  #steps(schema: JsonObject, pointer: string): MaybeCoercer[] {
    const steps: MaybeCoercer[] = [];
    if (typeof schema.$ref === 'string' && schema.$ref.startsWith('#'))
      steps.push(this.at(decodeFragment(schema.$ref)));
    if (Array.isArray(schema.allOf))
      schema.allOf.forEach((_, index) => steps.push(this.at(`${pointer}/allOf/${index}`)));
    steps.push(this.#scalar(schema), this.#object(schema, pointer), this.#array(schema, pointer));
    for (const union of ['anyOf', 'oneOf'] as const) {
      if (Array.isArray(schema[union])) steps.push(this.#union(pointer, union, schema[union].length));
    }
    return steps;
  }

  #scalar(schema: JsonObject): MaybeCoercer {
    const wanted = readTypes(schema);
    if (wanted.length === 0) return undefined;
    const structures = wanted.filter((type) => type === 'array' || type === 'object');
    const mode = this.mode;
    if (mode === 'json_text' && structures.length === 0 && !wanted.includes('integer')) return undefined;
    return (value, path, notes) => {
      chargeSteps(1);
      const from = jsonType(value);
      if (fits(from, wanted)) return value;
      const converted =
        mode === 'all'
          ? coerceScalar(value, wanted)
          : (structures.map((type) => parseStructure(value, type)).find(Boolean) ?? parseLarge(value, wanted));
      if (converted === undefined) return value;
      notes.made.push({ path, from, to: jsonType(converted) });
      return converted;
    };
  }

  #object(schema: JsonObject, pointer: string): MaybeCoercer {
    const members = new Map<string, Coercer>();
    for (const name of Object.keys(isJsonObject(schema.properties) ? schema.properties : {})) {
      const member = this.at(`${pointer}/properties/${escapePointer(name)}`);
      if (member) members.set(name, member);
    }
    const others = isJsonObject(schema.additionalProperties) ? this.at(`${pointer}/additionalProperties`) : undefined;
    if (members.size === 0 && !others) return undefined;
    const declared = isJsonObject(schema.properties) ? schema.properties : {};
    return (value, path, notes) => {
      if (!isJsonObject(value)) return value;
      let copy = value;
      const names = Object.keys(value);
      chargeSteps(1 + names.length);
      for (const name of names) {
        const member = members.get(name) ?? (Object.hasOwn(declared, name) ? undefined : others);
        const before = value[name];
        if (!member || before === undefined) continue;
        const after = member(before, `${path}/${escapePointer(name)}`, notes);
        if (after === before) continue;
        if (copy === value) copy = { ...value };
        setOwn(copy, name, after);
      }
      return copy;
    };
  }

  #array(schema: JsonObject, pointer: string): MaybeCoercer {
    const prefix = Array.isArray(schema.prefixItems)
      ? schema.prefixItems.map((_, index) => this.at(`${pointer}/prefixItems/${index}`))
      : [];
    const rest = isJsonObject(schema.items) ? this.at(`${pointer}/items`) : undefined;
    if (!rest && prefix.every((item) => item === undefined)) return undefined;
    return (value, path, notes) => {
      if (!Array.isArray(value)) return value;
      chargeSteps(1 + value.length);
      let copy = value;
      for (let index = 0; index < value.length; index += 1) {
        const item = index < prefix.length ? prefix[index] : rest;
        const before = value[index];
        if (!item || before === undefined) continue;
        const after = item(before, `${path}/${index}`, notes);
        if (after === before) continue;
        if (copy === value) copy = value.slice();
        copy[index] = after;
      }
      return copy;
    };
  }

  #union(pointer: string, keyword: 'anyOf' | 'oneOf', length: number): MaybeCoercer {
    const branches = Array.from({ length }, (_, index) => ({
      pointer: `${pointer}/${keyword}/${index}`,
      coerce: this.at(`${pointer}/${keyword}/${index}`),
    }));
    return (value, path, notes) => {
      const seen = asDoubles(value);
      if (branches.some((branch) => this.compiled.checkAt(branch.pointer, seen))) return value;
      let found: { value: Json; notes: CoercionNotes } | undefined;
      for (const branch of branches) {
        if (notes.trials.left <= 0) return value;
        notes.trials.left -= 1;
        const trial: CoercionNotes = { made: [], trials: notes.trials };
        const candidate = branch.coerce?.(value, path, trial) ?? value;
        if (candidate === value || !this.compiled.checkAt(branch.pointer, asDoubles(candidate))) continue;
        if (found && canonicalJson(found.value) !== canonicalJson(candidate)) return value; // ambiguous, and coercion never guesses
        found ??= { value: candidate, notes: trial };
      }
      if (!found) return value;
      notes.made.push(...found.notes.made);
      return found.value;
    };
  }
}

function sequence(steps: readonly MaybeCoercer[]): MaybeCoercer {
  const active = steps.filter((step): step is Coercer => step !== undefined);
  if (active.length < 2) return active[0];
  return (value, path, notes) => active.reduce((current, step) => step(current, path, notes), value);
}

/** The types that a schema allows: `type`, or the types of its `const` and `enum`. */
function readTypes(schema: JsonObject): TypeName[] {
  if (typeof schema.type === 'string') return [schema.type as TypeName];
  if (Array.isArray(schema.type)) return schema.type as TypeName[];
  const values = schema.const === undefined ? schema.enum : [schema.const];
  return Array.isArray(values) ? [...new Set(values.map(jsonType))] : [];
}
