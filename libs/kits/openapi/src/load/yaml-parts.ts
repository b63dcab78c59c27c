import type { Json, JsonObject } from '@toolfleet/base';
import { setOwn } from '../json-pointer.js';

/** Parses the text of a part that has `level` mappings around it, to its documents. Throws for what is not YAML. */
type ParsePart = (text: string, level: number) => unknown[];

/** Lengths in UTF-16 units. */
interface PartSizes {
  /** Shorter texts are parsed at once. */
  text: number;
  /** Aim for a part: what parsing it leaves behind is garbage before the next collection. */
  part: number;
  /** JSON that is parsed again in one go. From 100 KiB on, V8 builds the result in the old generation. */
  batch: number;
}

const SIZES: PartSizes = { text: 64 * 1024, part: 32 * 1024, batch: 128 * 1024 };
/** Mappings taken apart below each other: `components`, `schemas`, a schema, `properties`. */
const MAX_LEVEL = 6;

/**
 * Parses YAML whose outermost node is a block mapping part by part, in a fraction of the memory. At once, a parser allocates 20 times
 * the text, and most of that lives until the end, so V8 enlarges the young generation permanently; the strings of the result are slices,
 * which keep the whole text alive. Here each part becomes JSON, and the result is parsed from that.
 *
 * A part is a run of entries of one block mapping. Parsers read block mappings from left to right, and at the start of an entry their
 * only state is the entries before it, so parts parsed on their own give the same entries. A cut at a line that only looks like the start
 * of an entry leaves an open quote, an open bracket or a line with too little indentation in its part, and that part does not parse.
 *
 * @returns undefined for text that has to be parsed at once: it has another outermost node, a fault, something that concerns several
 * parts (aliases, merge keys, further documents, equal keys), or numbers that JSON does not have
 */
export function parseInParts(text: string, parse: ParsePart, sizes = SIZES): JsonObject | undefined {
  const start = text.length < sizes.text ? undefined : separableFrom(text);
  if (start === undefined) return undefined;
  try {
    return new PartReader(parse, sizes).read(text.slice(start));
  } catch {
    return undefined;
  }
}

