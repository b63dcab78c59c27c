import type { BuiltinContext } from './operands.js';

/** Up to this product of lengths the engine's own search is used: its worst case takes about a millisecond. */
const MAX_NATIVE_WORK = 4_000_000;
/** Characters of a result that count as one step of the evaluation. */
const CHARS_PER_STEP = 100;

/** How to search: `limit` matches at most; `overlapping` matches may share characters. */
interface FindOptions {
  limit?: number;
  overlapping?: boolean;
}

/**
 * Positions of `part` in `text`, in UTF-16 units and ascending, in time linear in both lengths. `indexOf` compares up to every
 * character of `part` at every position, which callers who choose both texts can make happen, so long pairs are searched with the
 * algorithm of Knuth, Morris and Pratt.
 * @param part not empty
 */
export function findAll(text: string, part: string, options: FindOptions = {}): number[] {
  const { limit = Number.POSITIVE_INFINITY, overlapping = false } = options;
  if (part.length > text.length) return [];
  if (text.length * part.length > MAX_NATIVE_WORK) return findAllLinear(text, part, limit, overlapping);
  const found: number[] = [];
  const step = overlapping ? 1 : part.length;
  for (let at = text.indexOf(part); at >= 0 && found.length < limit; at = text.indexOf(part, at + step)) found.push(at);
  return found;
}

function findAllLinear(text: string, part: string, limit: number, overlapping: boolean): number[] {
  const found: number[] = [];
  const borders = borderLengths(part);
  let matched = 0;
  for (let at = 0; at < text.length && found.length < limit; at += 1) {
    while (matched > 0 && text[at] !== part[matched]) matched = borders[matched - 1]!;
    if (text[at] === part[matched]) matched += 1;
    if (matched < part.length) continue;
    found.push(at + 1 - matched);
    matched = overlapping ? borders[matched - 1]! : 0;
  }
  return found;
}

/** For each prefix, the length of its longest proper prefix that is also its suffix. */
function borderLengths(part: string): Int32Array {
  const borders = new Int32Array(part.length);
  for (let end = 1, length = 0; end < part.length; end += 1) {
    while (length > 0 && part[end] !== part[length]) length = borders[length - 1]!;
    if (part[end] === part[length]) length += 1;
    borders[end] = length;
  }
  return borders;
}

/** The texts between the matches of a separator that is not empty. */
export function splitText(text: string, separator: string): string[] {
  const parts: string[] = [];
  let from = 0;
  for (const at of findAll(text, separator)) {
    parts.push(text.slice(from, at));
    from = at + separator.length;
  }
  parts.push(text.slice(from));
  return parts;
}

/**
 * Joins texts.
 * @throws RegoError limit when the result is larger than the rest of the evaluation allows
 */
export function joinTexts(parts: readonly string[], separator: string, context: BuiltinContext): string {
  let chars = separator.length * Math.max(0, parts.length - 1);
  for (const part of parts) chars += part.length;
  context.spend(Math.ceil(chars / CHARS_PER_STEP));
  return parts.join(separator);
}
