import { isUtf8 } from 'node:buffer';
import { randomInt } from 'node:crypto';
import { isJsonObject, type Json } from './json.js';

/**
 * Deepest nesting of a body that is accepted from outside. JSON.parse accepts any depth, but JSON.stringify and other
 * recursive functions overflow the stack after a few thousand levels.
 */
export const MAX_BODY_DEPTH = 256;

/**
 * Maximum number of names and values of a body from outside. Each takes up to 150 ns to parse, and as long again in every step that
 * visits it, so a body of 8 MB with a million of them held the event loop for seconds.
 */
export const MAX_BODY_NODES = 50_000;
/**
 * Maximum number of different names in a body, about. A name that V8 has not seen costs up to 1 µs to parse and more in every object
 * with other names than the last, twenty times as much as a name that is repeated in each row of a list.
 */
export const MAX_BODY_NAMES = 5_000;
/**
 * The same of a result, which may be larger. To parse one takes up to 50 ms at these limits; without them 230 ms for 5 MiB of different
 * names, and 170 ms for empty objects.
 */
export const MAX_RESULT_NODES = 500_000;
export const MAX_RESULT_NAMES = 50_000;
/** A level of nesting takes two bytes, and so does a name or value: smaller bodies need no scan. */
const UNSCANNED_BYTES = 2 * MAX_BODY_DEPTH;
/** A different name and its value take at least this, so that a shorter text has not too many. */
const NAME_BYTES = 6;
const [QUOTE, BACKSLASH, COMMA, COLON, OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = codesOf('"\\,:[]{}');
const [ZERO, NINE, LARGE_E, SMALL_E] = codesOf('09Ee');
/** 1 for each byte that can continue a number. */
const OF_NUMBER = new Uint8Array(256);
for (const code of codesOf('0123456789.Ee+-')) OF_NUMBER[code] = 1;
/** Bytes of a string that are looked at one by one. */
const SHORT_STRING = 64;
/** Integers of so many digits are exact. */
const MAX_EXACT_DIGITS = 15;

function codesOf(signs: string): number[] {
  return Array.from(signs, (sign) => sign.charCodeAt(0));
}

/** Cost of parsing a JSON text. */
interface JsonShape {
  /** Names and values; counted up to just above the limit. */
  nodes: number;
  /** Different names, about, counted up to just above the limit; 0 for a text that is too short to have too many. */
  names: number;
  /** Levels of nesting. */
  depth: number;
  /** Whether a number is so long that it may be inexact (`inexactNumber`). */
  longNumbers: boolean;
}

/**
 * Counts signs outside of strings before anything is parsed, which takes a tenth of the time of a walk through the parsed value. Ends at
 * the first sign that exceeds a limit.
 */
function jsonShape(json: Uint8Array, maxNodes = MAX_BODY_NODES, maxNames = MAX_BODY_NAMES): JsonShape {
  const names = json.length > NAME_BYTES * maxNames ? new DifferentNames(json) : undefined;
  let nodes = 1;
  let level = 0;
  let depth = 0;
  let quote = 0;
  let longNumbers = false;
  for (let at = 0; at < json.length && nodes <= maxNodes; at += 1) {
    const byte = json[at];
    if (byte === QUOTE) {
      quote = at;
      at += 1;
      // Most strings are short: to look for their end by a search of the buffer would cost more than all else here.
      for (const near = at + SHORT_STRING; at < near && json[at] !== QUOTE && json[at] !== BACKSLASH;) at += 1;
      if (json[at] !== QUOTE) at = closingQuote(json, quote);
    } else if (byte === COMMA) nodes += 1;
    else if (byte === COLON) {
      nodes += 1;
      names?.add(quote, at);
      if (names && names.count > maxNames) break;
    } else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
      nodes += 1;
      level += 1;
      if (level > depth) depth = level;
    } else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) level -= 1;
    else if (byte! >= ZERO! && byte! <= NINE!) {
      const start = at;
      let hasExponent = false;
      while (OF_NUMBER[json[at + 1]!] === 1) {
        at += 1;
        hasExponent ||= json[at] === SMALL_E || json[at] === LARGE_E;
      }
      longNumbers ||= hasExponent || at - start >= MAX_EXACT_DIGITS;
    }
  }
  return { nodes, names: names?.count ?? 0, depth, longNumbers };
}

/** A text in a string is counted up to this length first, then up to four times as much each time. */
const FIRST_COUNT_CHARS = 64 * 1024;
const COUNT_GROWTH = 4;

/**
 * The shape of a JSON text in a string, or of its beginning if that exceeds the limits of a body: megabytes are not encoded for a text
 * that is refused.
 */
export function shapeOfText(text: string): JsonShape {
  for (let length = FIRST_COUNT_CHARS; length < text.length; length *= COUNT_GROWTH) {
    const shape = jsonShape(Buffer.from(text.slice(0, length)));
    if (shapeExcess(shape)) return shape;
  }
  return jsonShape(Buffer.from(text));
}

