import { ToolError } from '@toolfleet/contracts';
import { closed, text } from '@toolfleet/contracts/json-schema';
import { defineTool, ok } from '../builtin-tool.js';
import { SHOWN_DIGITS, WORKING_DIGITS, type Big } from './big-number.js';
import { evaluate } from './evaluate.js';
import { describeError, ExpressionError } from './parse.js';

/** `calculator`: arithmetic without code execution. */
export const calculator = defineTool({
  name: 'calculator',
  description:
    'Evaluate an arithmetic expression exactly. Operators: + - * / // (floor) ^ or ** (power) ! (factorial), ' +
    '% as percent ("200 + 10%" = 220, "20% of 50" = 10) or remainder ("7 % 3" = 1). Functions: sqrt, root(x, n), exp, ' +
    'ln, log(x, base) (natural without base), log10, log2, sin, cos, tan, asin, acos, atan, atan2, degrees, radians, ' +
    'floor, ceil, round(x, places), abs, min, max, sum, mean, median, stdev, gcd, lcm, comb, perm, percent_change. ' +
    'Angles are in radians. Constants: pi, e, tau, phi. Integers are exact up to 10,000 digits. ' +
    'Returns result (a number, or a string of digits when a number could not hold it) and value (34 digits, as text).',
  category: 'data',
  tags: ['math', 'compute'],
  inputSchema: closed({
    expression: text('Expression, e.g. "(2 + 3) * 4", "sqrt(2) ^ 3", "15% of 240", "100!"', {
      minLength: 1,
      maxLength: 4_096,
    }),
  }),
  outputSchema: {
    type: 'object',
    properties: { result: { type: ['number', 'string'] }, value: { type: 'string' } },
    required: ['result', 'value'],
  },
  inputExamples: [{ expression: '(2 + 3) * 4' }, { expression: '1200 + 19%' }, { expression: '2^128' }],
  rateLimit: 2_000,
  annotations: { readOnlyHint: true, destructiveHint: false, openWorldHint: false },
  idempotent: true,
  timeoutSeconds: 5,
  handler({ expression }) {
    const value = show(evaluateOrFail(expression));
    return ok({ result: asNumber(value) ?? value, value }, value);
  },
});

function evaluateOrFail(expression: string): Big {
  try {
    return evaluate(expression);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    throw new ToolError('TOOL_ERROR', {
      message: describeError(error, expression),
      details: { position: error.at + 1 },
    });
  }
}

function show(value: Big): string {
  // Only exact integers have more digits than the working precision; for a rounded value, zeros would look exact.
  const digits = value.precision();
  const rounded = !value.isInteger() || (digits <= WORKING_DIGITS && digits > WORKING_DIGITS - 3);
  const shown = rounded ? value.toSignificantDigits(SHOWN_DIGITS) : value;
  if (value.e >= WORKING_DIGITS && digits <= WORKING_DIGITS) return shown.toExponential();
  return (shown.isZero() ? shown.abs() : shown).toString();
}

/** The value as a JSON number; undefined for an integer beyond the safe range, or a number that does not fit a double. */
function asNumber(value: string): number | undefined {
  const number = Number(value);
  if (!Number.isFinite(number) || (number === 0 && !/^0(?:\.0*)?$/.test(value))) return undefined;
  return Number.isInteger(number) && !Number.isSafeInteger(number) ? undefined : number;
}
