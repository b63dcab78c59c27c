import { ExpressionError } from './expression-error.js';
import { tokenize, type Token } from './tokenize.js';

/** Expression tree; `at` is the position of the operator, name or digit it came from. */
export type Expression =
  | { kind: 'number'; text: string; at: number }
  | { kind: 'constant'; name: string; at: number }
  | { kind: 'unary'; operator: '-' | '!' | '%'; operand: Expression; at: number }
  | {
      kind: 'binary';
      operator: '+' | '-' | '*' | '/' | '//' | 'mod' | '^';
      left: Expression;
      right: Expression;
      at: number;
    }
  | { kind: 'call'; name: string; args: Expression[]; at: number };

/** Deepest nesting: far above what anyone writes, far below the stack's end. */
const MAX_DEPTH = 200;
/** Most operands, so that a long input cannot cost more than its parsing. */
const MAX_TOKENS = 4_000;

/**
 * Parses by precedence: `+ -` < `* / // mod of` < unary `-` < `^` (right) < postfix `! %`.
 * `%` followed by an operand is the remainder, else a percentage. There is no implicit multiplication: `2(3)` is a fault,
 * because `1/2pi` would have two readings.
 */
export function parse(expression: string): Expression {
  const tokens = tokenize(expression);
  if (tokens.length > MAX_TOKENS) throw new ExpressionError(`Expression has more than ${MAX_TOKENS} parts`, 0);
  return new Parser(tokens).parse();
}

class Parser {
  private position = 0;
  private depth = 0;

  constructor(private readonly tokens: readonly Token[]) {}

  parse(): Expression {
    if (this.current.kind === 'end') throw new ExpressionError('Expression is empty', 0);
    const tree = this.sum();
    if (this.tokens[this.position]?.kind !== 'end') throw this.unexpected();
    return tree;
  }

  private get current(): Token {
    return this.tokens[this.position] as Token;
  }

  private sum(): Expression {
    this.enter();
    let left = this.product();
    for (let token = this.current; isOperator(token, '+') || isOperator(token, '-'); token = this.current) {
      this.position += 1;
      left = { kind: 'binary', operator: token.text as '+' | '-', left, right: this.product(), at: token.at };
    }
    this.depth -= 1;
    return left;
  }

  private product(): Expression {
    let left = this.signed();
    for (;;) {
      const token = this.current;
      const operator = productOperator(token);
      if (operator === undefined) return left;
      this.position += 1;
      left = { kind: 'binary', operator, left, right: this.signed(), at: token.at };
    }
  }

  private signed(): Expression {
    const token = this.current;
    if (!isOperator(token, '-') && !isOperator(token, '+')) return this.power();
    this.enter();
    this.position += 1;
    const operand = this.signed();
    this.depth -= 1;
    return token.text === '-' ? { kind: 'unary', operator: '-', operand, at: token.at } : operand;
  }

  private power(): Expression {
    const left = this.postfix();
    const token = this.current;
    if (!isOperator(token, '^')) return left;
    this.enter();
    this.position += 1;
    const right = this.signed(); // right-associative, and 2^-1 is legal
    this.depth -= 1;
    return { kind: 'binary', operator: '^', left, right, at: token.at };
  }

  private postfix(): Expression {
    let operand = this.primary();
    for (;;) {
      const token = this.current;
      if (isOperator(token, '!')) {
        this.position += 1;
        operand = { kind: 'unary', operator: '!', operand, at: token.at };
      } else if (isOperator(token, '%') && !this.startsOperand(this.position + 1)) {
        this.position += 1;
        operand = { kind: 'unary', operator: '%', operand, at: token.at };
      } else if (isOperator(token, '%')) {
        return operand; // remainder: taken by product()
      } else return operand;
    }
  }

  private primary(): Expression {
    const token = this.current;
    if (token.kind === 'number') {
      this.position += 1;
      return { kind: 'number', text: token.text, at: token.at };
    }
    if (token.kind === 'name' && token.text !== 'of' && token.text !== 'mod') return this.nameOrCall(token);
    if (isOperator(token, '(')) {
      this.position += 1;
      const inner = this.sum();
      this.expectClosing(token);
      return inner;
    }
    throw this.unexpected();
  }

  private nameOrCall(token: Token): Expression {
    this.position += 1;
    const open = this.current;
    if (!isOperator(open, '(')) return { kind: 'constant', name: token.text, at: token.at };
    this.position += 1;
    const args: Expression[] = [];
    if (!isOperator(this.current, ')')) {
      args.push(this.sum());
      while (isOperator(this.current, ',')) {
        this.position += 1;
        args.push(this.sum());
      }
    }
    this.expectClosing(open);
    return { kind: 'call', name: token.text, args, at: token.at };
  }

  private expectClosing(open: Token): void {
    if (isOperator(this.current, ')')) {
      this.position += 1;
      return;
    }
    if (this.current.kind === 'end') throw new ExpressionError('Parenthesis is never closed', open.at);
    throw this.unexpected();
  }

  /** A sign does not count: `50% - 3` is a percentage minus 3. */
  private startsOperand(index: number): boolean {
    const token = this.tokens[index] as Token;
    return (
      token.kind === 'number' ||
      isOperator(token, '(') ||
      (token.kind === 'name' && token.text !== 'of' && token.text !== 'mod')
    );
  }

  private enter(): void {
    this.depth += 1;
    if (this.depth > MAX_DEPTH) throw new ExpressionError(`Nested deeper than ${MAX_DEPTH} levels`, this.current.at);
  }

  private unexpected(): ExpressionError {
    const token = this.current;
    if (token.kind === 'end') return new ExpressionError('Expression ends too early', token.at);
    const previous = this.tokens[this.position - 1];
    const joins = previous && (previous.kind !== 'operator' || previous.text === ')') && token.text !== ')';
    const hint = joins ? ' (write * to multiply)' : '';
    return new ExpressionError(`Unexpected ${JSON.stringify(token.text)}${hint}`, token.at);
  }
}

function isOperator(token: Token, text: string): boolean {
  return token.kind === 'operator' && token.text === text;
}

function productOperator(token: Token): '*' | '/' | '//' | 'mod' | undefined {
  if (token.kind === 'operator') {
    if (token.text === '*' || token.text === '/' || token.text === '//') return token.text;
    return token.text === '%' ? 'mod' : undefined;
  }
  if (token.kind !== 'name') return undefined;
  if (token.text === 'of') return '*';
  return token.text === 'mod' ? 'mod' : undefined;
}