/** Which of the limits `MAX_BODY_NODES`, `MAX_BODY_NAMES` and `MAX_BODY_DEPTH` a JSON text exceeds; undefined if none. */
export function bodyExcess(json: Uint8Array): keyof typeof BODY_EXCESS | undefined {
  return json.length <= UNSCANNED_BYTES ? undefined : shapeExcess(jsonShape(json));
}

/** Why a result is refused that has too many names and values for the processes that receive it; undefined if it has not. */
export function resultExcess(json: Uint8Array): string | undefined {
  if (json.length <= NAME_BYTES * MAX_RESULT_NAMES) return undefined;
  const { nodes, names } = jsonShape(json, MAX_RESULT_NODES, MAX_RESULT_NAMES);
  if (nodes > MAX_RESULT_NODES) return `The result has more than ${MAX_RESULT_NODES} names and values`;
  return names > MAX_RESULT_NAMES ? `The result has more than ${MAX_RESULT_NAMES} different names` : undefined;
}

/** Why a JSON text was not accepted: the check that it failed, and the message for its sender. */
export interface JsonFault {
  fault: keyof typeof BODY_EXCESS | 'encoding' | 'syntax' | 'number';
  message: string;
  /** Present where it was parsed: it contains the id of the request that is refused. */
  value?: Json;
}

/** A JSON text that was read, or why it was not. */
export type JsonReading = { value: Json; fault?: undefined } | JsonFault;

/**
 * Reads a JSON text from outside. It is not parsed when it exceeds `MAX_BODY_NODES` or `MAX_BODY_NAMES`, and it is refused when parsing would
 * change it: invalid UTF-8 would become U+FFFD, and numbers would lose digits.
 * @param limits `trusted`: the sender belongs to this system, and names and values are not limited
 */
export function readJson(bytes: Uint8Array, { trusted = false } = {}): JsonReading {
  if (!trusted && !isUtf8(bytes)) return { fault: 'encoding', message: 'The body is not UTF-8' };
  const shape = bytes.length <= UNSCANNED_BYTES ? undefined : jsonShape(bytes);
  const excess = shape && shapeExcess(shape);
  if (!trusted && excess && excess !== 'depth') return { fault: excess, message: BODY_EXCESS[excess] };
  const start = startsWithMark(bytes) ? MARK_BYTES : 0;
  const json = Buffer.from(bytes.buffer, bytes.byteOffset + start, bytes.byteLength - start).toString('utf8');
  let value: Json;
  try {
    value = JSON.parse(json) as Json;
  } catch (error) {
    return { fault: 'syntax', message: `The body is not JSON: ${(error as Error).message}` };
  }
  // The count ends at the first excess: of a trusted body it may not have come to the deepest level.
  if (excess === 'depth' || (excess && isNestedTooDeep(value)))
    return { fault: 'depth', message: BODY_EXCESS.depth, value };
  const isCounted = shape !== undefined && excess === undefined;
  const inexact = isCounted && !shape.longNumbers ? undefined : inexactNumber(json);
  return inexact === undefined ? { value } : { fault: 'number', message: inexactNumberMessage(inexact), value };
}

/** Why a body is refused that begins with these bytes, whatever follows; undefined if that is not known yet. */
export function excessOfPrefix(bytes: Uint8Array): JsonFault | undefined {
  const fault = shapeExcess(jsonShape(bytes));
  // A body that is nested too deep is parsed for the id of its request.
  return fault === undefined || fault === 'depth' ? undefined : { fault, message: BODY_EXCESS[fault] };
}

const MARK_BYTES = 3;
/** Whether a text begins with a byte order mark. */
const startsWithMark = (bytes: Uint8Array): boolean => bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;

/** The same of a text that was scanned. */
export function shapeExcess({ nodes, names, depth }: JsonShape): keyof typeof BODY_EXCESS | undefined {
  if (nodes > MAX_BODY_NODES) return 'nodes';
  if (names > MAX_BODY_NAMES) return 'names';
  return depth > MAX_BODY_DEPTH ? 'depth' : undefined;
}

const HASH_BITS = 18;
/** Makes collisions unpredictable. */
const SEED = randomInt(2 ** 31);

/** Counts names by the bits of their hashes: at ten thousand names two of a hundred are missed. */
class DifferentNames {
  readonly #seen = new Uint8Array(2 ** HASH_BITS);
  count = 0;

  constructor(private readonly json: Uint8Array) {}

