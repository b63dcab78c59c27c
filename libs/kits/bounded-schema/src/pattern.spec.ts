import { expect, test } from 'vitest';
import { boundedMatcher, PatternRefused } from './pattern.js';

const TEXTS = [
  '',
  'a',
  'ab',
  'ABC-12_x',
  'a.b@example.com',
  '2026-01-31',
  'Größe',
  '\u00a0',
  ' \t\n',
  'x\ny',
  'a\u2028b',
  'a\rb',
  '😀',
  '-]^\\',
  'foo/bar',
  'aXbXc',
  'K',
  '\ufeffz',
  '0'.repeat(40),
  'admin',
  'Abcdefg1',
];

/** Every construct that is translated, compared with the engine of the language on every text. */
const PATTERNS = [
  '^[a-z0-9-]{1,64}$',
  '.',
  '^.+$',
  '\\s',
  '\\S',
  '^[\\s\\S]$',
  '[^\\s]',
  '[^\\S\\n]',
  '\\d+|\\D',
  '^\\w+\\W',
  '\\bfoo\\b',
  'o\\B',
  '[\\w.+-]+@[\\w-]+\\.[\\w.]+',
  '^\\p{L}+$',
  '\\P{L}',
  '[\\p{Lu}\\d]',
  '\\p{Script=Latin}',
  '\\u00f6',
  '\\u{1F600}',
  '\\ud83d\\ude00',
  '\\x41',
  '[\\u0041-\\u0043]',
  '\\t|\\n|\\r|\\v|\\f|\\0',
  '\\cJ',
  '[\\b]',
  '[^]',
  '[]',
  '[-a]',
  '[a-]',
  '[\\]\\\\^-]',
  '\\/',
  '\\^|\\]|\\$',
  '(?:ab|a)(b?)$',
  '(?<year>\\d{4})-(\\d{2})',
  'a*?b',
  'a{2}|b{1,}|c{0,3}',
  'X{1,2}b',
  '^(?=.*\\d)(?=.*[a-z]).{8,}$',
  '^(?!admin$)\\w+$',
  '^(?!.*--)[a-z-]*(?<!-)$',
  '^(?!a)(?=.)',
  '(?<=a)b',
  '(?<!a)b',
  '^$',
  '^|b',
];

test.each(PATTERNS)('%s means what ECMA-262 says', (pattern) => {
  const linear = boundedMatcher(pattern, 'u');
  for (const text of TEXTS) expect([text, linear.test(text)]).toEqual([text, new RegExp(pattern, 'u').test(text)]);
});

test.each(['\\-', '[\\w-.]', '{', 'a{x', '\\_', '\\k', '\\p'])('%s, legal without the flag u alone', (pattern) => {
  const linear = boundedMatcher(pattern, 'u');
  for (const text of TEXTS) expect([text, linear.test(text)]).toEqual([text, new RegExp(pattern, '').test(text)]);
});

test('upper and lower case', () => {
  expect(boundedMatcher('^abc-[x-z]', 'iu').test('ABC-Y')).toBe(true);
  expect(boundedMatcher('^abc', 'u').test('ABC')).toBe(false);
});

test('random patterns mean what ECMA-262 says', () => {
  const random = seeded(7);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
  const atoms = ['a', 'b', '.', '[ab]', '[^a]', '\\w', '\\s', 'x', '\\b', '(?:a|b)', '(?:ab?)', '-'];
  const counts = ['', '', '', '*', '+', '?', '{2}', '{1,3}', '*?'];
  for (let round = 0; round < 800; round += 1) {
    let pattern = random() < 0.3 ? '^' : '';
    for (let part = 0; part < 4; part += 1) {
      const atom = pick(atoms);
      pattern += atom + (atom === '\\b' ? '' : pick(counts)) + (random() < 0.1 ? '|' : '');
    }
    if (random() < 0.3) pattern += '$';
    const native = new RegExp(pattern, 'u');
    const linear = boundedMatcher(pattern, 'u');
    for (let length = 0; length < 8; length += 1) {
      const text = Array.from({ length }, () => pick(['a', 'b', 'x', '-', ' ', '\n'])).join('');
      expect([pattern, text, linear.test(text)]).toEqual([pattern, text, native.test(text)]);
    }
  }
});

test.each([
  '(a)\\1',
  '(?<n>a)\\k<n>',
  'a(?=b)',
  '(?=.*\\d)x',
  '^(?:(?!--).)*$',
  '^(?:a?b?){0,1000}x4$',
  '(?:a|b)*a(?:a|b){900}[yz]',
  '((a{100}){100}){100}',
  'a{1,2000}',
])('%s is refused', (pattern) => {
  try {
    boundedMatcher(pattern, 'u');
  } catch (error) {
    expect(error instanceof PatternRefused || error instanceof SyntaxError).toBe(true);
    return;
  }
  throw new Error('accepted');
});

test('a text that is too long for its pattern does not match, the longest of a simple one does', () => {
  const slow = boundedMatcher('(?:[a-d]?[b-e]?){0,400}z', 'u');
  expect(slow.test(`${'abcde'.repeat(20)}z`)).toBe(true);
  expect(slow.test(`${'abcde'.repeat(2_000)}z`)).toBe(false);
  const base64 = boundedMatcher('^[A-Za-z0-9+/]*={0,2}$', 'u');
  expect(base64.test('QUJD'.repeat(1_000_000))).toBe(true);
});

function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7f_ff_ff_ff;
    return state / 0x7f_ff_ff_ff;
  };
}
