import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import { asDoubles, countNodes, MAX_BODY_NODES, nestingDepth } from '@toolfleet/base/json-text';
import { plainName } from './anthropic-schema.js';
import { compileSchema, STEPS_KEYWORD, type CompiledSchema } from './compile.js';
import { buildCoercer, MAX_UNION_TRIALS, type Coercer, type Coercion } from './coerce.js';
import { parseArgument } from './coerce-scalar.js';
import { explainErrors, faultAt, MAX_FAULTS, shorten, type ArgumentFault } from './explain.js';
import { escapePointer, schemaAt, setOwn } from './subschemas.js';
import { MAX_ARGUMENT_DEPTH } from './schema-limits.js';
import { chargeSteps, StepsExhausted, TextRefused, withinSteps } from './step-budget.js';

/** How the arguments of one tool are read. */
export interface ArgumentRules {
  toolName: string;
  /** Rejects unknown arguments even where the schema does not (non-idempotent tools). */
  refuseUnknown?: boolean;
  /** Binding kind openapi: inside this property only JSON text becomes an array or object. */
  bodyProperty?: string;
}

/** How a caller sees one tool, where that differs from its schema. */
export interface ArgumentView {
  /** Name of the tool that the caller knows. */
  shownName: string;
  /** `preset` replaces and `defaults` fills in what the caller sends; `hidden` are names unknown to the caller, those of `preset` included. */
  arguments?: { preset: JsonObject; defaults: JsonObject; hidden: readonly string[] };
}

/** Arguments that are ready for the tool, or all their faults. */
export type ReadArguments =
  | { ok: true; arguments: JsonObject; coercions: readonly Coercion[]; dropped: readonly string[] }
  /** `tooCostly`: they take longer to check than an event loop may be held, and nothing else is known of them. */
  | { ok: false; faults: ArgumentFault[]; tooCostly?: true };

/** One top-level argument. */
interface Parameter {
  /** JSON pointer into the arguments. */
  path: string;
  /** Where it is declared; undefined when it is only listed as required. */
  pointer: string | undefined;
  required: boolean;
  coerce: Coercer | undefined;
  /** The schema explicitly allows an empty text: `minLength: 0`, or `""` in `enum` or `const`. */
  blankAllowed: boolean;
  /** Computed when the first null arrives. */
  nullAllowed: boolean | undefined;
}

const NONE: readonly never[] = [];
/** Names under which models nest all arguments. */
const WRAPPERS: ReadonlySet<string> = new Set(['arguments', 'args', 'input', 'parameters', 'params']);
/** Steps of refusing or dropping a name. */
const NAME_STEPS = 2;
/** Maximum number of dropped arguments that are listed. */
const MAX_DROPPED = 100;
/** More names than a tool declares are refused together, before anything visits their values. */
const MAX_UNKNOWN = 1_000;

/**
 * Reads the arguments of one tool: unwraps them, applies the rules for null, blank and unknown values, coerces, fills in defaults
 * and validates. Built once per revision; the arguments of a call are copied only where they change.
 */
export class ArgumentReader {
  readonly #compiled: CompiledSchema;
  readonly #parameters = new Map<string, Parameter>();
  /** Arguments by the plain names under which some formats list them; empty when all have plain names. */
  readonly #listed = new Map<string, string>();
  readonly #required: string[] = [];
  readonly #defaults: [string, Json][] = [];
  /** Treatment of undeclared arguments. */
  readonly #unknown: 'keep' | 'drop' | 'refuse';

