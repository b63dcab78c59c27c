import { invalidRequest } from './errors/tool-error.js';

export { didYouMean, question, suggestion } from '@toolfleet/base/did-you-mean';

/** Control characters, line and paragraph separators and unpaired surrogates. They are rejected in log lines, keys and ledger rows. */
const UNSAFE = /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}]/u;
/** Maximum length of an id in UTF-16 code units that the ledger and the budget can store. */
export const MAX_ID_LENGTH = 256;

/** True for texts with characters that are not allowed in ids. */
export function hasUnsafeCharacters(text: string): boolean {
  return UNSAFE.test(text);
}

/** True for valid ids: 1 to `MAX_ID_LENGTH` characters, none of them unsafe. */
export function isPlainId(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_ID_LENGTH && !UNSAFE.test(value);
}

/**
 * Refuses an id with control characters: ids become parts of store keys, log lines and ledger rows. `undefined` and values that
 * are not strings pass; their types are checked where they are read.
 * @param field name of the field in the message
 * @throws ToolError REQUEST_INVALID
 */
export function requirePlainId(field: string, id: unknown): void {
  if (typeof id !== 'string' || !hasUnsafeCharacters(id)) return;
  throw invalidRequest(`${field} must not contain control characters`, field);
}

/** Characters that a model reads and a person does not see, or sees in another place: ignorable ones, bidirectional and other controls. */
const HIDDEN = /[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cc}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/gu;

/**
 * A text in which hidden characters are their code points, such as `‹U+202E›`; line breaks and tabs stay.
 * @returns with the number of hidden characters
 */
export function markHidden(text: string): { text: string; count: number } {
  let count = 0;
  const marked = text.replace(HIDDEN, (hidden) => {
    if (hidden === '\n' || hidden === '\t') return hidden;
    count += 1;
    return `‹U+${hidden.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}›`;
  });
  return { text: marked, count };
}

/**
 * Text of others on one line of a page or a question: hidden characters are their code points, line breaks and tabs among them, so that
 * it can neither look like another text nor begin a line of its own.
 */
export const shownLine = (text: string): string =>
  markHidden(text).text.replaceAll('\n', '‹U+000A›').replaceAll('\t', '‹U+0009›');

/** Up to this length `indexOf` is used. Its worst case is the product of both lengths, small here. */
const SHORT_CHARS = 64;

/**
 * Searches texts for a fixed one in time linear in both (Knuth, Morris and Pratt, 1977). `indexOf` takes minutes to search
 * megabytes of `a` for a `b` followed by half a million `a`.
 */
export class TextSearch {
  /** By length of a prefix: the length of its longest proper prefix that is also its suffix. */
  readonly #borders: Uint32Array | undefined;

  /** @param wanted a non-empty text */
  constructor(private readonly wanted: string) {
    if (wanted.length > SHORT_CHARS) this.#borders = findBorders(wanted);
  }

  /** Index of the first occurrence at or after `from`, or -1, as `indexOf` returns it. */
  next(text: string, from = 0): number {
    const borders = this.#borders;
    if (!borders) return text.indexOf(this.wanted, from);
    let matched = 0;
    for (let at = from; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      while (matched > 0 && code !== this.wanted.charCodeAt(matched)) matched = borders[matched] as number;
      if (code === this.wanted.charCodeAt(matched)) matched += 1;
      if (matched === this.wanted.length) return at + 1 - matched;
    }
    return -1;
  }

  /** Splits like `String.prototype.split`, but at most `most` times: the rest is the last piece. */
  split(text: string, most = Number.POSITIVE_INFINITY): string[] {
    const pieces: string[] = [];
    let from = 0;
    for (let at = this.next(text); at >= 0 && pieces.length < most; at = this.next(text, from)) {
      pieces.push(text.slice(from, at));
      from = at + this.wanted.length;
    }
    pieces.push(text.slice(from));
    return pieces;
  }
}

function findBorders(text: string): Uint32Array {
  const borders = new Uint32Array(text.length + 1);
  let border = 0;
  for (let at = 1; at < text.length; at += 1) {
    while (border > 0 && text.charCodeAt(at) !== text.charCodeAt(border)) border = borders[border] as number;
    if (text.charCodeAt(at) === text.charCodeAt(border)) border += 1;
    borders[at + 1] = border;
  }
  return borders;
}
