/**
 * Integers that a double cannot represent: JSON.parse would read `9007199254740993`, a 64-bit id, as `…992`. In memory they are
 * BigInt. `parseExact` reads their digits and `toExactJson` writes them. JSON.stringify writes them as strings, because a reader that
 * parses numbers as doubles, a browser or a model's client, would round them: a writer that does not know of them loses the type, never
 * a digit.
 *
 * An integer is exact as a double when JSON.stringify writes the digits that were parsed. Text written by a JSON library that uses
 * doubles is therefore always exact, on every hop. Fractions and exponents are rounded by every parser that uses doubles and are not
 * checked, unless they are out of range (`1e400` is parsed as Infinity). RFC 8259 section 6 leaves all this to the implementation.
 */
import { randomBytes } from 'node:crypto';
import type { Json } from './json.js';

/** Text without one of these has no inexact number. Sixteen classes, because V8 skips ahead for them and tries a quantifier at each digit. */
const LONG = /\d\d\d\d\d\d\d\d\d\d\d\d\d\d\d\d/;
const LONG_RUNS = new RegExp(LONG, 'g');
/** What stands before a number in JSON. */
const BEFORE_NUMBER = ' \t\n\r:,[-';
const LARGE_EXPONENT = /[eE]\+?\d\d\d+(?:[\s,\]}]|$)/;
const INTEGER = /^[+-]?\d+(?:\.0+)?$/;
/** Maximum length of the text of an integer. Doubles have up to 309 digits. */
const MAX_INTEGER_CHARS = 400;
/** A number that is shorter is exact. */
const MIN_INEXACT_CHARS = 5;
const QUOTE = 34;
const PLUS = 43;
const COMMA = 44;
const MINUS = 45;
const ZERO = 48;
const NINE = 57;
const BACKSLASH = 92;
const CLOSE_ARRAY = 93;
const CLOSE_OBJECT = 125;
/** Longest number that is shown in full in a message. */
const SHOWN = 40;
/** Begins the string that stands for an integer while a text is parsed or written. Unpredictable, so that no value contains it. */
const MARK = `${randomBytes(9).toString('base64url')}:`;
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, 'g');

/** Large integers that were marked in the value that is being written; undefined where they are written as plain strings. */
let marks: number | undefined;

// oxlint-disable-next-line no-extend-native -- JSON.stringify throws for a BigInt without this method, deep inside of libraries
Object.defineProperty(BigInt.prototype, 'toJSON', {
  configurable: true,
  writable: true,
  value(this: bigint): string {
    if (marks === undefined) return String(this);
    marks += 1;
    return MARK + String(this);
  },
});

/** JSON.stringify with the digits of large integers, for readers that have them exactly: processes of the fleet, Python, upstreams. */
export function toExactJson(value: unknown, indent?: number): string {
  marks = 0;
  try {
    const json = JSON.stringify(value, undefined, indent);
    return marks === 0 ? json : unmarked(json);
  } finally {
    marks = undefined;
  }
}

/**
 * A value in which strings stand for large integers, for a library that writes its JSON; `unmarked` puts the digits into that.
 * @returns the same reference if there is none
 */
export function toMarked<T>(value: T): T {
  return replaced(value, (integer) => MARK + String(integer));
}

/** JSON with digits in place of the strings of `toMarked`. */
export function unmarked(json: string): string {
  return json.replaceAll(MARKED, '$1');
}

/** A JSON text that was parsed. */
export interface ParsedText<T = Json> {
  value: T;
  /** The first number that became a string, as written in the text. */
  inexact?: string | undefined;
  /** Whether JSON.parse would change a number. */
  hasLarge?: true;
}

/**
 * JSON.parse with large integers as BigInt. Numbers beyond the range of a double become strings.
 * @throws SyntaxError like JSON.parse
 */
export function parseExact<T = Json>(json: string): ParsedText<T> {
  const value = JSON.parse(json) as T;
  if (!mayBeInexact(json)) return { value };
  let quoted = '';
  let from = 0;
  let inexact: string | undefined;
  for (const { literal, at } of inexactNumbers(json)) {
    const isInteger = Number.isFinite(Number(literal));
    if (!isInteger) inexact ??= literal;
    quoted += `${json.slice(from, at)}"${isInteger ? MARK : ''}${literal}"`;
    from = at + literal.length;
  }
  if (from === 0) return { value };
  return { value: withIntegers(JSON.parse(quoted + json.slice(from))) as T, inexact, hasLarge: true };
}

/** Whether a JSON text may have a number that JSON.parse would change. Takes a tenth of its time. */
export function mayBeInexact(json: string): boolean {
  return (LONG.test(json) && hasLongNumber(json)) || LARGE_EXPONENT.test(json);
}

