import { isJsonObject, type Json } from '@toolfleet/contracts';

/** Longest `text` shown to a model, in characters (as in Shannon). */
const MAX_TEXT = 6_000;

/** Items of an array, then characters of a string, that are tried until the summary fits. */
const STEPS: readonly [items: number, characters: number][] = [
  [50, 1_000],
  [20, 500],
  [10, 300],
  [5, 200],
  [3, 120],
  [1, 80],
];

/**
 * A value as text for a model, at most 6,000 characters: whole when it fits; else long arrays and strings are shortened
 * evenly, each with a note of what is missing, before the end is cut off.
 */
export function summarise(value: Json): string {
  if (typeof value === 'string') return cutText(value, MAX_TEXT);
  const whole = JSON.stringify(value);
  if (whole.length <= MAX_TEXT) return whole;
  for (const [items, characters] of STEPS) {
    const text = JSON.stringify(shortened(value, items, characters));
    if (text.length <= MAX_TEXT) return text;
  }
  return cutText(whole, MAX_TEXT);
}

function shortened(value: Json, items: number, characters: number): Json {
  if (typeof value === 'string') return value.length > characters ? cutText(value, characters) : value;
  if (Array.isArray(value)) {
    const kept = value.slice(0, items).map((item) => shortened(item, items, characters));
    return value.length > items ? [...kept, `… ${value.length - items} more of ${value.length}`] : kept;
  }
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, shortened(item, items, characters)]));
}

/** Cuts a text to `limit` characters, including a note of its full length. */
export function cutText(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const note = `… (${text.length} characters in total)`;
  return text.slice(0, Math.max(0, limit - note.length)).toWellFormed() + note;
}
