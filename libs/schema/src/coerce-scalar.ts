import { isJsonObject, type Json } from '@toolfleet/contracts';
import { inexactNumber, significantDigits } from '@toolfleet/contracts/json-text';

/** JSON Schema's names of types. */
export type TypeName = 'null' | 'boolean' | 'integer' | 'number' | 'string' | 'array' | 'object';

const TRUE = new Set(['true', 'yes', 'y', '1']);
const FALSE = new Set(['false', 'no', 'n', '0']);
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

/** Type of a JSON value, `integer` for numbers without a fraction. */
export function typeOf(value: Json): TypeName {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value as 'boolean' | 'string' | 'object';
}

/** True when a value of type `actual` is of one of the wanted types. */
export function fits(actual: TypeName, wanted: readonly TypeName[]): boolean {
  return wanted.includes(actual) || (actual === 'integer' && wanted.includes('number'));
}

/**
 * The one lossless conversion of `value` into one of the `wanted` types, or undefined: when there is none, and when there
 * are two different ones (`"1"` for integer or boolean), because coercion never guesses.
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
      return typeof value === 'number' || typeof value === 'boolean' ? textOf(value) : undefined;
    case 'integer': {
      const number = typeof value === 'string' ? numberOf(value) : undefined;
      return number !== undefined && Number.isInteger(number) ? number : undefined;
    }
    case 'number':
      return typeof value === 'string' ? numberOf(value) : undefined;
    case 'boolean':
      return booleanOf(value);
    default:
      return parseStructure(value, type);
  }
}

function booleanOf(value: Json): boolean | undefined {
  if (value === 1) return true;
  if (value === 0) return false;
  if (typeof value !== 'string') return undefined;
  const word = value.trim().toLowerCase();
  if (TRUE.has(word)) return true;
  return FALSE.has(word) ? false : undefined;
}

/** A decimal text as a number, if the number says exactly the same. */
function numberOf(text: string): number | undefined {
  const trimmed = text.trim();
  if (trimmed.length > 400 || !NUMBER.test(trimmed)) return undefined;
  const number = Number(trimmed);
  if (!Number.isFinite(number)) return undefined;
  if (Number.isInteger(number) && !Number.isSafeInteger(number)) return undefined;
  return significantDigits(trimmed) === significantDigits(String(number)) ? number + 0 : undefined; // + 0: "-0" becomes 0, not -0
}

/** The decimal digits of an integer, also of those that JavaScript writes with an exponent. */
function textOf(value: number | boolean): string {
  return typeof value === 'number' && Math.abs(value) >= 1e21 ? BigInt(value).toString() : String(value);
}

/** An array or object that was sent as JSON text; undefined for a text with a number that would lose digits. */
export function parseStructure(value: Json, type: TypeName): Json | undefined {
  if (typeof value !== 'string' || (type !== 'array' && type !== 'object')) return undefined;
  const text = value.trim();
  if (!text.startsWith(type === 'array' ? '[' : '{')) return undefined;
  try {
    const parsed = JSON.parse(text) as Json;
    const isWanted = type === 'array' ? Array.isArray(parsed) : isJsonObject(parsed);
    return isWanted && inexactNumber(text) === undefined ? parsed : undefined;
  } catch {
    return undefined;
  }
}