/** Whether a long run of digits begins a number. One in a hundred trace ids has such a run, and so has each batch of calls. */
function hasLongNumber(json: string): boolean {
  for (const { index } of json.matchAll(LONG_RUNS))
    if (index === 0 || BEFORE_NUMBER.includes(json[index - 1]!)) return true;
  return false;
}

/** Puts the integers in place of the strings that stand for them. A loop: text may be nested deeper than the stack is. */
function withIntegers(root: Json): Json {
  const holder = [root];
  for (const open: object[] = [holder]; open.length > 0;) {
    const item = open.pop() as Record<string, Json>;
    for (const name in item) {
      const member = item[name] ?? null;
      if (typeof member === 'object' && member !== null) open.push(member);
      else if (typeof member === 'string' && member.startsWith(MARK))
        item[name] = BigInt(member.slice(MARK.length).split('.', 1)[0] ?? '');
    }
  }
  return holder[0] as Json;
}

/** The integer that a text of digits names: a number if a double represents it, else a BigInt; undefined for other texts. */
export function toInteger(digits: string): number | bigint | undefined {
  const number = Number(digits);
  if (!isInteger(digits) || !Number.isFinite(number)) return undefined;
  const integer = BigInt(digits.split('.', 1)[0] ?? '');
  return String(number) === String(integer) ? number : integer;
}

/**
 * A value as validators see it, with each large integer as its nearest double. A caller sends the exact value after the check.
 * @returns the same reference if there is none
 */
export function asDoubles<T>(value: T): T {
  return replaced(value, Number);
}

function replaced<T>(value: T, replace: (integer: bigint) => Json): T {
  if (typeof value === 'bigint') return replace(value) as T;
  if (typeof value !== 'object' || value === null) return value;
  let copy: Record<string, Json> | undefined;
  const members = value as Record<string, Json>;
  for (const name in members) {
    const member = members[name];
    if (typeof member !== 'bigint' && (typeof member !== 'object' || member === null)) continue;
    const seen = replaced(member, replace);
    if (seen === member) continue;
    copy ??= (Array.isArray(value) ? [...value] : { ...value }) as typeof members;
    copy[name] = seen;
  }
  return (copy as T | undefined) ?? value;
}

/** Error message for a number that `parseExact` made a string. */
export function inexactNumberMessage(literal: string): string {
  const shown = literal.length > SHOWN ? `${literal.slice(0, SHOWN - 1)}…` : literal;
  return `The number ${shown} cannot be represented exactly; send it as a string`;
}

/** Scans the text outside of strings, once. Only for text that JSON.parse accepted. */
function* inexactNumbers(json: string): Generator<{ literal: string; at: number }> {
  for (let at = 0; at < json.length; at += 1) {
    const code = json.charCodeAt(at);
    if (code === QUOTE) at = closingQuote(json, at);
    else if (code === MINUS || (code >= ZERO && code <= NINE)) {
      const end = endOfNumber(json, at);
      const literal = end - at < MIN_INEXACT_CHARS ? '' : json.slice(at, end);
      if (literal !== '' && !isExact(literal)) yield { literal, at };
      at = end - 1;
    }
  }
}

/** Index of the quote that ends the string which starts at `quote`. */
function closingQuote(json: string, quote: number): number {
  for (let at = json.indexOf('"', quote + 1); ; at = json.indexOf('"', at + 1)) {
    let backslashes = 0;
    while (json.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return at;
  }
}

/** Index after a number: of a comma, a bracket or white space. */
function endOfNumber(json: string, from: number): number {
  let at = from + 1;
  for (let code = json.charCodeAt(at); code >= PLUS && code !== COMMA && code !== CLOSE_ARRAY && code !== CLOSE_OBJECT;)
    code = json.charCodeAt((at += 1));
  return at;
}

function isExact(literal: string): boolean {
  const value = Number(literal);
  if (Number.isSafeInteger(value)) return true;
  return Number.isFinite(value) && (!isInteger(literal) || String(value) === literal.split('.', 1)[0]);
}

const isInteger = (text: string): boolean => text.length <= MAX_INTEGER_CHARS && INTEGER.test(text);

/** Sign, significant digits and exponent of a decimal number: equal numbers give equal text. For short input; not linear. */
export function significantDigits(text: string): string {
  const [mantissa = '', exponent = '0'] = text.replace(/^[+-]/, '').toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  if (significant === '') return '0';
  const scale = Number(exponent) - fraction.length + (digits.length - significant.length);
  return `${text.startsWith('-') ? '-' : ''}${significant}e${scale}`;
}
