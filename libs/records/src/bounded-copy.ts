import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { HiddenNames } from './hidden-names.js';

/** In place of a hidden value. */
export const REDACTED = '[redacted]';
/** Shorter values would also match ordinary words. */
const MIN_HIDDEN_CHARS = 6;
const MAX_DEPTH = 64;
/** Counting the bytes of a shorter text takes longer than the text itself. */
const SHORT = 24;
/** Values that are hidden where other parts repeat them. */
const MAX_HIDDEN_VALUES = 100;

/**
 * Copies JSON values without their hidden members, for as long as the copies fit into a number of bytes. The work is bounded by that
 * number, whatever the size of the values. Parts that stay the same are shared with the original: most values have nothing to hide.
 */
export class BoundedCopy {
  /** What the last `copy` did: left something out, or replaced something. */
  isCut = false;
  isRedacted = false;
  #left: number;
  readonly #path: string[] = [];
  readonly #hiddenValues = new Set<string>();

  constructor(
    private readonly hidden: HiddenNames,
    private readonly maxBytes: number,
  ) {
    this.#left = maxBytes;
  }

  /** About the bytes of all copies as JSON. */
  get bytes(): number {
    return this.maxBytes - Math.max(0, this.#left);
  }

  /** @param maxBytes of this copy, within what is left */
  copy(value: Json, maxBytes = Infinity): Json {
    this.isCut = false;
    this.isRedacted = false;
    const kept = Math.max(0, this.#left - maxBytes);
    this.#left -= kept;
    try {
      return this.#copy(value);
    } finally {
      this.#left += kept;
    }
  }

  #copy(value: Json): Json {
    if (typeof value === 'string') return this.#text(value);
    if (typeof value !== 'object' || value === null) {
      this.#left -= 6;
      return value;
    }
    this.#left -= 2;
    if (this.#path.length >= MAX_DEPTH) {
      this.isCut = true;
      return null;
    }
    return Array.isArray(value) ? this.#list(value) : this.#object(value);
  }

  #list(items: Json[]): Json[] {
    let copies: Json[] | undefined;
    // Items count as a level, so that lists in lists end.
    this.#path.push('');
    for (let index = 0; index < items.length; index += 1) {
      if (this.#isFull()) {
        copies ??= items.slice(0, index);
        break;
      }
      const item = items[index]!;
      const shown = this.#copy(item);
      if (shown !== item) copies ??= items.slice(0, index);
      copies?.push(shown);
    }
    this.#path.pop();
    return copies ?? items;
  }

  #object(members: JsonObject): JsonObject {
    let copy: JsonObject | undefined;
    for (const name in members) {
      const value = members[name];
      if (value === undefined) continue;
      if (this.#isFull()) {
        copy ??= membersBefore(members, name);
        break;
      }
      this.#left -= name.length + 4;
      this.#path.push(name);
      const shown = this.#hides(name) ? this.#redact(value) : this.#copy(value);
      if (shown !== value) copy ??= membersBefore(members, name);
      if (copy) setMember(copy, name, shown);
      this.#path.pop();
    }
    return copy ?? members;
  }

  #isFull(): boolean {
    if (this.#left > 0) return false;
    this.isCut = true;
    return true;
  }

  #hides(name: string): boolean {
    const answer = this.hidden.hides(name);
    if (answer !== 'by_path') return answer === 'yes';
    return this.hidden.paths.some((path) => this.#endsWith(path));
  }

  #endsWith(names: readonly string[]): boolean {
    let at = this.#path.length;
    return names.every((_, index) => {
      const wanted = names[names.length - 1 - index];
      do at -= 1;
      while (this.#path[at] === '');
      return this.#path[at]?.toLowerCase() === wanted;
    });
  }

  #redact(value: Json): Json {
    if (value === null || value === '') return value;
    this.isRedacted = true;
    this.#left -= REDACTED.length + 2;
    this.#remember(value);
    return REDACTED;
  }

  /** Notes the texts of a hidden value, which results and errors may repeat. */
  #remember(value: Json): void {
    for (const open = [value]; open.length > 0 && this.#hiddenValues.size < MAX_HIDDEN_VALUES;) {
      const next = open.pop();
      if (typeof next === 'string' && next.length >= MIN_HIDDEN_CHARS) this.#hiddenValues.add(next);
      else if (Array.isArray(next)) open.push(...next.slice(0, MAX_HIDDEN_VALUES));
      else if (isJsonObject(next)) open.push(...Object.values(next).slice(0, MAX_HIDDEN_VALUES));
    }
  }

  #text(text: string): string {
    return (looksLikeJson(text) && this.#jsonText(text)) || this.#plainText(text);
  }

  /** Text of JSON without its hidden members; undefined when nothing in it is hidden. */
  #jsonText(text: string): string | undefined {
    let value: Json;
    try {
      // A text that does not fit is cut, and would not parse then.
      if (text.length > this.#left) throw new RangeError();
      value = JSON.parse(text) as Json;
    } catch {
      const start = text.slice(0, Math.max(0, this.#left)).toLowerCase();
      const holds = [...this.hidden.names, ...this.hidden.paths.map((path) => path.at(-1)!)].some((name) =>
        start.includes(`"${name}"`),
      );
      return holds ? (this.#redact(text) as string) : undefined;
    }
    const [left, isRedacted] = [this.#left, this.isRedacted];
    this.isRedacted = false;
    const copy = this.#copy(value);
    const changed = this.isRedacted;
    this.isRedacted ||= isRedacted;
    if (changed) return JSON.stringify(copy);
    this.#left = left;
    return undefined;
  }

  #plainText(text: string): string {
    // More than fits is not searched, except for a value that the cut would split.
    const isLong = text.length > this.#left;
    let shown = isLong ? text.slice(0, Math.max(0, this.#left) + 4_096) : text;
    for (const value of this.#hiddenValues) {
      if (!shown.includes(value)) continue;
      shown = shown.replaceAll(value, REDACTED);
      this.isRedacted = true;
    }
    const bytes = (shown.length < SHORT ? shown.length : Buffer.byteLength(shown)) + 2;
    if (bytes <= this.#left && !isLong) {
      this.#left -= bytes;
      return shown;
    }
    this.isCut = true;
    // Decoding replaces a character that the cut split.
    const cut = Buffer.from(shown.slice(0, Math.max(0, this.#left)))
      .subarray(0, Math.max(0, this.#left - 8))
      .toString()
      .replace(/\uFFFD+$/, '');
    this.#left = 0;
    return `${cut}…`;
  }
}

/** A copy of an object up to a member. */
function membersBefore(members: JsonObject, end: string): JsonObject {
  const copy: JsonObject = {};
  for (const name in members) {
    if (name === end) break;
    const value = members[name];
    if (value !== undefined) setMember(copy, name, value);
  }
  return copy;
}

function setMember(copy: JsonObject, name: string, value: Json): void {
  if (name === '__proto__') Object.defineProperty(copy, name, { value, enumerable: true });
  else copy[name] = value;
}

function looksLikeJson(text: string): boolean {
  const first = text.charCodeAt(0);
  // A space or control character may precede it.
  return first <= 32 ? /^\s*[[{]/.test(text) : first === OBJECT || first === LIST;
}
const [OBJECT, LIST] = [0x7b, 0x5b];
