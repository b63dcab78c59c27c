import { type Place, RegoError } from './rego-error.js';

export interface Token {
  kind: 'name' | 'number' | 'string' | 'sign' | 'end';
  /** The source text; for a string its value with escapes resolved. */
  text: string;
  line: number;
  column: number;
  /** There is a line break between the previous token and this one. */
  newLine: boolean;
  /** There is no space between the previous token and this one: `a[0]` is a reference, `a [0]` is not. */
  glued: boolean;
}

const SPACE = /[ \t\r]+/y;
const NAME = /[A-Za-z_][A-Za-z0-9_]*/y;
const NUMBER = /(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
// eslint-disable-next-line no-control-regex -- RFC 8259 section 7 names exactly these as the ones a string may not hold
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const RAW_STRING = /`[^`]*`/y;
const SIGN = /:=|==|!=|<=|>=|[-+*/%&|=<>{}[\]().,:;]/y;

/** Larger policy files are refused; policies are written by hand. */
const MAX_CHARS = 1_000_000;

/** Splits a policy into tokens. @throws RegoError parse_error at the first character that starts no token */
export function lex(text: string, file: string): Token[] {
  if (text.length > MAX_CHARS) throw new RegoError('parse_error', `policy is larger than ${MAX_CHARS} characters`);
  const tokens: Token[] = [];
  let at = 0;
  let line = 1;
  let lineStart = 0;
  let newLine = false;
  let glued = false;
  const place = (): Place => ({ file, line, column: at - lineStart + 1 });
  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    return pattern.exec(text)?.[0];
  };
  const push = (kind: Token['kind'], length: number, value: string): void => {
    tokens.push({ kind, text: value, line, column: at - lineStart + 1, newLine, glued });
    at += length;
    newLine = false;
    glued = true;
  };
  while (at < text.length) {
    const char = text[at]!;
    let found: string | undefined;
    if (char === '\n') {
      at++;
      line++;
      lineStart = at;
      newLine = true;
      glued = false;
    } else if (char === '#') {
      const end = text.indexOf('\n', at);
      at = end < 0 ? text.length : end;
      glued = false;
    } else if ((found = match(SPACE)) !== undefined) {
      at += found.length;
      glued = false;
    } else if ((found = match(NAME)) !== undefined) {
      push('name', found.length, found);
    } else if ((found = match(NUMBER)) !== undefined) {
      if (/[A-Za-z0-9_]/.test(text[at + found.length] ?? ''))
        throw new RegoError('parse_error', 'not a number', place());
      push('number', found.length, found);
    } else if (char === '"') {
      found = match(STRING);
      if (found === undefined) throw new RegoError('parse_error', 'unterminated string or unknown escape', place());
      push('string', found.length, JSON.parse(found) as string);
    } else if (char === '`') {
      found = match(RAW_STRING);
      if (found === undefined) throw new RegoError('parse_error', 'unterminated raw string', place());
      push('string', found.length, found.slice(1, -1));
      line += found.split('\n').length - 1;
      if (found.includes('\n')) lineStart = at - found.length + found.lastIndexOf('\n') + 1;
    } else if ((found = match(SIGN)) !== undefined) {
      push('sign', found.length, found);
    } else {
      throw new RegoError('parse_error', `unexpected character ${JSON.stringify(char)}`, place());
    }
  }
  tokens.push({ kind: 'end', text: 'end of file', line, column: at - lineStart + 1, newLine: true, glued: false });
  return tokens;
}
