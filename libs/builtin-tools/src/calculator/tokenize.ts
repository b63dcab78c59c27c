import { ExpressionError } from './expression-error.js';

/** A piece of an expression; `at` is the 0-based position of its first character. */
export type Token =
  | { kind: 'number'; text: string; at: number }
  | { kind: 'name'; text: string; at: number }
  | { kind: 'operator'; text: string; at: number }
  | { kind: 'end'; text: ''; at: number };

/** Typographic signs people and models write, and what they mean. */
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
/** Digits after a number's `e`: more cannot be meant, and 1e999999999 would only cost time. */
const MAX_EXPONENT = 10_000;

/** Splits an expression into tokens in one pass; linear in its length. */
export function tokenize(expression: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  while (at < expression.length) {
    const code = expression.charCodeAt(at);
    if (code === 32) at += 1;
    else at += readToken(expression, at, code, tokens);
  }
  tokens.push({ kind: 'end', text: '', at: expression.length });
  return tokens;
}

/** Adds the token at a place, if one begins there, and tells how much was read. Plain digits and signs, by far the most, need no pattern. */
function readToken(expression: string, at: number, code: number, tokens: Token[]): number {
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

/** A run of digits that is a whole number by itself; undefined when the number may go on in another way. */
function plainDigits(expression: string, at: number): string | undefined {
  let end = at;
  while (isDigit(expression.charCodeAt(end))) end += 1;
  const next = expression.charCodeAt(end);
  const goesOn = next === DOT || next === UNDERSCORE || (next >= 65 && next <= 90) || (next >= 97 && next <= 122);
  return goesOn || end === at ? undefined : expression.slice(at, end);
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
