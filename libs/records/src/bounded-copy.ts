import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { isRandomText, plainName } from '@toolfleet/contracts/secret-names';
import { replaceLabelled, SensitiveText } from '@toolfleet/telemetry';
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
/** Characters of a text that are searched behind the cut, for a secret that the cut would split. */
const BEHIND_CUT = 4_096;
const SHAPES = new SensitiveText({ find: ['secrets'], shown: () => REDACTED });

/**
 * Copies JSON values without their hidden members, for as long as the copies fit into a number of bytes. Parts that stay the same are
 * shared with the original: most values have nothing to hide. `learn` reads whole values, so that a secret is also hidden where a part
 * before it, or one that is kept, repeats it; both take linear time.
 */
export class BoundedCopy {
  /** Effects of the last `copy`: left something out, or replaced something. */
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

  /** Notes the hidden values in what will be copied, also in parts that do not fit. */
  learn(value: Json | undefined): void {
    if (typeof value === 'string') void this.#hideLabelled(value);
    if (typeof value !== 'object' || value === null || this.#path.length >= MAX_DEPTH) return;
    if (Array.isArray(value)) {
      this.#path.push('');
      for (const item of value) this.learn(item);
    } else {
      this.#path.push('');
      for (const name in value) {
        const member = value[name];
        this.#path[this.#path.length - 1] = name;
        if (member !== undefined && this.#hides(name, member)) this.#remember(member);
        else this.learn(member);
      }
    }
    this.#path.pop();
  }

  /** About the bytes of all copies as JSON. */
  get bytes(): number {
    return this.maxBytes - Math.max(0, this.#left);
  }

  /** @param maxBytes of this copy, within the rest */
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
      return this.#isHiddenNumber(value) ? this.#redact(value) : value;
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
      const shown = this.#hides(name, value) ? this.#redact(value) : this.#copy(value);
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

  /** Whether a member is hidden. Flags are not: `has_password` says nothing. */
  #hides(name: string, value: Json): boolean {
    const answer = this.hidden.hides(name);
    if (answer === undefined || typeof value === 'boolean') return false;
    if (answer === 'label') return typeof value === 'string' && isRandomText(value);
    return answer === 'secret' || this.hidden.paths.some((path) => this.#endsWith(path));
  }

  #isHiddenNumber(value: Json): boolean {
    return (
      (typeof value === 'number' || typeof value === 'bigint') &&
      this.#hiddenValues.size > 0 &&
      this.#hiddenValues.has(String(value))
    );
  }

  #endsWith(names: readonly string[]): boolean {
    let at = this.#path.length;
    return names.every((_, index) => {
      const wanted = names[names.length - 1 - index];
      do at -= 1;
      while (this.#path[at] === '');
      const name = this.#path[at];
      return name !== undefined && plainName(name) === wanted;
    });
  }

  #redact(value: Json): Json {
    if (value === null || value === '') return value;
    this.isRedacted = true;
    this.#left -= REDACTED.length + 2;
    return REDACTED;
  }

  /** Notes the texts and numbers of a hidden value that results and errors may repeat. */
  #remember(value: Json): void {
    for (const open = [value]; open.length > 0 && this.#hiddenValues.size < MAX_HIDDEN_VALUES;) {
      const next = open.pop();
      if (typeof next !== 'object' && typeof next !== 'boolean') {
        const text = String(next);
        if (text.length >= MIN_HIDDEN_CHARS) this.#hiddenValues.add(text);
      } else if (Array.isArray(next)) open.push(...next.slice(0, MAX_HIDDEN_VALUES));
      else if (isJsonObject(next)) open.push(...Object.values(next).slice(0, MAX_HIDDEN_VALUES));
    }
  }

  /**
   * A text without the values of hidden names in it: JSON, headers, queries, assignments. Of a path, the last name is hidden behind the
   * names before it.
   */
  #hideLabelled(text: string): string {
    const first = new Map<string, number>();
    const firstOf = (name: string): number => {
      const known = first.get(name);
      if (known !== undefined) return known;
      const found = text.search(new RegExp([...name].join('[^\\p{L}\\p{N}]*'), 'iu'));
      first.set(name, found < 0 ? text.length : found);
      return first.get(name)!;
    };
    const isPath = (name: string, at: number): boolean =>
      this.hidden.paths.some(
        (path) => path.at(-1) === plainName(name) && path.slice(0, -1).every((parent) => firstOf(parent) < at),
      );
    return replaceLabelled(
      text,
      (name, at) => {
        const answer = this.hidden.hides(name);
        if (answer === 'by_path') return isPath(name, at) ? 'any' : undefined;
        return answer && (answer === 'label' ? 'texts' : 'any');
      },
      ({ name, value, form, at }) => {
        if (value === REDACTED || (value.length < 6 && /^(?:true|false|null)$/.test(value))) return undefined;
        if (this.hidden.hides(name) === 'label' && !isRandomText(value)) return undefined;
        this.#remember(readValue(value, form));
        this.isRedacted = true;
        // JSON stays JSON.
        return form !== 'quoted' && /^[-\d{[]/.test(value) && text[at] === ':' ? `"${REDACTED}"` : REDACTED;
      },
    );
  }

  #text(text: string): string {
    const isLong = text.length > this.#left;
    const searched = isLong ? text.slice(0, Math.max(0, this.#left) + BEHIND_CUT) : text;
    const shapes = new Set<string>();
    let shown = SHAPES.maskShapes(this.#hideLabelled(searched), shapes);
    if (shapes.size > 0) this.isRedacted = true;
    for (const value of this.#hiddenValues) {
      if (!shown.includes(value)) continue;
      shown = shown.replaceAll(value, REDACTED);
      this.isRedacted = true;
    }
    if (isLong) shown = shown.slice(0, Math.max(0, shown.length - (searched.length - Math.max(0, this.#left))));
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

/** A value in a text: without the escapes of JSON, and of a header or cookie also its parts that look like secrets. */
function readValue(value: string, form: 'quoted' | 'nested' | 'plain'): Json {
  if (form === 'plain')
    return [
      value,
      ...value
        .slice(0, 8_192)
        .split(/[\s;,=]+/)
        .filter((part) => part.length >= 8 && /\d/.test(part)),
    ];
  if (form === 'quoted' && !value.includes('\\')) return value;
  try {
    return JSON.parse(form === 'quoted' ? `"${value}"` : value) as Json;
  } catch {
    return value;
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