/** Start of the first entry of the outermost mapping; undefined when parts of the text may depend on each other. */
function separableFrom(text: string): number | undefined {
  const head = /^(?:[ ]*(?:#[^\n]*)?\r?\n)*(?:---[ ]*\r?\n(?:[ ]*(?:#[^\n]*)?\r?\n)*)?/.exec(text)?.[0] ?? '';
  const separator = /\n(?:---|\.\.\.)(?=[\s]|$)/g;
  separator.lastIndex = Math.max(0, head.length - 1);
  if (separator.test(text) || /\r(?!\n)/.test(text) || text.includes('<<') || usesAlias(text)) return undefined;
  return entryColumn(text, head.length) === 0 ? head.length : undefined;
}

/** Whether the text may have an alias of an anchor in it. Prose with such characters counts only if the names are the same. */
function usesAlias(text: string): boolean {
  const anchors = new Set<string>();
  for (const [, name] of text.matchAll(/&([^\t\n\r ,[\]{}]+)/g)) anchors.add(name as string);
  if (anchors.size === 0) return false;
  for (const [, name] of text.matchAll(/\*([^\t\n\r ,[\]{}]+)/g)) if (anchors.has(name as string)) return true;
  return false;
}

/** Column at which an entry starts in this line; -1 when the line does not start like a plain or quoted key. */
function entryColumn(text: string, lineStart: number): number {
  let at = lineStart;
  while (text.charCodeAt(at) === 0x20) at += 1;
  return /[\w$/"']/.test(text.charAt(at)) ? at - lineStart : -1;
}

/** An entry whose value is a block mapping below it. */
interface Nested {
  key: string;
  /** The lines of that mapping. */
  text: string;
  column: number;
}

class PartReader {
  /** What has to be added to which mapping, in the order of the text. */
  private pending: { into: JsonObject; key?: string; value?: JsonObject }[] = [];
  private json: string[] = [];
  private length = 0;

  constructor(
    private readonly parse: ParsePart,
    private readonly sizes: PartSizes,
  ) {}

  read(text: string): JsonObject {
    const root = this.mapping(text, 0, 0);
    this.flush();
    return root;
  }

  private mapping(text: string, column: number, level: number): JsonObject {
    const { part } = this.sizes;
    const into: JsonObject = {};
    const entry = new RegExp(`\\n {${column}}(?=[\\w$/"'])`, 'g');
    let from = 0;
    let start = 0;
    while (from < text.length) {
      const end = entry.test(text) ? entry.lastIndex - column : text.length;
      // The last of the entries since `from` starts at `start`. Without it they are short enough.
      if (start > from && end - from > part) {
        this.add(into, text.slice(from, start), level);
        from = start;
      }
      const nested = end - start > part && level < MAX_LEVEL ? this.nested(text.slice(start, end), column) : undefined;
      if (nested) {
        const value = this.mapping(nested.text, nested.column, level + 1);
        this.pending.push({ into, key: nested.key, value });
        from = end;
      } else if (end === text.length || end - from > part) {
        this.add(into, text.slice(from, end), level);
        from = end;
      }
      start = end;
    }
    return into;
  }

  private nested(entry: string, column: number): Nested | undefined {
    const below = entry.indexOf('\n') + 1;
    const blank = /(?:[ ]*(?:#[^\n]*)?\r?\n)*/y;
    blank.lastIndex = below;
    blank.test(entry);
    const inner = entryColumn(entry, blank.lastIndex);
    if (below === 0 || inner <= column) return undefined;
    const key = this.keyAbove(`${entry.slice(0, below)}${' '.repeat(inner)}x: 1\n`);
    return key === undefined ? undefined : { key, text: entry.slice(blank.lastIndex), column: inner };
  }

  /** The key of an entry with the mapping `x: 1` below it; undefined when the value is something else, such as a block of text. */
  private keyAbove(entry: string): string | undefined {
    try {
      const [parsed] = this.parse(entry, 0);
      const [[key, value] = ['', undefined]] = Object.entries(parsed as JsonObject);
      return JSON.stringify(value) === '{"x":1}' ? key : undefined;
    } catch {
      return undefined;
    }
  }

  private add(into: JsonObject, part: string, level: number): void {
    const [parsed, ...further] = this.parse(part, level);
    if (further.length > 0 || Array.isArray(parsed) || !isExpressible(parsed)) throw new Error('not a mapping of JSON');
    if (typeof parsed !== 'object' || parsed === null) throw new Error('not a mapping');
    const json = JSON.stringify(parsed);
    this.pending.push({ into });
    this.json.push(json);
    this.length += json.length;
    if (this.length > this.sizes.batch) this.flush();
  }

  private flush(): void {
    const parts = JSON.parse(`[${this.json.join(',')}]`) as JsonObject[];
    let next = 0;
    for (const { into, key, value } of this.pending) {
      const members = key === undefined ? (parts[next++] as JsonObject) : { [key]: value as JsonObject };
      for (const name of Object.keys(members)) {
        if (Object.hasOwn(into, name)) throw new Error('a key twice');
        setOwn(into, name, members[name] as Json);
      }
    }
    this.pending = [];
    this.json = [];
    this.length = 0;
  }
}

/** Whether JSON expresses a value of the YAML core schema exactly. */
function isExpressible(value: unknown): boolean {
  if (typeof value === 'string') return true;
  if (typeof value === 'number') return Number.isFinite(value) && !Object.is(value, -0);
  if (typeof value !== 'object' || value === null) return value !== undefined;
  if (Array.isArray(value)) {
    for (const item of value) if (!isExpressible(item)) return false;
  } else for (const key in value) if (!isExpressible((value as JsonObject)[key])) return false;
  return true;
}
