import { isUtf8 } from 'node:buffer';
import { randomInt } from 'node:crypto';
import type { Json } from './json.js';
import { inexactNumberMessage, parseExact } from './large-integers.js';

export {
  asDoubles,
  inexactNumberMessage,
  mayBeInexact,
  parseExact,
  type ParsedText,
  significantDigits,
  toExactJson,
  toInteger,
  toMarked,
  unmarked,
} from './large-integers.js';

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
  /** Whether a number is so long that a double may not represent it (`parseExact`). */
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
 * change it: invalid UTF-8 would become U+FFFD, and a number beyond the range of a double Infinity.
 * @param limits `trusted`: the sender belongs to this system, and names and values are not limited
 */
export function readJson(bytes: Uint8Array, { trusted = false } = {}): JsonReading {
  if (!trusted && !isUtf8(bytes)) return { fault: 'encoding', message: 'The body is not UTF-8' };
  const shape = bytes.length <= UNSCANNED_BYTES ? undefined : jsonShape(bytes);
  const excess = shape && shapeExcess(shape);
  if (!trusted && excess && excess !== 'depth') return { fault: excess, message: BODY_EXCESS[excess] };
  const start = startsWithMark(bytes) ? MARK_BYTES : 0;
  const json = Buffer.from(bytes.buffer, bytes.byteOffset + start, bytes.byteLength - start).toString('utf8');
  // The count ends at the first excess: of a trusted body it may not have come to the deepest level.
  const isTooDeep = (value: Json): boolean => excess === 'depth' || (excess !== undefined && isNestedTooDeep(value));
  return read(json, isTooDeep, shape && !excess && !shape.longNumbers);
}

/** Reads a JSON text that this process wrote. */
export function readOwnJson(text: string): JsonReading {
  return read(text, (value) => isNestedTooDeep(value, text.length));
}

/** @param isExact no number of the text needs a look */
function read(json: string, isTooDeep: (value: Json) => boolean, isExact = false): JsonReading {
  let value: Json;
  let inexact: string | undefined;
  try {
    if (isExact) value = JSON.parse(json) as Json;
    else ({ value, inexact } = parseExact(json));
  } catch (error) {
    return { fault: 'syntax', message: `The body is not JSON: ${(error as Error).message}` };
  }
  if (isTooDeep(value)) return { fault: 'depth', message: BODY_EXCESS.depth, value };
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
      if (typeof item !== 'object' || item === null) continue;
      // Not `for (key in item)`: V8 optimises its look-up for the name that it saw, and starts anew at each other one.
      for (const member of Object.values(item)) if (typeof member === 'object' && member !== null) deeper.push(member);
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
