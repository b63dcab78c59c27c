import { isJsonObject, type Json } from '@toolfleet/base';
import {
  BODY_EXCESS,
  parseExact,
  shapeExcess,
  shapeOfText,
  significantDigits,
  toInteger,
} from '@toolfleet/base/json-text';
import { chargeText, StepsExhausted, TextRefused } from './step-budget.js';

/** JSON Schema's names of types. */
export type TypeName = 'null' | 'boolean' | 'integer' | 'number' | 'string' | 'array' | 'object';

const TRUE = new Set(['true', 'yes', 'y', '1']);
const FALSE = new Set(['false', 'no', 'n', '0']);
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

/** The JSON Schema type of a value; `integer` for numbers without a fraction and large integers. */
export function jsonType(value: Json): TypeName {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'bigint') return 'integer';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value as 'boolean' | 'string' | 'object';
}

/** Whether type `actual` is one of the wanted types. */
export function fits(actual: TypeName, wanted: readonly TypeName[]): boolean {
  return wanted.includes(actual) || (actual === 'integer' && wanted.includes('number'));
}

/**
 * Converts `value` to one of the `wanted` types without loss. Undefined when there is no such conversion, and when two differ
 * (`"1"` for integer or boolean): coercion never guesses.
 */
export function coerceScalar(value: Json, wanted: readonly TypeName[]): Json | undefined {
  let found: Json | undefined;
  for (const type of wanted) {
    const candidate = convert(value, type);
    if (candidate === undefined || candidate === found) continue;
    if (found !== undefined) return undefined;
    found = candidate;
  }
  return found;
}

function convert(value: Json, type: TypeName): Json | undefined {
  switch (type) {
    case 'string':
      return typeof value === 'object' || typeof value === 'string' ? undefined : toText(value);
    case 'integer': {
      const number = typeof value === 'string' ? toNumber(value) : undefined;
      return typeof number === 'bigint' || Number.isInteger(number) ? number : undefined;
    }
    case 'number':
      return typeof value === 'string' ? toNumber(value) : undefined;
    case 'boolean':
      return toBoolean(value);
    default:
      return parseStructure(value, type);
  }
}

function toBoolean(value: Json): boolean | undefined {
  if (value === 1) return true;
  if (value === 0) return false;
  if (typeof value !== 'string') return undefined;
  const word = value.trim().toLowerCase();
  if (TRUE.has(word)) return true;
  return FALSE.has(word) ? false : undefined;
}

/** Parses a decimal text; undefined unless the number has exactly the same digits. Integers have any number of digits. */
function toNumber(text: string): number | bigint | undefined {
  const trimmed = text.trim();
  if (trimmed.length > 400 || !NUMBER.test(trimmed)) return undefined;
  const number = Number(trimmed);
  if (!Number.isFinite(number)) return undefined;
  if (Number.isInteger(number) && !Number.isSafeInteger(number)) return toInteger(trimmed);
  return significantDigits(trimmed) === significantDigits(String(number)) ? number + 0 : undefined; // + 0: "-0" becomes 0, not -0
}

/** A large integer that was sent as text: its sender may have no other way. */
export function parseLarge(value: Json, wanted: readonly TypeName[]): number | bigint | undefined {
  const integer = typeof value === 'string' && wanted.includes('integer') ? toNumber(value) : undefined;
  return Math.abs(Number(integer)) > Number.MAX_SAFE_INTEGER ? integer : undefined;
}

/** Formats a value; integers always with all their digits, never with an exponent. */
function toText(value: number | bigint | boolean): string {
  return typeof value === 'number' && Math.abs(value) >= 1e21 ? BigInt(value).toString() : String(value);
}

/**
 * Parses JSON text that was sent as an argument; undefined when a number in it would lose digits. Its names and values count like those
 * of a body.
 * @throws StepsExhausted or TextRefused before anything is parsed; SyntaxError, also for text that is nested too deep
 */
export function parseArgument(text: string): Json | undefined {
  const shape = shapeOfText(text);
  const excess = shapeExcess(shape);
  if (excess === 'depth') throw new SyntaxError(BODY_EXCESS.depth);
  if (excess) throw new TextRefused(BODY_EXCESS[excess].replace('The body', 'JSON text'));
  chargeText(shape.nodes, text.length);
  if (!shape.longNumbers) return JSON.parse(text) as Json;
  const { value, inexact } = parseExact(text);
  return inexact === undefined ? value : undefined;
}

/**
 * Parses an array or object that was sent as JSON text; undefined when a number in it would lose digits.
 * @throws StepsExhausted
 */
export function parseStructure(value: Json, type: TypeName): Json | undefined {
  if (typeof value !== 'string' || (type !== 'array' && type !== 'object')) return undefined;
  const text = value.trim();
  if (!text.startsWith(type === 'array' ? '[' : '{')) return undefined;
  try {
    const parsed = parseArgument(text);
    const isWanted = type === 'array' ? Array.isArray(parsed) : isJsonObject(parsed);
    return isWanted ? parsed : undefined;
  } catch (error) {
    if (error instanceof StepsExhausted) throw error;
    return undefined;
  }
}
