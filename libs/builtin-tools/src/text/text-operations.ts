import { jsonObject, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import { TextSearch } from '@toolfleet/contracts/text';

/** Maximum length of a result in UTF-16 units. */
const MAX_RESULT = 4_000_000;

/** An operation of `text_process` in linear time. Callers' patterns run as jobs of BoundedWork instead. */
export type TextOperation =
  | { operation: 'count' | 'summary' | 'trim'; text: string }
  | { operation: 'case'; text: string; to: Case }
  | { operation: 'lines'; text: string; unique: boolean; sort: boolean; limit: number }
  | { operation: 'extract'; text: string; what: Extractable; unique: boolean; limit: number }
  | { operation: 'split'; text: string; separator: string; limit: number }
  | { operation: 'replace'; text: string; find: string; replacement: string; limit: number };

/**
 * Performs an operation. Runs in the process of the tool for short texts, else in a child process.
 * @throws ToolError TOOL_ERROR if the result would be too large
 */
export function operateOnText(work: TextOperation): JsonObject {
  const { text } = work;
  switch (work.operation) {
    case 'count':
      return countText(text);
    case 'summary':
      return summarizeText(text);
    case 'trim':
      return { result: trimmed(text) };
    case 'case':
      return { result: changeCase(text, work.to) };
    case 'lines':
      return listed(arranged(text.split(/\r?\n/), work), work.limit);
    case 'extract': {
      const found = extract(text, work.what);
      return listed(work.unique ? [...new Set(found)] : found, work.limit);
    }
    case 'split':
      return listed(splitText(text, work.separator), work.limit);
    case 'replace':
      return replaced(work);
  }
}

function trimmed(text: string): string {
  return text
    .replaceAll(/[^\S\n]+/g, ' ')
    .replaceAll(/ ?\n ?/g, '\n')
    .trim();
}

/** An empty separator splits into UTF-16 units. */
function splitText(text: string, separator: string): string[] {
  return separator === '' ? text.split('') : new TextSearch(separator).split(text);
}

function arranged(lines: string[], { unique, sort }: { unique: boolean; sort: boolean }): string[] {
  const kept = unique ? [...new Set(lines)] : lines;
  return sort ? kept.toSorted() : kept;
}

function listed(items: string[], limit: number): { items: Json[]; count: number } {
  return { items: items.slice(0, limit), count: items.length };
}

function replaced({ text, find, replacement, limit }: Extract<TextOperation, { operation: 'replace' }>): JsonObject {
  const parts = splitText(text, find);
  const count = Math.min(limit, parts.length - 1);
  if (text.length + count * replacement.length > MAX_RESULT)
    throw new ToolError('TOOL_ERROR', { message: `The result would have more than ${MAX_RESULT} characters` });
  return {
    result: [parts.slice(0, count + 1).join(replacement), ...parts.slice(count + 1)].join(find),
    replaced: count,
  };
}

/** The cases that `case` can produce. */
export const CASES = ['upper', 'lower', 'title', 'sentence', 'camel', 'pascal', 'snake', 'kebab', 'constant'] as const;
export type Case = (typeof CASES)[number];

/** Changes the case of a text. Identifier cases split words at spaces, punctuation and humps (`fooBar` → `foo bar`). */
function changeCase(text: string, to: Case): string {
  switch (to) {
    case 'upper':
      return text.toUpperCase();
    case 'lower':
      return text.toLowerCase();
    case 'title':
      return text.toLowerCase().replaceAll(/(?<![\p{L}\p{N}'’])\p{L}/gu, (letter) => letter.toUpperCase());
    case 'sentence':
      return text.toLowerCase().replaceAll(/(?:^\s*|[.!?]\s+)\p{L}/gu, (start) => start.toUpperCase());
    case 'camel':
      return words(text)
        .map((word, index) => (index === 0 ? word : capital(word)))
        .join('');
    case 'pascal':
      return words(text).map(capital).join('');
    case 'snake':
      return words(text).join('_');
    case 'kebab':
      return words(text).join('-');
    case 'constant':
      return words(text).join('_').toUpperCase();
  }
}

function words(text: string): string[] {
  const apart = text.replaceAll(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1 $2').replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2');
  return (apart.match(/[\p{L}\p{N}]+/gu) ?? []).map((word) => word.toLowerCase());
}

function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}

/** What `extract` can find. */
export const EXTRACTABLE = [
  'emails',
  'urls',
  'numbers',
  'dates',
  'hashtags',
  'mentions',
  'ip_addresses',
  'phone_numbers',
] as const;
type Extractable = (typeof EXTRACTABLE)[number];

/**
 * Linear-time patterns: without nested or adjacent overlapping repetition, and with bounded repetition where a match could
 * restart at every character.
 */
const PATTERNS: Readonly<Record<Extractable, RegExp>> = {
  emails: /(?<![\w.+-])[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}/g,
  urls: /\bhttps?:\/\/[^\s<>"'`\])}]{1,2048}/gi,
  numbers: /(?<![\w.])[+-]?(?:\d{1,3}(?:,\d{3}){1,10}|\d{1,40})(?:\.\d{1,40})?(?:[eE][+-]?\d{1,4})?(?![\w])/g,
  dates:
    /\b(?:\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}|(?:\d{1,2}\.? )?(?:January|February|March|April|May|June|July|August|September|October|November|December)(?: \d{1,2},)? \d{4})/g,
  hashtags: /(?<![\p{L}\p{N}_&])#[\p{L}\p{N}_]{1,139}/gu,
  mentions: /(?<![\p{L}\p{N}_.])@[\p{L}\p{N}_]{1,39}/gu,
  ip_addresses: /(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\d.])/g,
  phone_numbers: /(?<![\w+])\+?\d{1,4}(?:[ ./-]?\(?\d{2,5}\)?){2,5}(?!\w)/g,
};

/** All occurrences, in order. */
function extract(text: string, what: Extractable): string[] {
  const found = text.match(PATTERNS[what]) ?? [];
  // The punctuation of a sentence is not part of an address.
  return what === 'urls' || what === 'emails' ? found.map((one) => one.replace(/[.,;:!?]{1,8}$/, '')) : [...found];
}

const WORD = /[\p{L}\p{N}]+(?:['’-][\p{L}\p{N}]+)*/gu;
const SEGMENTS = new Intl.Segmenter(undefined, { granularity: 'grapheme' });
/** Maximum length of a text with counted graphemes; that takes about 1 µs each. */
const GRAPHEME_CAP = 100_000;
/** Words per minute of silent reading in English (Brysbaert 2019). */
const READING_SPEED = 238;

/** Words too common to be characteristic of an English text. */
const COMMON = new Set(
  'a an and are as at be been but by can could did do does for from had has have he her his i if in into is it its may me my no not of on or our she should so some such than that the their them then there these they this those to too was we were what when which who will with would you your'.split(
    ' ',
  ),
);

/** Sizes of a text. `characters` counts code points, `graphemes` user-perceived characters. */
function countText(text: string): JsonObject {
  return jsonObject({
    characters: [...text].length,
    graphemes: text.length <= GRAPHEME_CAP ? [...SEGMENTS.segment(text)].length : undefined,
    characters_without_spaces: [...text.replaceAll(/\s/g, '')].length,
    words: text.match(WORD)?.length ?? 0,
    lines: text === '' ? 0 : text.split(/\r?\n/).length,
    paragraphs: text.split(/\n\s*\n/).filter((part) => part.trim() !== '').length,
    sentences: sentences(text),
    bytes: Buffer.byteLength(text),
  });
}

/** Statistics that characterize a text. */
function summarizeText(text: string): Record<string, Json> {
  const all = (text.match(WORD) ?? []).map((word) => word.toLowerCase());
  const counts = new Map<string, number>();
  for (const word of all) if (!COMMON.has(word) && word.length > 1) counts.set(word, (counts.get(word) ?? 0) + 1);
  const frequent = [...counts].toSorted((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 10);
  const sentenceCount = sentences(text);
  return {
    ...countText(text),
    unique_words: new Set(all).size,
    average_word_length:
      all.length === 0 ? 0 : round(all.reduce((sum, word) => sum + [...word].length, 0) / all.length),
    average_sentence_words: sentenceCount === 0 ? 0 : round(all.length / sentenceCount),
    reading_time_seconds: Math.round((all.length / READING_SPEED) * 60),
    frequent_words: frequent.map(([word, count]) => ({ word, count })),
  };
}

/** Splits at single marks before a space; `[.!?]+` would scan a row of dots once for each dot. */
function sentences(text: string): number {
  if (text.trim() === '') return 0;
  return text.split(/[.!?。！？](?:\s|$)|\n\s*\n/).filter((part) => /[\p{L}\p{N}]/u.test(part)).length;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
