import { isJsonObject, type Json } from './json.js';

/**
 * Deepest nesting of a body that is read from outside. JSON.parse takes any depth, JSON.stringify and every other
 * recursion ends with a stack overflow some thousand levels down.
 */
export const MAX_BODY_DEPTH = 256;

/** Nesting of a JSON value, counted without recursion and only up to just above `limit`. */
export function nestingDepth(value: Json, limit: number): number {
  let level: Json[] = [value];
  let depth = 0;
  while (level.length > 0 && depth <= limit) {
    const deeper: Json[] = [];
    for (const item of level) {
      if (Array.isArray(item))
        for (const member of item) if (typeof member === 'object' && member !== null) deeper.push(member);
      if (isJsonObject(item))
        for (const key in item) if (typeof item[key] === 'object' && item[key] !== null) deeper.push(item[key]);
    }
    level = deeper;
    depth += 1;
  }
  return depth;
}

/**
 * Whether a value is nested deeper than a body may be.
 * @param length of its JSON, where it is known: a level takes two characters, so short ones need not be walked
 */
export function isNestedTooDeep(value: Json, length = Infinity): boolean {
  return length > 2 * MAX_BODY_DEPTH && nestingDepth(value, MAX_BODY_DEPTH) > MAX_BODY_DEPTH;
}

/**
 * Numbers that JSON.parse does not keep: integers whose digits a double cannot give back (`9007199254740993` is read as
 * `…992`), and numbers beyond its range (`1e400` is read as Infinity). RFC 8259 section 6 leaves both to the reader.
 *
 * A number counts as kept when JSON.stringify writes the digits that were read. So a text that a JSON library with doubles has
 * written is always kept, on every hop. Fractions and exponents are rounded by all who read them as doubles and are not looked
 * at, unless they are out of range.
 */

/** A text without a match has no such number; nearly all texts end here. Linear, a fraction of what JSON.parse takes. */
const SUSPECT = /\d{16}|\d[eE]\+?\d{3}/;
/** A number outside of strings that is long enough to be one; only ever run on text that JSON.parse has accepted. */
const LITERAL = /-?\d[\d.eE+-]{4,}/g;
const INTEGER = /^-?\d+(?:\.0+)?$/;
/** Digits of the largest double. */
const MAX_INTEGER_DIGITS = 309;
/** Characters of a number shown in a message. */
const SHOWN = 40;

/**
 * The first number of a JSON text that JSON.parse does not keep, as it is written; undefined when all are kept.
 * @param json text that JSON.parse accepts
 */
export function inexactNumber(json: string): string | undefined {
  if (!SUSPECT.test(json)) return undefined;
  for (const { literal } of inexactNumbers(json)) return literal;
  return undefined;
}

/** What a caller is told about such a number. */
export function inexactNumberMessage(literal: string): string {
  const shown = literal.length > SHOWN ? `${literal.slice(0, SHOWN - 1)}…` : literal;
  return `The number ${shown} cannot be represented exactly; send it as a string`;
}

/**
 * JSON.parse for what others answer: numbers it would not keep become strings of their digits.
 * @returns the value, and how many numbers became strings
 * @throws SyntaxError as JSON.parse does
 */
export function parseExact(json: string): { value: Json; asText: number } {
  const value = JSON.parse(json) as Json;
  if (!SUSPECT.test(json)) return { value, asText: 0 };
  let quoted = '';
  let from = 0;
  let asText = 0;
  for (const { literal, at } of inexactNumbers(json)) {
    quoted += `${json.slice(from, at)}"${literal}"`;
    from = at + literal.length;
    asText += 1;
  }
  return asText === 0 ? { value, asText } : { value: JSON.parse(quoted + json.slice(from)) as Json, asText };
}

/** Walks the text outside of strings, once. */
function* inexactNumbers(json: string): Generator<{ literal: string; at: number }> {
  for (let from = 0; from < json.length;) {
    const quote = json.indexOf('"', from);
    const end = quote === -1 ? json.length : quote;
    for (const match of json.slice(from, end).matchAll(LITERAL)) {
      if (!isKept(match[0])) yield { literal: match[0], at: from + match.index };
    }
    from = quote === -1 ? end : endOfString(json, quote);
  }
}

/** Index after the closing quote of the string that begins at `quote`. */
function endOfString(json: string, quote: number): number {
  for (let at = quote + 1; ; at += 1) {
    at = json.indexOf('"', at);
    if (at === -1) return json.length;
    let backslashes = 0;
    while (json.charCodeAt(at - 1 - backslashes) === 92) backslashes += 1;
    if (backslashes % 2 === 0) return at + 1;
  }
}

function isKept(literal: string): boolean {
  const value = Number(literal);
  if (Number.isSafeInteger(value) || String(value) === literal) return true;
  if (!Number.isFinite(value)) return false;
  const point = literal.indexOf('.');
  const whole = point === -1 ? literal : literal.slice(0, point);
  if (whole.length > MAX_INTEGER_DIGITS + 1) return false;
  return !INTEGER.test(literal) || significantDigits(whole) === significantDigits(String(value));
}

/** Sign, significant digits and exponent of a decimal text of at most some hundred characters; equal for equal values. */
export function significantDigits(text: string): string {
  const [mantissa = '', exponent = '0'] = text.replace(/^[+-]/, '').toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  if (significant === '') return '0';
  const scale = Number(exponent) - fraction.length + (digits.length - significant.length);
  return `${text.startsWith('-') ? '-' : ''}${significant}e${scale}`;
}
