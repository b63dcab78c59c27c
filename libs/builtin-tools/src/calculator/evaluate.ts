import { add, Big, divide, MAX_DIGITS, modulo, multiply, power } from './big-number.js';
import { CONSTANTS, FUNCTIONS } from './functions.js';
import { ExpressionError, parse, type Expression } from './parse.js';

/**
 * Most work units of an expression. A unit is about 1 µs, so that every accepted expression ends within about 50 ms.
 */
const MAX_WORK = 50_000;

/** Evaluates an expression. @throws ExpressionError with the position */
export function evaluate(expression: string): Big {
  return new ExpressionEvaluation().evaluate(parse(expression));
}

/** Evaluates one expression and limits its work. */
class ExpressionEvaluation {
  private work = 0;

  evaluate(node: Expression): Big {
    switch (node.kind) {
      case 'number':
        return new Big(node.text);
      case 'constant':
        return this.constant(node);
      case 'unary':
        return this.unary(node);
      case 'binary':
        return this.binary(node);
      case 'call':
        return this.call(node);
    }
  }

  private constant(node: Extract<Expression, { kind: 'constant' }>): Big {
    const value = CONSTANTS.get(node.name) ?? CONSTANTS.get(node.name.toLowerCase());
    if (value) return value;
    if (FUNCTIONS.has(node.name))
      throw new ExpressionError(`${node.name} is a function: write ${node.name}(…)`, node.at);
    throw new ExpressionError(`Unknown name ${JSON.stringify(node.name)}`, node.at);
  }

  private unary(node: Extract<Expression, { kind: 'unary' }>): Big {
    const operand = this.evaluate(node.operand);
    if (node.operator === '-') return operand.negated();
    if (node.operator === '%') return operand.dividedBy(100);
    this.spend(2_000, operand, operand, node.at);
    const value = (FUNCTIONS.get('factorial') as { apply: (args: Big[]) => Big }).apply([operand]);
    return this.checked(value, node.at, 'Factorial needs an integer from 0 to 3000');
  }

  private binary(node: Extract<Expression, { kind: 'binary' }>): Big {
    const left = this.evaluate(node.left);
    const right = this.rightOperand(node, left);
    this.spend(node.operator === '^' ? 100 : 1, left, right, node.at);
    return this.checked(this.operate(node, left, right), node.at, 'Result is not a real number');
  }

  /** After + and -, a percentage refers to the left side, as on pocket calculators: `200 + 10%` is 220. */
  private rightOperand(node: Extract<Expression, { kind: 'binary' }>, left: Big): Big {
    const right = this.evaluate(node.right);
    const additive = node.operator === '+' || node.operator === '-';
    return additive && node.right.kind === 'unary' && node.right.operator === '%' ? left.times(right) : right;
  }

  private operate(node: Extract<Expression, { kind: 'binary' }>, left: Big, right: Big): Big {
    if ((node.operator === '/' || node.operator === '//' || node.operator === 'mod') && right.isZero())
      throw new ExpressionError('Division by zero', node.at);
    switch (node.operator) {
      case '+':
        return add(left, right);
      case '-':
        return add(left, right.negated());
      case '*':
        return multiply(left, right);
      case '/':
        return divide(left, right);
      case '//':
        return divide(left, right).floor();
      case 'mod':
        return modulo(left, right);
      case '^':
        if (left.isZero() && right.isNegative()) throw new ExpressionError('Division by zero', node.at);
        return power(left, right);
    }
  }

  private call(node: Extract<Expression, { kind: 'call' }>): Big {
    const entry = FUNCTIONS.get(node.name) ?? FUNCTIONS.get(node.name.toLowerCase());
    if (!entry) {
      const hint = CONSTANTS.has(node.name) ? ' (a constant: write * to multiply)' : '';
      throw new ExpressionError(`Unknown function ${JSON.stringify(node.name)}${hint}`, node.at);
    }
    if (node.args.length < entry.min || node.args.length > entry.max) {
      const wanted = entry.min === entry.max ? `${entry.min}` : `${entry.min} to ${entry.max}`;
      throw new ExpressionError(`${node.name} takes ${wanted} argument(s), got ${node.args.length}`, node.at);
    }
    const args = node.args.map((argument) => this.evaluate(argument));
    for (const argument of args) this.spend(entry.price, argument, argument, node.at);
    return this.checked(entry.apply(args), node.at, `${node.name} is not defined for these arguments`);
  }

  private spend(price: number, left: Big, right: Big, at: number): void {
    // A product of n and m digits costs about n·m / 5,000 µs in BigInt, conversion included.
    const digits = Math.min(Math.abs(left.e), MAX_DIGITS) * Math.min(Math.abs(right.e), MAX_DIGITS);
    this.work += price + digits / 5_000;
    if (this.work > MAX_WORK) throw new ExpressionError('Expression costs too much to evaluate', at);
  }

  private checked(value: Big, at: number, whenUndefined: string): Big {
    if (value.isNaN()) throw new ExpressionError(whenUndefined, at);
    if (!value.isFinite() || value.e > MAX_DIGITS)
      throw new ExpressionError(`Result has more than ${MAX_DIGITS} digits`, at);
    return value;
  }
}
