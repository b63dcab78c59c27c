import { compare, equal, RegoSet, type RegoValue } from '../value.js';
import {
  type Builtin,
  integerAt,
  normal,
  numberAt,
  numbersAt,
  type Numeric,
  setAt,
  typeFault,
  valueFault,
} from './operands.js';

type Integers = (a: bigint, b: bigint) => bigint;
type Floats = (a: number, b: number) => number;

/** An operation on integers of any size, and on fractions. */
type ArithmeticOperation = readonly [integers: Integers, floats: Floats];
const ADD: ArithmeticOperation = [(a, b) => a + b, (a, b) => a + b];
const SUBTRACT: ArithmeticOperation = [(a, b) => a - b, (a, b) => a - b];
const MULTIPLY: ArithmeticOperation = [(a, b) => a * b, (a, b) => a * b];

/** Exact on integers of any size, double precision on fractions. */
function arithmetic(a: Numeric, b: Numeric, [integers, floats]: ArithmeticOperation): Numeric {
  if (typeof a === 'number' && typeof b === 'number') {
    const result = floats(a, b);
    if (Number.isSafeInteger(result) || !Number.isInteger(a) || !Number.isInteger(b)) return checked(result);
  }
  if (isWhole(a) && isWhole(b)) return normal(integers(BigInt(a), BigInt(b)));
  return checked(floats(Number(a), Number(b)));
}

const isWhole = (n: Numeric): boolean => typeof n === 'bigint' || Number.isInteger(n);

function checked(result: number): Numeric {
  if (!Number.isFinite(result)) throw valueFault('number out of range');
  return normal(result);
}

const binary = (operation: ArithmeticOperation): Builtin => ({
  arity: 2,
  run: (args) => arithmetic(numberAt(args, 0), numberAt(args, 1), operation),
});
const comparison = (holds: (order: number) => boolean): Builtin => ({
  arity: 2,
  run: ([a, b]) => holds(compare(a!, b!)),
});
const rounding = (round: (n: number) => number): Builtin => ({
  arity: 1,
  run: (args) => {
    const n = numberAt(args, 0);
    return typeof n === 'bigint' ? n : normal(round(n));
  },
});
const fold = (start: Numeric, operation: ArithmeticOperation): Builtin => ({
  arity: 1,
  run: (args) => numbersAt(args, 0).reduce((sum, n) => arithmetic(sum, n, operation), start),
});

const minus: Builtin = {
  arity: 2,
  run: (args) => {
    const [a, b] = args as [RegoValue, RegoValue];
    if (a instanceof RegoSet && b instanceof RegoSet) return new RegoSet(a.values().filter((item) => !b.has(item)));
    if (a instanceof RegoSet) throw typeFault(2, 'set', b);
    return arithmetic(numberAt(args, 0), numberAt(args, 1), SUBTRACT);
  },
};

const div: Builtin = {
  arity: 2,
  run: (args) => {
    const a = numberAt(args, 0);
    const b = numberAt(args, 1);
    if (b == 0) throw valueFault('divide by zero');
    if (typeof a === 'number' && typeof b === 'number') return checked(a / b);
    if (isWhole(a) && isWhole(b) && BigInt(a) % BigInt(b) === 0n) return normal(BigInt(a) / BigInt(b));
    return checked(Number(a) / Number(b));
  },
};

const rem: Builtin = {
  arity: 2,
  run: (args) => {
    const a = numberAt(args, 0);
    const b = numberAt(args, 1);
    if (!isWhole(a) || !isWhole(b)) throw valueFault('modulo on floating-point number');
    if (b == 0) throw valueFault('modulo by zero');
    return normal(BigInt(a) % BigInt(b));
  },
};

const range: Builtin = {
  arity: 2,
  run: (args, context) => {
    const from = integerAt(args, 0);
    const to = integerAt(args, 1);
    const length = Math.abs(to - from) + 1;
    context.spend(length);
    return Array.from({ length }, (_, i) => (to >= from ? from + i : from - i));
  },
};

/** Operators and functions on numbers; comparison is on all values. */
export const NUMBER_BUILTINS: Record<string, Builtin> = {
  equal: { arity: 2, run: ([a, b]) => equal(a!, b!) },
  neq: { arity: 2, run: ([a, b]) => !equal(a!, b!) },
  lt: comparison((order) => order < 0),
  gt: comparison((order) => order > 0),
  lte: comparison((order) => order <= 0),
  gte: comparison((order) => order >= 0),
  plus: binary(ADD),
  minus,
  mul: binary(MULTIPLY),
  div,
  rem,
  abs: rounding(Math.abs),
  ceil: rounding(Math.ceil),
  floor: rounding(Math.floor),
  // half away from zero, as Go rounds
  round: rounding((n) => Math.sign(n) * Math.round(Math.abs(n))),
  sum: fold(0, ADD),
  product: fold(1, MULTIPLY),
  'numbers.range': range,
  or: { arity: 2, run: (args) => new RegoSet([...setAt(args, 0).values(), ...setAt(args, 1).values()]) },
  and: {
    arity: 2,
    run: (args) =>
      new RegoSet(
        setAt(args, 0)
          .values()
          .filter((item) => setAt(args, 1).has(item)),
      ),
  },
};
