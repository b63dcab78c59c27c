import { RegoError } from '../rego-error.js';
import { isArray, isObject, type PlainObject, RegoObject, RegoSet, typeName, type RegoValue } from '../value.js';

/** Parts of the evaluation that builtins may use besides their operands. */
export interface BuiltinContext {
  /** Wall clock of the evaluation, epoch ms; one instant for all of it. */
  nowMs: number;
  /** Counts work; @throws RegoError limit when the evaluation has done too much. */
  spend(units: number): void;
}

/** A builtin function. `undefined` means undefined; faults are thrown by `typeFault` and `valueFault`. */
export interface Builtin {
  arity: number;
  run(args: readonly RegoValue[], context: BuiltinContext): RegoValue | undefined;
}

/** An operand of the wrong type. */
export function typeFault(position: number, wanted: string, found: RegoValue): RegoError {
  return new RegoError('type_error', `operand ${position} must be ${wanted} but got ${typeName(found)}`);
}

/** An operand of the right type that has no answer. */
export function valueFault(message: string): RegoError {
  return new RegoError('builtin_error', message);
}

export type Numeric = number | bigint;

export function numberAt(args: readonly RegoValue[], index: number): Numeric {
  const value = args[index]!;
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  throw typeFault(index + 1, 'number', value);
}

/** An integer that fits an index or a length. */
export function integerAt(args: readonly RegoValue[], index: number): number {
  const value = numberAt(args, index);
  if (typeof value === 'number' && Number.isInteger(value)) return value;
  throw new RegoError(
    'type_error',
    `operand ${index + 1} must be integer number but got ${typeof value === 'bigint' ? 'a larger number' : 'floating-point number'}`,
  );
}

export function textAt(args: readonly RegoValue[], index: number): string {
  const value = args[index]!;
  if (typeof value === 'string') return value;
  throw typeFault(index + 1, 'string', value);
}

export function arrayAt(args: readonly RegoValue[], index: number): readonly RegoValue[] {
  const value = args[index]!;
  if (isArray(value)) return value;
  throw typeFault(index + 1, 'array', value);
}

export function setAt(args: readonly RegoValue[], index: number): RegoSet {
  const value = args[index]!;
  if (value instanceof RegoSet) return value;
  throw typeFault(index + 1, 'set', value);
}

export function objectAt(args: readonly RegoValue[], index: number): RegoObject | PlainObject {
  const value = args[index]!;
  if (isObject(value)) return value;
  throw typeFault(index + 1, 'object', value);
}

/** Elements of an array or set. */
export function listAt(args: readonly RegoValue[], index: number): readonly RegoValue[] {
  const value = args[index]!;
  if (isArray(value)) return value;
  if (value instanceof RegoSet) return value.values();
  throw typeFault(index + 1, 'one of {set, array}', value);
}

/** Texts of an array or set of strings. */
export function textsAt(args: readonly RegoValue[], index: number): string[] {
  return listAt(args, index).map((item) => {
    if (typeof item === 'string') return item;
    throw new RegoError('type_error', `operand ${index + 1} must be array or set of strings but got ${typeName(item)}`);
  });
}

/** Numbers of an array or set of numbers. */
export function numbersAt(args: readonly RegoValue[], index: number): Numeric[] {
  return listAt(args, index).map((item) => {
    if (typeof item === 'number' || typeof item === 'bigint') return item;
    throw new RegoError('type_error', `operand ${index + 1} must be array or set of numbers but got ${typeName(item)}`);
  });
}

/** Big integers come back as numbers where these are exact, so that equal numbers have one form. */
export function normal(value: Numeric): Numeric {
  if (typeof value === 'bigint' && value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER)
    return Number(value);
  return Object.is(value, -0) ? 0 : value;
}