  /** Counts the name between two places in the text (FNV-1a), unless its hash is known. */
  add(from: number, to: number): void {
    let hash = SEED;
    for (let at = from; at < to; at += 1) hash = Math.imul(hash ^ this.json[at]!, 0x01000193);
    const slot = (hash ^ (hash >>> HASH_BITS)) & (2 ** HASH_BITS - 1);
    if (this.#seen[slot] === 1) return;
    this.#seen[slot] = 1;
    this.count += 1;
  }
}

/** Index of the quote that ends the string which starts at `open`; the end of the text if there is none. */
function closingQuote(json: Uint8Array, open: number): number {
  const quote = json.indexOf(QUOTE!, open + 1);
  if (quote < 0) return json.length;
  if (json[quote - 1] !== BACKSLASH) return quote;
  // A search for each of a million escaped quotes would take longer than one loop.
  let at = open + 1;
  while (at < json.length && json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1;
  return at;
}

/** Error messages for a body that exceeds its limits. */
export const BODY_EXCESS = {
  nodes: `The body has more than ${MAX_BODY_NODES} names and values; send fewer, or a large document as one text`,
  names: `The body has more than ${MAX_BODY_NAMES} different names; send a large map as a list, or as one text`,
  depth: `The body is nested deeper than ${MAX_BODY_DEPTH} levels`,
} as const;

/** Nesting depth of a JSON value. Not recursive; stops at `limit + 1`. */
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

/** Counts the values in a JSON value, up to just above `limit`. */
export function countNodes(value: Json, limit: number): number {
  const open: Json[] = [value];
  let count = 0;
  while (open.length > 0 && count <= limit) {
    const item = open.pop();
    count += 1;
    if (typeof item !== 'object' || item === null) continue;
    for (const member of Object.values(item)) {
      open.push(member);
      if (open.length > limit) return limit + 1;
    }
  }
  return count;
}

/**
 * Whether a value is nested deeper than `MAX_BODY_DEPTH`.
 * @param length length of its JSON text, if known: a level takes two characters, so short values need not be walked
 */
export function isNestedTooDeep(value: Json, length = Infinity): boolean {
  return length > 2 * MAX_BODY_DEPTH && nestingDepth(value, MAX_BODY_DEPTH) > MAX_BODY_DEPTH;
}

/**
 * Inexact numbers are those that JSON.parse changes: integers that a double cannot represent (`9007199254740993` is parsed as
 * `…992`) and numbers beyond its range (`1e400` is parsed as Infinity). RFC 8259 section 6 leaves both to the implementation.
 *
 * A number is exact when JSON.stringify writes the digits that were parsed. Text written by a JSON library that uses doubles is
 * therefore always exact, on every hop. Fractions and exponents are rounded by every parser that uses doubles and are not
 * checked, unless they are out of range.
 */

/**
 * Text without a match has no inexact number, which settles nearly all texts in a fraction of the time of JSON.parse. A number
 * stands at the start or after one of these characters; UUIDs and hashes, which nearly all messages contain, do not match.
 */
const SUSPECT = /(?:^|[\s:,[])-?(?:\d{16}|[\d.]*\d[eE]\+?\d{3})/;
/** A number outside of strings that is long enough to be inexact. Only for text that JSON.parse accepted. */
const LITERAL = /-?\d[\d.eE+-]{4,}/g;
const INTEGER = /^-?\d+(?:\.0+)?$/;
/** Digits of the largest double before the decimal point. */
const MAX_INTEGER_DIGITS = 309;
/** Longest number that is shown in full in a message. */
const SHOWN = 40;

/**
 * The first inexact number of a JSON text, as written there; undefined when all are exact.
 * @param json text that JSON.parse accepts
 */
export function inexactNumber(json: string): string | undefined {
  if (!SUSPECT.test(json)) return undefined;
  for (const { literal } of inexactNumbers(json)) return literal;
  return undefined;
}

/** Error message for an inexact number. */
export function inexactNumberMessage(literal: string): string {
  const shown = literal.length > SHOWN ? `${literal.slice(0, SHOWN - 1)}…` : literal;
  return `The number ${shown} cannot be represented exactly; send it as a string`;
}

/**
 * JSON.parse for responses of upstreams: inexact numbers become strings of their digits.
 * @returns the value, and how many numbers became strings
 * @throws SyntaxError like JSON.parse
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

/** Scans the text outside of strings, once. */
function* inexactNumbers(json: string): Generator<{ literal: string; at: number }> {
  for (let from = 0; from < json.length;) {
    const quote = json.indexOf('"', from);
    const end = quote === -1 ? json.length : quote;
    for (const match of json.slice(from, end).matchAll(LITERAL)) {
      if (!isExact(match[0])) yield { literal: match[0], at: from + match.index };
    }
    from = quote === -1 ? end : endOfString(json, quote);
  }
}

/** Index after the closing quote of the string that starts at `quote`. */
function endOfString(json: string, quote: number): number {
  for (let at = quote + 1; ; at += 1) {
    at = json.indexOf('"', at);
    if (at === -1) return json.length;
    let backslashes = 0;
    while (json.charCodeAt(at - 1 - backslashes) === 92) backslashes += 1;
    if (backslashes % 2 === 0) return at + 1;
  }
}

function isExact(literal: string): boolean {
  const value = Number(literal);
  if (Number.isSafeInteger(value) || String(value) === literal) return true;
  if (!Number.isFinite(value)) return false;
  const point = literal.indexOf('.');
  const whole = point === -1 ? literal : literal.slice(0, point);
  if (whole.length > MAX_INTEGER_DIGITS + 1) return false;
  return !INTEGER.test(literal) || significantDigits(whole) === significantDigits(String(value));
}

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
