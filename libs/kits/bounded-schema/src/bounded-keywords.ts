import { _, type Ajv, type KeywordCxt } from 'ajv';
import type { Json } from '@toolfleet/base';
import { canonicalJson } from './canonical.js';
import { chargeParts, chargeSteps } from './step-budget.js';

/** Maximum length of a text that can be a URL (RFC 9110 section 4.1 recommends support for 8,000 octets). */
const MAX_URL_CHARS = 8_192;

/**
 * Maximum length of a text by format. ajv splits a short one before it checks the parts, and tests the others with patterns that repeat
 * groups: 0.2 to 0.8 s for 4 MB.
 */
const MAX_CHARS: Record<string, number> = Object.fromEntries([
  ...['date', 'time', 'date-time', 'iso-time', 'iso-date-time', 'duration'].map((name) => [name, 1_024]),
  ...['email', 'hostname', 'ipv4', 'ipv6', 'uuid'].map((name) => [name, 1_024]),
  ...['uri-template', 'regex', 'json-pointer', 'json-pointer-uri-fragment', 'relative-json-pointer'].map((name) => [
    name,
    MAX_URL_CHARS,
  ]),
]);
/** Characters compared with a table in one step. */
const STEP_CHARS_SHIFT = 6;

/** The ASCII characters that match a class, as a table by code. */
const tableOf = (characters: RegExp): boolean[] =>
  Array.from({ length: 128 }, (_character, code) => characters.test(String.fromCharCode(code)));
const BASE64 = tableOf(/[A-Za-z0-9+/]/);
const URI = tableOf(/[A-Za-z0-9\-._~:/?#[\]@!$&'()*+,;=%]/);

type Compare = (a: string, b: string) => number | undefined;

/**
 * Replaces keywords that take quadratic time or worse on hostile values: the `url` format with a pattern that backtracks (100 s on
 * 100,000 characters), and `uniqueItems` that compares every pair of objects. `byte`, and `uri` on long texts, read each character
 * once: their patterns took 2 s for 4 MB. `minLength` and `maxLength` read no more of a
 * text than their limit asks for: counting a megabyte took 10 ms for each of them.
 */
export function boundKeywords(ajv: Ajv): void {
  ajv.addFormat('url', {
    type: 'string',
    validate: (text: string) =>
      text.length <= MAX_URL_CHARS && /^(?:https?|ftp):\/\/\S+$/i.test(text) && URL.canParse(text),
  });
  ajv.addFormat('byte', { type: 'string', validate: isBase64 });
  for (const [name, start] of [
    ['uri', /^[a-z][a-z0-9+.-]{0,30}:/i],
    ['uri-reference', /^/],
  ] as const) {
    const test = toTest(ajv.formats[name]);
    // A `data:` URL may have megabytes.
    const validate = (text: string): boolean =>
      text.length <= MAX_URL_CHARS ? test!(text) : start.test(text) && lengthIn(URI, text) === text.length;
    ajv.addFormat(name, { type: 'string', validate });
  }
  for (const [name, most] of Object.entries(MAX_CHARS)) {
    const format = ajv.formats[name];
    const test = toTest(format);
    if (!test) continue;
    const validate = (text: string): boolean => text.length <= most && test(text);
    // `formatMinimum` and similar keywords compare.
    const compare = typeof format === 'object' && 'compare' in format ? (format.compare as Compare) : undefined;
    ajv.addFormat(name, compare ? { type: 'string', validate, compare } : { type: 'string', validate });
  }
  for (const [keyword, fails] of [
    ['minLength', isShorter],
    ['maxLength', isLonger],
  ] as const) {
    const rule = ajv.RULES.all[keyword];
    if (typeof rule !== 'object') continue;
    const code = (cxt: KeywordCxt): void =>
      cxt.fail(_`${cxt.gen.scopeValue('func', { ref: fails })}(${cxt.data}, ${cxt.schemaCode})`);
    rule.definition = { ...rule.definition, code };
  }
  ajv.removeKeyword('uniqueItems');
  ajv.addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    errors: false,
    validate: (wanted: boolean, items: Json[]) => !wanted || areUnique(items),
  });
}

/** Base64 with padding (RFC 4648, section 4), also in lines (RFC 2045). */
function isBase64(lines: string): boolean {
  const text = lines.includes('\n') ? lines.replaceAll(/\r?\n/g, '') : lines;
  return text.length % 4 === 0 && /^={0,2}$/.test(text.slice(lengthIn(BASE64, text)));
}

/** How many characters at the start of a text are in a table. Reads each once and charges for it. */
function lengthIn(table: readonly boolean[], text: string): number {
  chargeSteps(text.length >> STEP_CHARS_SHIFT);
  let at = 0;
  while (at < text.length && table[text.charCodeAt(at)] === true) at += 1;
  return at;
}

/** Whether a text has fewer characters (Unicode code points, of one or two UTF-16 units each) than `min`. */
const isShorter = (text: string, min: number): boolean =>
  text.length < min || (text.length < 2 * min && countCharacters(text) < min);

/** Whether a text has more characters than `max`. */
const isLonger = (text: string, max: number): boolean =>
  text.length > 2 * max || (text.length > max && countCharacters(text) > max);

function countCharacters(text: string): number {
  let count = 0;
  for (const _character of text) count += 1;
  return count;
}

/** Whether all items differ by value (JSON Schema: 1 equals 1.0, key order does not matter). */
function areUnique(items: readonly Json[]): boolean {
  const seen = new Set<string>();
  for (const item of items) {
    if (typeof item === 'object') chargeParts(item);
    else chargeSteps(1 + (typeof item === 'string' ? item.length >> 4 : 0));
    const text = canonicalJson(item);
    if (seen.has(text)) return false;
    seen.add(text);
  }
  return true;
}

/** Converts a format of ajv (a pattern, a function, or an object with one) to a function; undefined for number formats. */
function toTest(format: Ajv['formats'][string]): ((text: string) => boolean) | undefined {
  if (format instanceof RegExp) return (text) => format.test(text);
  if (typeof format === 'function') return (text) => format(text) === true;
  if (typeof format !== 'object' || format.type === 'number') return undefined;
  const { validate } = format;
  if (validate instanceof RegExp) return (text) => validate.test(text);
  return typeof validate === 'function' ? (text) => (validate as (text: string) => unknown)(text) === true : undefined;
}
