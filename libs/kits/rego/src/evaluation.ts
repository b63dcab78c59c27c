import type { BuiltinContext } from './builtins/operands.js';
import { RegoError } from './rego-error.js';
import type { Callee } from './resolved.js';
import type { Node } from './rule-tree.js';
import { getField, isObject, objectKeys, lookup, type PlainObject, RegoObject, type RegoValue } from './value.js';

/** Slots of one run of a rule. Slot 0 holds the rule's collection. */
export type Frame = (RegoValue | undefined)[];
/** Evaluates a term with bound variables; undefined if it has no value. */
export type Det = (evaluation: Evaluation, frame: Frame) => RegoValue | undefined;
/** Runs conditions, and their continuation for every solution; true stops the search. */
export type Goal = (evaluation: Evaluation, frame: Frame) => boolean;

/** Replacement of a function under `with`. */
type Mock = { kind: 'value'; value: RegoValue } | { kind: 'callee'; callee: Callee };

/** The compiled rules that an evaluation computes documents with. */
interface CompiledRules {
  /** The value of a node that rules define. */
  evaluate(node: Node, evaluation: Evaluation): RegoValue | undefined;
  /** The result of a function. */
  call(node: Node, evaluation: Evaluation, args: readonly RegoValue[]): RegoValue | undefined;
}

/** State shared by a whole evaluation, including its parts under `with`. */
export interface Run extends BuiltinContext {
  /** Errors of builtins end the evaluation. Otherwise they make the term undefined, OPA's default. */
  strict: boolean;
}

/** Cached result of a rule that is undefined. */
const UNDEFINED = Symbol('undefined');

/** The documents as one part of an evaluation sees them; `with` creates a modified one. */
export class Evaluation {
  private readonly values: (RegoValue | typeof UNDEFINED | undefined)[] = [];

  constructor(
    readonly program: CompiledRules,
    readonly run: Run,
    readonly input: RegoValue | undefined,
    readonly data: RegoValue,
    private readonly shadows: readonly (readonly string[])[] = [],
    readonly mocks?: ReadonlyMap<string, Mock>,
  ) {}

  /** The document of a rule node, computed once. */
  evaluate(node: Node): RegoValue | undefined {
    const known = this.values[node.id];
    if (known !== undefined) return known === UNDEFINED ? undefined : known;
    const value = this.shadows.length === 0 ? this.compute(node) : this.shadowed(node);
    this.values[node.id] = value === undefined ? UNDEFINED : value;
    return value;
  }

  withInput(path: readonly string[], value: RegoValue): Evaluation {
    const input = put(this.input, path, value);
    return new Evaluation(this.program, this.run, input, this.data, this.shadows, this.mocks);
  }

  withData(path: readonly string[], value: RegoValue): Evaluation {
    const data = put(this.data, path, value);
    return new Evaluation(this.program, this.run, this.input, data, [...this.shadows, path], this.mocks);
  }

  withMock(name: string, mock: Mock): Evaluation {
    const mocks = new Map(this.mocks).set(name, mock);
    return new Evaluation(this.program, this.run, this.input, this.data, this.shadows, mocks);
  }

  withoutMocks(): Evaluation {
    return new Evaluation(this.program, this.run, this.input, this.data, this.shadows);
  }

  private compute(node: Node): RegoValue | undefined {
    return node.hasValue ? this.program.evaluate(node, this) : this.subtree(node);
  }

  /** `with data.x as y` hides the rules at and below `data.x`, and changes documents above it. */
  private shadowed(node: Node): RegoValue | undefined {
    if (this.shadows.some((path) => isPrefix(path, node.path))) return at(this.data, node.path);
    let value = this.compute(node);
    if (!node.hasValue) return value;
    for (const path of this.shadows) {
      if (isPrefix(node.path, path)) value = put(value, path.slice(node.path.length), at(this.data, path)!);
    }
    return value;
  }

  /** A package and those below it as one object, over the data at the same place. */
  private subtree(node: Node): RegoValue {
    const result = new RegoObject();
    const base = at(this.data, node.path);
    if (base !== undefined && isObject(base)) for (const key of objectKeys(base)) result.set(key, getField(base, key)!);
    for (const [name, child] of node.children) {
      // where plain data and a rule meet, the data stands (OPA refuses to load such data)
      if (child.isFunction || (child.hasValue && result.get(name) !== undefined)) continue;
      const value = this.evaluate(child);
      if (value !== undefined) result.set(name, value);
    }
    return result;
  }
}

/** Calls a function; `undefined` when it gives nothing. */
export function call(evaluation: Evaluation, callee: Callee, args: readonly RegoValue[]): RegoValue | undefined {
  if (evaluation.mocks) {
    const mock = evaluation.mocks.get(calleeName(callee));
    if (mock?.kind === 'value') return mock.value;
    // a replacement sees the originals, also what it replaces
    if (mock) return callDirectly(evaluation.withoutMocks(), mock.callee, args);
  }
  return callDirectly(evaluation, callee, args);
}

/** The name under which `with` replaces a function. */
export function calleeName(callee: Callee): string {
  return callee.kind === 'builtin' ? callee.name : `data.${callee.node.path.join('.')}`;
}

function callDirectly(evaluation: Evaluation, callee: Callee, args: readonly RegoValue[]): RegoValue | undefined {
  const { run, program } = evaluation;
  run.spend(1);
  if (callee.kind === 'function') return program.call(callee.node, evaluation, args);
  try {
    return callee.builtin.run(args, run);
  } catch (error) {
    const lenient =
      !run.strict && error instanceof RegoError && (error.code === 'type_error' || error.code === 'builtin_error');
    if (lenient) return undefined;
    throw error instanceof RegoError ? new RegoError(error.code, `${callee.name}: ${error.message}`) : error;
  }
}

/** The part of a document at a path of names. */
export function at(value: RegoValue | undefined, path: readonly string[]): RegoValue | undefined {
  let found = value;
  for (const step of path) found = found === undefined ? undefined : lookupData(found, step);
  return found;
}

/** One step into plain data: its paths are texts, so that the number 2 names the field "2". */
export function lookupData(value: RegoValue, key: RegoValue): RegoValue | undefined {
  if (typeof key === 'number' && isObject(value)) return getField(value, String(key));
  return lookup(value, key);
}

/** A copy of a document with another value at a path; values on the path that are not objects become objects. */
function put(document: RegoValue | undefined, path: readonly string[], value: RegoValue): RegoValue {
  const [first, ...rest] = path;
  if (first === undefined) return value;
  const copy = new RegoObject();
  if (document !== undefined && isObject(document))
    for (const key of objectKeys(document)) copy.set(key, getField(document as PlainObject, key)!);
  copy.set(first, put(copy.get(first), rest, value));
  return copy;
}

function isPrefix(prefix: readonly string[], path: readonly string[]): boolean {
  return prefix.length <= path.length && prefix.every((step, i) => step === path[i]);
}
