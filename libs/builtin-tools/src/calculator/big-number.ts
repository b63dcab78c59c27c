import { Decimal } from 'decimal.js';

/** Digits kept of a result that has no end; the 34 shown stay right after hundreds of roundings. */
export const WORKING_DIGITS = 50;
/** Digits shown of a result that has no end (IEEE 754 decimal128). */
export const SHOWN_DIGITS = 34;
/** Longest exact integer, in digits. */
export const MAX_DIGITS = 10_000;

/** Decimal floating point of our own settings; a clone, so that nobody else's settings reach us. */
export const Big = Decimal.clone({
  precision: WORKING_DIGITS,
  rounding: Decimal.ROUND_HALF_EVEN,
  maxE: 1_000_000,
  minE: -1_000_000,
  toExpPos: MAX_DIGITS + 1,
  toExpNeg: -20,
});
export type Big = Decimal;

/** Integers below this exponent are exact in the working precision: no need for BigInt. */
const EXACT_EXPONENT = WORKING_DIGITS - 2;

/** True when the operation of two integers has to be exact beyond the working precision. */
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

/** a ÷ b; exact when integers divide without remainder. The caller refuses b = 0. */
export function divide(a: Big, b: Big): Big {
  if (needsExact(a, b, Math.max(a.e, b.e))) {
    const [dividend, divisor] = [toBigInt(a), toBigInt(b)];
    if (dividend % divisor === 0n) return fromBigInt(dividend / divisor);
  }
  return a.dividedBy(b);
}

/** Remainder with the sign of the divisor (as mathematics and Python have it). The caller refuses b = 0. */
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
