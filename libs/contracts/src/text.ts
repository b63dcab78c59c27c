import { ToolError } from './errors/tool-error.js';
/** Control characters, line and paragraph separators, unpaired surrogates: what no log line, key or ledger row may carry. */
const UNSAFE = /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}]/u;
/** Longest id in UTF-16 units, as the ledger and the budget store them. */
export const MAX_ID_LENGTH = 256;

/** True when a text has characters that no id may have. */
export function hasUnsafeCharacters(text: string): boolean {
  return UNSAFE.test(text);
}

/** True for texts that may be an id anywhere in the fleet: 1 to `MAX_ID_LENGTH` characters without control characters. */
export function isPlainId(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_ID_LENGTH && !hasUnsafeCharacters(value);
}

/**
 * Refuses an id with control characters: ids become parts of store keys, log lines and ledger rows. `undefined` and values that
 * are not strings pass; their types are checked where they are read.
 * @param field name of the field in the message
 * @throws ToolError REQUEST_INVALID
 */
export function requirePlainId(field: string, id: unknown): void {
  if (typeof id !== 'string' || !hasUnsafeCharacters(id)) return;
  throw new ToolError('REQUEST_INVALID', {
    message: `${field} must not contain control characters`,
    details: { fields: [field] },
  });
}

/** Up to this length the runtime's own search is used: its worst case is the product of both lengths. */
const SHORT_CHARS = 64;

/**
 * Looks for one text in others, in time linear in both, whatever they are (Knuth, Morris and Pratt, 1977). The runtime's
 * search takes minutes when somebody looks for `b` and half a million `a` in megabytes of `a`.
 */
export class TextSearch {
  /** For each length of a prefix: how long the longest proper prefix is that also ends it. */
  readonly #borders: Uint32Array | undefined;

  /** @param wanted not empty */
  constructor(private readonly wanted: string) {
    if (wanted.length > SHORT_CHARS) this.#borders = bordersOf(wanted);
  }

  /** Place of the first occurrence at or after `from`, in UTF-16 units; -1 when there is none. */
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

  /** The pieces between the occurrences, as `String.prototype.split` gives them; what follows the last of `most` cuts is one piece. */
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

function bordersOf(text: string): Uint32Array {
  const borders = new Uint32Array(text.length + 1);
  let border = 0;
  for (let at = 1; at < text.length; at += 1) {
    while (border > 0 && text.charCodeAt(at) !== text.charCodeAt(border)) border = borders[border] as number;
    if (text.charCodeAt(at) === text.charCodeAt(border)) border += 1;
    borders[at + 1] = border;
  }
  return borders;
}
