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

/** Reads an operand of one type. */
type Operand<T> = (args: readonly RegoValue[], index: number) => T;

const operand =
  <T extends RegoValue>(wanted: string, isWanted: (value: RegoValue) => value is T): Operand<T> =>
  (args, index) => {
    const value = args[index]!;
    if (isWanted(value)) return value;
    throw typeFault(index + 1, wanted, value);
  };

const isNumber = (value: RegoValue): value is Numeric => typeof value === 'number' || typeof value === 'bigint';
const isText = (value: RegoValue): value is string => typeof value === 'string';

export const numberAt = operand('number', isNumber);
export const textAt = operand('string', isText);
export const arrayAt: Operand<readonly RegoValue[]> = operand('array', isArray);
export const setAt = operand('set', (value): value is RegoSet => value instanceof RegoSet);
export const objectAt: Operand<RegoObject | PlainObject> = operand('object', isObject);

/** An integer that fits an index or a length. */
export function integerAt(args: readonly RegoValue[], index: number): number {
  const value = numberAt(args, index);
  if (typeof value === 'number' && Number.isInteger(value)) return value;
  throw new RegoError(
    'type_error',
    `operand ${index + 1} must be integer number but got ${typeof value === 'bigint' ? 'a larger number' : 'floating-point number'}`,
  );
}

/** Elements of an array or set. */
export function listAt(args: readonly RegoValue[], index: number): readonly RegoValue[] {
  const value = args[index]!;
  if (isArray(value)) return value;
  if (value instanceof RegoSet) return value.values();
  throw typeFault(index + 1, 'one of {set, array}', value);
}

const itemsOf =
  <T extends RegoValue>(kind: string, isWanted: (value: RegoValue) => value is T): Operand<T[]> =>
  (args, index) =>
    listAt(args, index).map((item) => {
      if (isWanted(item)) return item;
      const message = `operand ${index + 1} must be array or set of ${kind} but got ${typeName(item)}`;
      throw new RegoError('type_error', message);
    });

/** Texts of an array or set of strings. */
export const textsAt = itemsOf('strings', isText);

/** Numbers of an array or set of numbers. */
export const numbersAt = itemsOf('numbers', isNumber);

/** Big integers come back as numbers where these are exact, so that equal numbers have one form. */
export function normal(value: Numeric): Numeric {
  if (typeof value === 'bigint' && value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER)
    return Number(value);
  return Object.is(value, -0) ? 0 : value;
}
