import { compareText, getField, isArray, objectKeys, type RegoValue } from '../value.js';
import { arrayAt, type Builtin, integerAt, numberAt, objectAt, textAt, textsAt, valueFault } from './operands.js';

import { RegoError } from '../rego-error.js';
import { findAll, joinTexts, splitText } from './find-text.js';
import { sprintf } from './sprintf.js';

const onText = (run: (text: string) => RegoValue): Builtin => ({ arity: 1, run: (args) => run(textAt(args, 0)) });
const onTexts = (run: (text: string, other: string) => RegoValue): Builtin => ({
  arity: 2,
  run: (args) => run(textAt(args, 0), textAt(args, 1)),
});

/** Removes characters of `set` at the given ends. */
function trim(text: string, set: string, left: boolean, right: boolean): string {
  const cut = new Set(set);
  const chars = [...text];
  const from = left ? chars.findIndex((char) => !cut.has(char)) : 0;
  const to = right ? chars.findLastIndex((char) => !cut.has(char)) + 1 : chars.length;
  return from < 0 ? '' : chars.slice(from, to).join('');
}

// eslint-disable-next-line no-control-regex -- the ASCII range begins with the control characters
const isAscii = (text: string): boolean => /^[\u0000-\u007f]*$/.test(text);

/** Case by character, as Go maps it: one character stays one (`ß` has no upper case, `İ` becomes `i`). */
function simpleCase(text: string, map: (char: string) => string): string {
  // the whole text at once where the two mappings cannot differ: arguments may be megabytes
  if (isAscii(text)) return map(text);
  let result = '';
  for (const char of text) {
    const mapped = map(char);
    result += [...mapped].length === 1 ? mapped : char;
  }
  return result;
}

const isSpace = (char: string): boolean => char === '\u0085' || (char !== '\ufeff' && /\s/.test(char));

/** Unicode's White_Space: JavaScript's without U+FEFF and with U+0085. */
function trimSpace(text: string): string {
  let from = 0;
  let to = text.length;
  while (from < to && isSpace(text[from]!)) from++;
  while (to > from && isSpace(text[to - 1]!)) to--;
  return text.slice(from, to);
}

/** Offsets count characters, not UTF-16 units. */
const substring: Builtin = {
  arity: 3,
  run: (args) => {
    const chars = [...textAt(args, 0)];
    const offset = integerAt(args, 1);
    const length = integerAt(args, 2);
    if (offset < 0) throw valueFault('negative offset');
    return chars.slice(offset, length < 0 ? undefined : offset + length).join('');
  },
};

/** Places in characters. The text is gone through once: places before it are counted on the way. */
function indexes(text: string, search: string): number[] {
  if (search === '') throw valueFault('empty search character');
  const found: number[] = [];
  let chars = 0;
  let counted = 0;
  for (const at of findAll(text, search, { overlapping: true })) {
    for (; counted < at; counted += text.codePointAt(counted)! > 0xff_ff ? 2 : 1) chars += 1;
    if (counted === at) found.push(chars); // else inside a character of two units
  }
  return found;
}

const anyMatch = (matches: (text: string, affix: string) => boolean): Builtin => ({
  arity: 2,
  run: (args) => {
    const all = [0, 1].map((i) => (typeof args[i] === 'string' ? [args[i]] : textsAt(args, i)));
    return all[0]!.some((text) => all[1]!.some((affix) => matches(text, affix)));
  },
});

const formatInt: Builtin = {
  arity: 2,
  run: (args) => {
    const n = numberAt(args, 0);
    const base = numberAt(args, 1);
    if (![2, 8, 10, 16].includes(Number(base)))
      throw new RegoError('type_error', 'operand 2 must be one of {2, 8, 10, 16}');
    return (typeof n === 'bigint' ? n : Math.trunc(n)).toString(Number(base));
  },
};

/** Characters that are compared in one step of the evaluation. */
const COMPARED_PER_STEP = 100;

/** Longest match first in the order of the keys, left to right, as Go's strings.Replacer does. */
const replaceAllOf: Builtin = {
  arity: 2,
  run: (args, context) => {
    const pairs = objectAt(args, 0);
    const olds = objectKeys(pairs).map((key) => textAt([key], 0));
    const news = olds.map((key) => textAt([getField(pairs, key)!], 0));
    if (olds.includes('')) throw valueFault('empty text to replace');
    const text = textAt(args, 1);
    let compared = olds.length;
    for (const old of olds) compared += old.length;
    const parts: string[] = [];
    for (let at = 0; at < text.length;) {
      if (parts.length % COMPARED_PER_STEP === 0) context.spend(compared);
      const hit = olds.findIndex((old) => text.startsWith(old, at));
      parts.push(hit < 0 ? text[at]! : news[hit]!);
      at += hit < 0 ? 1 : olds[hit]!.length;
    }
    return joinTexts(parts, '', context);
  },
};

/** Functions on strings. Lengths and offsets are in characters (code points). */
export const STRING_BUILTINS: Record<string, Builtin> = {
  concat: {
    arity: 2,
    run: (args) =>
      (isArray(args[1]!) ? textsAt(args, 1) : textsAt(args, 1).toSorted(compareText)).join(textAt(args, 0)),
  },
  contains: onTexts((text, part) => part === '' || findAll(text, part, { limit: 1 }).length > 0),
  startswith: onTexts((text, part) => text.startsWith(part)),
  endswith: onTexts((text, part) => text.endsWith(part)),
  lower: onText((text) => simpleCase(text, (char) => (char === '\u0130' ? 'i' : char.toLowerCase()))),
  upper: onText((text) => simpleCase(text, (char) => char.toUpperCase())),
  split: onTexts((text, separator) => (separator === '' ? [...text] : splitText(text, separator))),
  replace: {
    arity: 3,
    run: (args, context) => {
      const [text, from, to] = [textAt(args, 0), textAt(args, 1), textAt(args, 2)];
      return joinTexts(from === '' ? ['', ...text, ''] : splitText(text, from), to, context);
    },
  },
  'strings.replace_n': replaceAllOf,
  substring,
  indexof: onTexts((text, search) => indexes(text, search)[0] ?? -1),
  indexof_n: onTexts((text, search) => indexes(text, search)),
  trim: onTexts((text, set) => trim(text, set, true, true)),
  trim_left: onTexts((text, set) => trim(text, set, true, false)),
  trim_right: onTexts((text, set) => trim(text, set, false, true)),
  trim_prefix: onTexts((text, prefix) => (text.startsWith(prefix) ? text.slice(prefix.length) : text)),
  trim_suffix: onTexts((text, suffix) =>
    suffix !== '' && text.endsWith(suffix) ? text.slice(0, -suffix.length) : text,
  ),
  trim_space: onText((text) => trimSpace(text)),
  'strings.reverse': onText((text) => [...text].toReversed().join('')),
  'strings.count': onTexts((text, part) => (part === '' ? [...text].length + 1 : findAll(text, part).length)),
  'strings.any_prefix_match': anyMatch((text, prefix) => text.startsWith(prefix)),
  'strings.any_suffix_match': anyMatch((text, suffix) => text.endsWith(suffix)),
  format_int: formatInt,
  sprintf: {
    arity: 2,
    run: (args) => {
      const format = textAt(args, 0);
      return sprintf(format, arrayAt(args, 1));
    },
  },
};