  /** @throws CodedError SPEC_INVALID when the schema does not compile */
  constructor(
    readonly schema: JsonObject,
    readonly rules: ArgumentRules,
  ) {
    this.#compiled = compileSchema(schema);
    const required = new Set(Array.isArray(schema.required) ? schema.required : []);
    const declared = declaredProperties(schema, schema, new Set());
    for (const [name, pointer] of declared.pointers) this.#declare(name, pointer, required.has(name));
    for (const name of required)
      if (typeof name === 'string' && !this.#parameters.has(name)) this.#declare(name, undefined, true);
    for (const name of this.#parameters.keys()) {
      const listed = plainName(name);
      if (!this.#parameters.has(listed)) this.#listed.set(listed, name);
    }
    this.#unknown = declared.open ? 'keep' : declared.closed || rules.refuseUnknown ? 'refuse' : 'drop';
  }

  /**
   * Returns the arguments for the tool, or all faults together. Never throws.
   * @param view how the caller sees the tool
   * @param steps limit of the check; by default that of an event loop
   */
  read(raw: JsonObject, view?: ArgumentView, steps?: number): ReadArguments {
    const tooMany = this.#tooManyNames(raw);
    if (tooMany) return tooMany;
    if (nestingDepth(raw, MAX_ARGUMENT_DEPTH) > MAX_ARGUMENT_DEPTH)
      return refuseAll(`Arguments are nested deeper than ${MAX_ARGUMENT_DEPTH} levels`);
    // Bodies are counted before they are parsed; arguments of programs and of queued calls arrive by other ways.
    if (countNodes(raw, MAX_BODY_NODES) > MAX_BODY_NODES)
      return refuseAll(`Arguments have more than ${MAX_BODY_NODES} values`);
    try {
      return withinSteps(() => this.#readNested(raw, view), steps);
    } catch (error) {
      if (!(error instanceof StepsExhausted)) throw error;
      if (error instanceof TextRefused) return refuseAll(error.message);
      const message = `${error.message}: send smaller or simpler arguments`;
      return { ok: false, faults: [faultAt('', 'invalid', message)], tooCostly: true };
    }
  }

  /** Removes one level when a model has nested all arguments: under the name of the tool, or under WRAPPERS where it fails without. */
  #readNested(raw: JsonObject, view: ArgumentView | undefined): ReadArguments {
    const name = Object.keys(raw)[0];
    if (name === undefined || this.#parameters.has(name)) return this.#read(raw, view);
    const isToolName = name === (view?.shownName ?? this.rules.toolName);
    const inner = isToolName || WRAPPERS.has(name) ? nestedIn(raw) : undefined;
    if (!inner) return this.#read(raw, view);
    const tooMany = this.#tooManyNames(inner);
    if (tooMany) return tooMany;
    const nested: Coercion = { path: '', from: 'nested', to: 'object' };
    if (isToolName) return this.#read(inner, view, [nested]);
    const outer = this.#read(raw, view);
    // A wrapper that would be dropped has no effect either, unless nothing inside is known.
    if (outer.ok && !outer.dropped.includes(name)) return outer;
    const read = this.#read(inner, view, [nested]);
    return outer.ok && (!read.ok || read.dropped.length > 0) ? outer : read;
  }

  #read(sent: JsonObject, view: ArgumentView | undefined, made: Coercion[] = []): ReadArguments {
    const raw = this.#listed.size === 0 ? sent : this.#withOwnNames(sent);
    const faults: ArgumentFault[] = [];
    const notes = { made, trials: { left: MAX_UNION_TRIALS } };
    const dropped: string[] = [];
    const source = view?.arguments ? this.#setByView(raw, view.arguments, faults, dropped) : raw;
    let args = source;
    const own = () => (args === source ? (args = this.#copy(source)) : args);

    for (const name of Object.keys(source)) {
      const value = source[name] as Json;
      const parameter = this.#parameters.get(name);
      if (!parameter) {
        if (this.#unknown === 'keep') continue;
        this.#rejectUnknown(name, faults, dropped);
        if (faults.length >= MAX_FAULTS) return { ok: false, faults };
        own();
      } else if (value === null && !this.#allowsNull(parameter)) {
        delete own()[name]; // treated as absent: filled with the default, or reported below
        if (parameter.required) faults.push(emptyFault(name));
      } else if (parameter.required && !parameter.blankAllowed && typeof value === 'string' && value.trim() === '') {
        faults.push(emptyFault(name));
      } else if (parameter.coerce) {
        const after = parameter.coerce(value, parameter.path, notes);
        if (after !== value) setOwn(own(), name, after);
      }
    }
    for (const name of this.#required) {
      if (!Object.hasOwn(source, name))
        faults.push(faultAt(`/${escapePointer(name)}`, 'missing', `Required parameter '${name}' is missing`));
    }
    for (const [name, value] of this.#defaults)
      if (!Object.hasOwn(args, name)) setOwn(own(), name, typeof value === 'object' ? structuredClone(value) : value);

    const seen = asDoubles(args);
    if (!this.#compiled.check(seen)) {
      const reported = new Set(faults.map((fault) => fault.param));
      const errors = this.#compiled.errors(seen);
      // Not known to be wrong: the check stopped before its end.
      if (errors[0]?.keyword === STEPS_KEYWORD) throw new StepsExhausted();
      for (const fault of explainErrors(errors, this.#compiled.checked))
        if (!reported.has(fault.param)) faults.push(fault);
    }
    if (faults.length > 0) return { ok: false, faults: faults.slice(0, MAX_FAULTS) };
    return {
      ok: true,
      arguments: args,
      coercions: made.length > 0 ? made : NONE,
      dropped: dropped.length > 0 ? dropped : NONE,
    };
  }

  #withOwnNames(sent: JsonObject): JsonObject {
    const names = Object.keys(sent);
    if (!names.some((name) => this.#listed.has(name))) return sent;
    const own: JsonObject = {};
    for (const name of names) setOwn(own, this.#listed.get(name) ?? name, sent[name] as Json);
    return own;
  }

  #tooManyNames(args: JsonObject): ReadArguments | undefined {
    const unknown = Object.keys(args).length - this.#parameters.size;
    if (this.#unknown === 'keep' || unknown <= MAX_UNKNOWN) return undefined;
    return refuseAll(`At least ${unknown} arguments are unknown; the tool has ${this.#parameters.size} parameters`);
  }

  /** A copy without the arguments that are not declared, unless they are kept. */
  #copy(source: JsonObject): JsonObject {
    if (this.#unknown === 'keep') return { ...source };
    const copy: JsonObject = {};
    for (const name of Object.keys(source)) if (this.#parameters.has(name)) setOwn(copy, name, source[name] as Json);
    return copy;
  }

  #rejectUnknown(name: string, faults: ArgumentFault[], dropped: string[]): void {
    chargeSteps(NAME_STEPS);
    if (this.#unknown === 'refuse')
      faults.push(faultAt(`/${escapePointer(name)}`, 'unknown', `Unknown parameter '${shorten(name)}'`));
    else if (dropped.length < MAX_DROPPED) dropped.push(shorten(name));
  }

  /** Removes values for hidden arguments, and adds the values of the view. */
  #setByView(
    sent: JsonObject,
    { hidden, preset, defaults }: NonNullable<ArgumentView['arguments']>,
    faults: ArgumentFault[],
    dropped: string[],
  ): JsonObject {
    const source = { ...defaults, ...sent };
    for (const [name, value] of Object.entries(defaults)) {
      const parameter = this.#parameters.get(name);
      if (source[name] === null && parameter && !this.#allowsNull(parameter)) setOwn(source, name, value);
    }
    for (const name of hidden) {
      if (!Object.hasOwn(sent, name)) continue;
      this.#rejectUnknown(name, faults, dropped);
      delete source[name];
    }
    return { ...source, ...preset };
  }

  #declare(name: string, pointer: string | undefined, required: boolean): void {
    const root = this.#compiled.schema;
    const schema = pointer === undefined ? undefined : resolveRef(root, schemaAt(root, pointer));
    const mode = name === this.rules.bodyProperty ? 'json_text' : 'all';
    this.#parameters.set(name, {
      path: `/${escapePointer(name)}`,
      required,
      coerce: pointer === undefined ? undefined : buildCoercer(this.#compiled, pointer, mode),
      pointer,
      blankAllowed: schema?.minLength === 0 || [schema?.enum, schema?.const].flat().includes(''),
      nullAllowed: undefined,
    });
    if (required) this.#required.push(name);
    if (schema?.default !== undefined && schema.default !== null) this.#defaults.push([name, schema.default]);
  }

  #allowsNull(parameter: Parameter): boolean {
    parameter.nullAllowed ??= parameter.pointer === undefined || this.#compiled.checkAt(parameter.pointer, null);
    return parameter.nullAllowed;
  }
}

/** The object, or JSON text of one, in the only member of `raw`. @throws StepsExhausted */
function nestedIn(raw: JsonObject): JsonObject | undefined {
  const [value, ...others] = Object.values(raw);
  if (others.length > 0) return undefined;
  if (typeof value !== 'string') return isJsonObject(value) ? value : undefined;
  try {
    const parsed = parseArgument(value);
    return isJsonObject(parsed) && nestingDepth(parsed, MAX_ARGUMENT_DEPTH) <= MAX_ARGUMENT_DEPTH ? parsed : undefined;
  } catch (error) {
    if (error instanceof StepsExhausted) throw error;
    return undefined;
  }
}

function refuseAll(message: string): ReadArguments {
  return { ok: false, faults: [faultAt('', 'invalid', message)] };
}

function emptyFault(name: string): ArgumentFault {
  return faultAt(`/${escapePointer(name)}`, 'null_or_empty', `Required parameter '${name}' is null or empty`);
}

/** Top-level properties of a schema with their pointers, also of `$ref`, `allOf`, `anyOf`, `oneOf`, `then`, `else` included. */
function declaredProperties(
  root: JsonObject,
  schema: JsonObject,
  visited: Set<JsonObject>,
  pointer = '',
): { pointers: Map<string, string>; open: boolean; closed: boolean } {
  const pointers = new Map<string, string>();
  visited.add(schema);
  const extra = schema.additionalProperties ?? schema.unevaluatedProperties;
  let open = (extra !== undefined && extra !== false) || isJsonObject(schema.patternProperties);
  let closed = extra === false;
  if (isJsonObject(schema.properties)) {
    for (const name of Object.keys(schema.properties))
      pointers.set(name, `${pointer}/properties/${escapePointer(name)}`);
  }
  for (const part of listInPlacePointers(schema)) {
    const at = part.startsWith('#') ? part.slice(1) : `${pointer}${part}`;
    const node = schemaAt(root, at);
    if (!isJsonObject(node) || visited.has(node)) continue;
    const inner = declaredProperties(root, node, visited, at);
    for (const [name, where] of inner.pointers) if (!pointers.has(name)) pointers.set(name, where);
    open ||= inner.open;
    closed ||= inner.closed;
  }
  if (pointers.size === 0 && pointer === '' && !closed && schema.properties === undefined) open = true; // a free-form object
  return { pointers, open: open && !closed, closed };
}

function listInPlacePointers(schema: JsonObject): string[] {
  const parts: string[] = [];
  if (typeof schema.$ref === 'string' && schema.$ref.startsWith('#/')) parts.push(schema.$ref);
  for (const keyword of ['allOf', 'anyOf', 'oneOf']) {
    const branches = schema[keyword];
    if (Array.isArray(branches)) branches.forEach((_, index) => parts.push(`/${keyword}/${index}`));
  }
  for (const keyword of ['if', 'then', 'else']) if (isJsonObject(schema[keyword])) parts.push(`/${keyword}`);
  return parts;
}

function resolveRef(root: JsonObject, node: Json | undefined): JsonObject | undefined {
  let current = node;
  for (let hops = 0; hops < 16 && isJsonObject(current) && typeof current.$ref === 'string'; hops += 1) {
    const target = schemaAt(root, current.$ref.slice(1));
    if (!isJsonObject(target)) break;
    current = { ...target, ...current, $ref: target.$ref as Json };
    if (current.$ref === undefined) delete current.$ref;
  }
  return isJsonObject(current) ? current : undefined;
}
