import { add, Big, modulo, multiply, power } from './big-number.js';

/** A function of the calculator with the number of its arguments. A result of NaN means that it is undefined there. */
interface MathFunction {
  min: number;
  max: number;
  /** Work units; 1 for a cheap operation. */
  price: number;
  apply: (args: Big[]) => Big;
}

const one = (price: number, rule: (x: Big) => Big): MathFunction => ({
  min: 1,
  max: 1,
  price,
  apply: (args) => rule(args[0] as Big),
});
const two = (price: number, rule: (x: Big, y: Big) => Big): MathFunction => ({
  min: 2,
  max: 2,
  price,
  apply: (args) => rule(args[0] as Big, args[1] as Big),
});
const many = (rule: (values: Big[]) => Big): MathFunction => ({ min: 1, max: 1_000, price: 5, apply: rule });

const NOT_A_NUMBER = new Big(NaN);
const PI = Big.acos(-1);
const TRANSCENDENTAL = 300;

/** exp(x)/2 ± exp(-x)/2, because the library's own series takes seconds for large x. */
function hyperbolic(x: Big, sign: 1 | -1): Big {
  const up = x.exp();
  const down = x.negated().exp();
  return (sign === 1 ? up.plus(down) : up.minus(down)).dividedBy(2);
}

function factorial(n: Big): Big {
  if (!n.isInteger() || n.isNegative() || n.gt(3_000)) return NOT_A_NUMBER;
  let product = 1n;
  for (let factor = 2n, last = BigInt(n.toNumber()); factor <= last; factor++) product *= factor;
  return new Big(product.toString());
}

function choose(n: Big, k: Big, ordered: boolean): Big {
  if (!n.isInteger() || !k.isInteger() || k.isNegative() || n.isNegative() || k.gt(n)) return NOT_A_NUMBER;
  const steps = ordered ? k : Big.min(k, n.minus(k));
  if (steps.gt(3_000) || n.gt(1e15)) return NOT_A_NUMBER;
  let result = 1n;
  const top = BigInt(n.toFixed());
  for (let step = 0n, last = BigInt(steps.toFixed()); step < last; step++) {
    result *= top - step;
    if (!ordered) result /= step + 1n;
  }
  return new Big(result.toString());
}

function gcd(values: Big[]): Big {
  if (values.some((value) => !value.isInteger())) return NOT_A_NUMBER;
  return values
    .reduce((a, b) => {
      let [x, y] = [BigInt(a.abs().toFixed()), BigInt(b.abs().toFixed())];
      while (y !== 0n) [x, y] = [y, x % y];
      return new Big(x.toString());
    })
    .abs();
}

function lcm(values: Big[]): Big {
  if (values.some((value) => !value.isInteger())) return NOT_A_NUMBER;
  return values
    .reduce((a, b) => {
      if (a.isZero() || b.isZero()) return new Big(0);
      return multiply(a.abs(), b.abs().dividedToIntegerBy(gcd([a, b])));
    })
    .abs();
}

function rounded(x: Big, places: Big | undefined, mode: 0 | 1 | 2 | 3 | 4): Big {
  const digits = places ?? new Big(0);
  if (!digits.isInteger() || digits.abs().gt(40)) return NOT_A_NUMBER;
  const shift = digits.toNumber();
  if (shift >= 0) return x.toDecimalPlaces(shift, mode);
  const unit = new Big(10).pow(-shift);
  return x.dividedBy(unit).toDecimalPlaces(0, mode).times(unit);
}
const rounding = (mode: 0 | 1 | 2 | 3 | 4): MathFunction => ({
  min: 1,
  max: 2,
  price: 2,
  apply: ([x, places]) => rounded(x as Big, places, mode),
});

const sum = (values: Big[]): Big => values.reduce(add);
const mean = (values: Big[]): Big => sum(values).dividedBy(values.length);

function median(values: Big[]): Big {
  const sorted = values.toSorted((a, b) => a.comparedTo(b));
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] as Big;
  return sorted.length % 2 === 1 ? upper : upper.plus(sorted[middle - 1] as Big).dividedBy(2);
}

/** Sample variance; undefined for a single value. */
function variance(values: Big[]): Big {
  if (values.length < 2) return NOT_A_NUMBER;
  const centre = mean(values);
  return sum(values.map((value) => value.minus(centre).pow(2))).dividedBy(values.length - 1);
}

function logarithm(args: Big[]): Big {
  const [x, base] = args as [Big, Big | undefined];
  if (x.isZero()) return NOT_A_NUMBER;
  if (base === undefined) return x.ln();
  return base.isZero() || base.eq(1) || base.isNegative() ? NOT_A_NUMBER : x.log(base);
}

