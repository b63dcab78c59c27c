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
    const space = matchAt(SPACE, expression, at);
    if (space !== undefined) {
      at += space.length;
      continue;
    }
    const token = readToken(expression, at);
    tokens.push(token.token);
    at += token.length;
  }
  tokens.push({ kind: 'end', text: '', at: expression.length });
  return tokens;
}

function readToken(expression: string, at: number): { token: Token; length: number } {
  const number = matchAt(NUMBER, expression, at);
  if (number !== undefined)
    return { token: { kind: 'number', text: checkNumber(number, at), at }, length: number.length };
  const name = matchAt(NAME, expression, at);
  if (name !== undefined) return { token: { kind: 'name', text: name, at }, length: name.length };
  const character = expression.charAt(at);
  const named = NAMED_SIGNS[character];
  if (named !== undefined) return { token: { kind: 'name', text: named, at }, length: 1 };
  if (expression.startsWith('**', at)) return { token: { kind: 'operator', text: '^', at }, length: 2 };
  if (expression.startsWith('//', at)) return { token: { kind: 'operator', text: '//', at }, length: 2 };
  const sign = SIGNS[character] ?? character;
  if ('+-*/%^!(),'.includes(sign)) return { token: { kind: 'operator', text: sign, at }, length: 1 };
  throw new ExpressionError(`Unexpected character ${JSON.stringify(character)}`, at);
}

function checkNumber(text: string, at: number): string {
  const plain = text.replaceAll('_', '');
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
