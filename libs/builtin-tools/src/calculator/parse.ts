/** An error of an expression, with its 0-based position. */
export class ExpressionError extends Error {
  readonly at: number;

  constructor(message: string, at: number) {
    super(message);
    this.name = 'ExpressionError';
    this.at = at;
  }
}

/** The message with the position, an excerpt of the expression, and a caret below the position. */
export function describeError(error: ExpressionError, expression: string): string {
  const start = Math.max(0, error.at - 30);
  const shown = expression.slice(start, error.at + 30).replaceAll(/\s/g, ' ');
  return `${error.message} at position ${error.at + 1}:\n${shown}\n${' '.repeat(error.at - start)}^`;
}

/** A token of an expression; `at` is the 0-based position of its first character. */
type ExpressionToken =
  | { kind: 'number'; text: string; at: number }
  | { kind: 'name'; text: string; at: number }
  | { kind: 'operator'; text: string; at: number }
  | { kind: 'end'; text: ''; at: number };

/** Typographic signs that people and models write, with their meanings. */
const SIGNS: Readonly<Record<string, string>> = {
  '×': '*',
  '·': '*',
  '∙': '*',
  '÷': '/',
  '−': '-',
  '–': '-',
  '（': '(',
  '）': ')',
  '，': ',',
  '％': '%',
};
const NAMED_SIGNS: Readonly<Record<string, string>> = { π: 'pi', τ: 'tau', φ: 'phi', '√': 'sqrt', '∛': 'cbrt' };

const NUMBER = /0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?/y;
const NAME = /[A-Za-z_][A-Za-z0-9_]*/y;
const SPACE = /\s+/y;
/** Largest exponent of a number literal; 1e999999999 would only cost time. */
const MAX_EXPONENT = 10_000;

/** Splits an expression into tokens in one pass, in linear time. */
function tokenize(expression: string): ExpressionToken[] {
  const tokens: ExpressionToken[] = [];
  let at = 0;
  while (at < expression.length) {
    const code = expression.charCodeAt(at);
    if (code === 32) at += 1;
    else at += readToken(expression, at, code, tokens);
  }
  tokens.push({ kind: 'end', text: '', at: expression.length });
  return tokens;
}

/**
 * Appends the token at a position, if one starts there, and returns the number of characters read. The most frequent tokens,
 * plain digits and signs, need no pattern.
 */
function readToken(expression: string, at: number, code: number, tokens: ExpressionToken[]): number {
  if (isDigit(code) || code === DOT) {
    const text = plainDigits(expression, at) ?? matchAt(NUMBER, expression, at);
    if (text === undefined) throw new ExpressionError('Unexpected "."', at);
    tokens.push({ kind: 'number', text: checkNumber(text, at), at });
    return text.length;
  }
  const character = expression.charAt(at);
  const sign = SIGNS[character] ?? character;
  if (OPERATORS.includes(sign)) {
    const doubled = (code === STAR || code === SLASH) && expression.charCodeAt(at + 1) === code;
    tokens.push({ kind: 'operator', text: doubled ? (code === STAR ? '^' : '//') : sign, at });
    return doubled ? 2 : 1;
  }
  const name = matchAt(NAME, expression, at);
  const named = name ?? NAMED_SIGNS[character];
  if (named !== undefined) {
    tokens.push({ kind: 'name', text: named, at });
    return name === undefined ? 1 : name.length;
  }
  const space = matchAt(SPACE, expression, at);
  if (space === undefined) throw new ExpressionError(`Unexpected character ${JSON.stringify(character)}`, at);
  return space.length;
}

/** A run of digits that is a complete integer; undefined if the number may continue in another way. */
function plainDigits(expression: string, at: number): string | undefined {
  let end = at;
  while (isDigit(expression.charCodeAt(end))) end += 1;
  const next = expression.charCodeAt(end);
  const continues = next === DOT || next === UNDERSCORE || (next >= 65 && next <= 90) || (next >= 97 && next <= 122);
  return continues || end === at ? undefined : expression.slice(at, end);
}

const isDigit = (code: number): boolean => code >= 48 && code <= 57;
const DOT = 46;
const STAR = 42;
const SLASH = 47;
const UNDERSCORE = 95;
const OPERATORS = '+-*/%^!(),';

function checkNumber(text: string, at: number): string {
  const plain = text.includes('_') ? text.replaceAll('_', '') : text;
  if (!/[eE]/.test(plain)) return plain;
  const exponent = /^[\d.]+[eE]([+-]?\d+)$/.exec(plain);
  if (exponent && Math.abs(Number(exponent[1])) > MAX_EXPONENT) {
    throw new ExpressionError(`Exponent of a number beyond ±${MAX_EXPONENT}`, at);
  }
  return plain;
}

function matchAt(pattern: RegExp, text: string, at: number): string | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0];
}

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

/** Deepest nesting: more than anyone writes, and far below a stack overflow. */
const MAX_DEPTH = 200;
/** Maximum number of tokens, to limit the cost of an expression. */
const MAX_TOKENS = 4_000;

/**
 * Parses by precedence: `+ -` < `* / // mod of` < unary `-` < `^` (right) < postfix `! %`.
 * `%` followed by an operand is the remainder, otherwise a percentage. There is no implicit multiplication, because `1/2pi`
 * would be ambiguous, so `2(3)` is an error.
 * @throws ExpressionError with the position
 */
export function parse(expression: string): Expression {
  const tokens = tokenize(expression);
  if (tokens.length > MAX_TOKENS) throw new ExpressionError(`Expression has more than ${MAX_TOKENS} parts`, 0);
  return new Parser(tokens).parse();
}

/** A recursive-descent parser with one method per precedence level. */
class Parser {
  private position = 0;
  private depth = 0;

  constructor(private readonly tokens: readonly ExpressionToken[]) {}

  parse(): Expression {
    if (this.current.kind === 'end') throw new ExpressionError('Expression is empty', 0);
    const tree = this.sum();
    if (this.tokens[this.position]?.kind !== 'end') throw this.unexpected();
    return tree;
  }

  private get current(): ExpressionToken {
    return this.tokens[this.position] as ExpressionToken;
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
    const right = this.signed(); // right-associative, and allows 2^-1
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
        return operand; // remainder, handled by product()
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

  private nameOrCall(token: ExpressionToken): Expression {
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

  private expectClosing(open: ExpressionToken): void {
    if (isOperator(this.current, ')')) {
      this.position += 1;
      return;
    }
    if (this.current.kind === 'end') throw new ExpressionError('Parenthesis is never closed', open.at);
    throw this.unexpected();
  }

  /** Whether an operand starts there. A sign does not count: `50% - 3` is a percentage minus 3. */
  private startsOperand(index: number): boolean {
    const token = this.tokens[index] as ExpressionToken;
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

function isOperator(token: ExpressionToken, text: string): boolean {
  return token.kind === 'operator' && token.text === text;
}

function productOperator(token: ExpressionToken): '*' | '/' | '//' | 'mod' | undefined {
  if (token.kind === 'operator') {
    if (token.text === '*' || token.text === '/' || token.text === '//') return token.text;
    return token.text === '%' ? 'mod' : undefined;
  }
  if (token.kind !== 'name') return undefined;
  if (token.text === 'of') return '*';
  return token.text === 'mod' ? 'mod' : undefined;
}
