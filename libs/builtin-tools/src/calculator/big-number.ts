import { Decimal } from 'decimal.js';

/** Digits of intermediate results, so that the 34 shown are correct after hundreds of roundings. */
export const WORKING_DIGITS = 50;
/** Digits shown of an inexact result (IEEE 754 decimal128). */
export const SHOWN_DIGITS = 34;
/** Digits of the longest exact integer. */
export const MAX_DIGITS = 10_000;

/** Decimal floating point. A clone, so that other users of the library cannot change its settings. */
export const Big = Decimal.clone({
  precision: WORKING_DIGITS,
  rounding: Decimal.ROUND_HALF_EVEN,
  maxE: 1_000_000,
  minE: -1_000_000,
  toExpPos: MAX_DIGITS + 1,
  toExpNeg: -20,
});
export type Big = Decimal;

/** Integers up to this exponent are exact in the working precision and need no BigInt. */
const EXACT_EXPONENT = WORKING_DIGITS - 2;

/** True if an operation on two integers must be exact beyond the working precision. */
function needsExact(a: Big, b: Big, exponent: number): boolean {
  return exponent > EXACT_EXPONENT && exponent <= MAX_DIGITS && a.isInteger() && b.isInteger();
}

const toBigInt = (value: Big): bigint => BigInt(value.toFixed());
const fromBigInt = (value: bigint): Big => new Big(value.toString());

/** a + b, exact for integers of up to MAX_DIGITS digits. */
export function add(a: Big, b: Big): Big {
  return needsExact(a, b, Math.max(a.e, b.e)) ? fromBigInt(toBigInt(a) + toBigInt(b)) : a.plus(b);
}

/** a × b, exact for integers of up to MAX_DIGITS digits. */
export function multiply(a: Big, b: Big): Big {
  return needsExact(a, b, a.e + b.e + 1) ? fromBigInt(toBigInt(a) * toBigInt(b)) : a.times(b);
}

/** a ÷ b, exact for integers that divide without remainder. `b` must not be 0. */
export function divide(a: Big, b: Big): Big {
  if (needsExact(a, b, Math.max(a.e, b.e))) {
    const [dividend, divisor] = [toBigInt(a), toBigInt(b)];
    if (dividend % divisor === 0n) return fromBigInt(dividend / divisor);
  }
  return a.dividedBy(b);
}

/** The remainder with the sign of the divisor, as in Python. `b` must not be 0. */
export function modulo(a: Big, b: Big): Big {
  if (needsExact(a, b, Math.max(a.e, b.e))) {
    const divisor = toBigInt(b);
    const rest = toBigInt(a) % divisor;
    return fromBigInt(rest !== 0n && rest < 0n !== divisor < 0n ? rest + divisor : rest);
  }
  const rest = a.modulo(b);
  return !rest.isZero() && rest.isNegative() !== b.isNegative() ? rest.plus(b) : rest;
}

/** a to the power b, exact for integers while the result has at most MAX_DIGITS digits. */
export function power(a: Big, b: Big): Big {
  if (a.isInteger() && b.isInteger() && !b.isNegative() && b.lte(100_000)) {
    const digits = a.abs().lte(1) ? 1 : Math.ceil((a.abs().log(10).toNumber() + 1e-9) * b.toNumber());
    if (digits > EXACT_EXPONENT && digits <= MAX_DIGITS) return fromBigInt(toBigInt(a) ** BigInt(b.toFixed()));
  }
  return a.pow(b);
}