function root(x: Big, n: Big): Big {
  if (!n.isInteger() || n.isZero() || n.abs().gt(10_000)) return NOT_A_NUMBER;
  const odd = !n.modulo(2).isZero();
  if (x.isNegative() && !odd) return NOT_A_NUMBER;
  const positive = x.abs().pow(new Big(1).dividedBy(n));
  // 27^(1/3) is 2.99…9, so prefer an exact root if there is one.
  const whole = positive.toDecimalPlaces(0, 4);
  const result = n.isPositive() && power(whole, n).eq(x.abs()) ? whole : positive;
  return x.isNegative() ? result.negated() : result;
}

/** Functions by name. A Map, so that `constructor` and `__proto__` are unknown names. */
export const FUNCTIONS: ReadonlyMap<string, MathFunction> = new Map<string, MathFunction>([
  ['abs', one(1, (x) => x.abs())],
  ['sign', one(1, (x) => new Big(x.isZero() ? 0 : x.isNegative() ? -1 : 1))],
  ['sqrt', one(20, (x) => x.sqrt())],
  ['cbrt', one(20, (x) => x.cbrt())],
  ['root', two(TRANSCENDENTAL, root)],
  ['pow', two(TRANSCENDENTAL, power)],
  ['exp', one(TRANSCENDENTAL, (x) => x.exp())],
  ['ln', one(TRANSCENDENTAL, (x) => logarithm([x]))],
  ['log', { min: 1, max: 2, price: TRANSCENDENTAL, apply: logarithm }],
  ['log10', one(TRANSCENDENTAL, (x) => (x.isZero() ? NOT_A_NUMBER : x.log(10)))],
  ['log2', one(TRANSCENDENTAL, (x) => (x.isZero() ? NOT_A_NUMBER : x.log(2)))],
  ['sin', one(TRANSCENDENTAL, (x) => x.sin())],
  ['cos', one(TRANSCENDENTAL, (x) => x.cos())],
  ['tan', one(TRANSCENDENTAL, (x) => x.tan())],
  ['asin', one(TRANSCENDENTAL, (x) => x.asin())],
  ['acos', one(TRANSCENDENTAL, (x) => x.acos())],
  ['atan', one(TRANSCENDENTAL, (x) => x.atan())],
  ['atan2', two(TRANSCENDENTAL, (y, x) => Big.atan2(y, x))],
  ['sinh', one(TRANSCENDENTAL, (x) => hyperbolic(x, -1))],
  ['cosh', one(TRANSCENDENTAL, (x) => hyperbolic(x, 1))],
  [
    'tanh',
    one(TRANSCENDENTAL, (x) =>
      x.abs().gt(60) ? new Big(x.isNegative() ? -1 : 1) : hyperbolic(x, -1).dividedBy(hyperbolic(x, 1)),
    ),
  ],
  ['asinh', one(TRANSCENDENTAL, (x) => x.asinh())],
  ['acosh', one(TRANSCENDENTAL, (x) => x.acosh())],
  ['atanh', one(TRANSCENDENTAL, (x) => x.atanh())],
  ['degrees', one(5, (x) => x.times(180).dividedBy(PI))],
  ['radians', one(5, (x) => x.times(PI).dividedBy(180))],
  ['floor', rounding(3)],
  ['ceil', rounding(2)],
  ['trunc', rounding(1)],
  ['round', rounding(4)],
  ['mod', two(2, (a, b) => (b.isZero() ? NOT_A_NUMBER : modulo(a, b)))],
  ['hypot', many((values) => sum(values.map((value) => value.pow(2))).sqrt())],
  ['min', many((values) => Big.min(...values))],
  ['max', many((values) => Big.max(...values))],
  ['sum', many(sum)],
  ['mean', many(mean)],
  ['avg', many(mean)],
  ['median', many(median)],
  ['variance', many(variance)],
  ['stdev', many((values) => variance(values).sqrt())],
  ['gcd', many(gcd)],
  ['lcm', many(lcm)],
  ['factorial', one(2_000, factorial)],
  ['comb', two(2_000, (n, k) => choose(n, k, false))],
  ['perm', two(2_000, (n, k) => choose(n, k, true))],
  [
    'clamp',
    { min: 3, max: 3, price: 2, apply: ([x, low, high]) => Big.max(low as Big, Big.min(high as Big, x as Big)) },
  ],
  [
    'percent_change',
    two(2, (from, to) => (from.isZero() ? NOT_A_NUMBER : to.minus(from).dividedBy(from.abs()).times(100))),
  ],
]);

/** Constants by name. */
export const CONSTANTS: ReadonlyMap<string, Big> = new Map<string, Big>([
  ['pi', PI],
  ['tau', PI.times(2)],
  ['e', new Big(1).exp()],
  ['phi', new Big(5).sqrt().plus(1).dividedBy(2)],
]);
