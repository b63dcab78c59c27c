import { describe, expect, it, test } from 'vitest';
import { isPlainId, markHidden, MAX_ID_LENGTH, shownLine, TextSearch } from './text.js';

describe('an id', () => {
  it.each(['ann', 'auth0|5f7c', 'ann@example.com', 'Zoë 😀', ' ', 'a'.repeat(MAX_ID_LENGTH)])('may be %j', (text) => {
    expect(isPlainId(text)).toBe(true);
  });

  it.each([
    undefined,
    null,
    7,
    '',
    'a'.repeat(MAX_ID_LENGTH + 1),
    'a\n',
    '\u0000',
    'a\u007f',
    '\u0085',
    'a\u2028b',
    '\ud83d',
  ])('may not be %j', (value) => {
    expect(isPlainId(value)).toBe(false);
  });
});

describe('hidden characters', () => {
  it.each([
    ['plain text,\n\twith lines', 'plain text,\n\twith lines', 0],
    ['pay \u202e001\u202c', 'pay ‹U+202E›001‹U+202C›', 2],
    ['zero\u200bwidth\u00ad', 'zero‹U+200B›width‹U+00AD›', 2],
    ['\u{e0041}tag \u0000 \u001b[2J \u2028', '‹U+E0041›tag ‹U+0000› ‹U+001B›[2J ‹U+2028›', 4],
  ])('of %j are code points', (text, marked, count) => {
    expect(markHidden(text)).toEqual({ text: marked, count });
  });
});

test('a line of foreign text has no hidden characters and no line breaks', () => {
  expect(shownLine('Agent \u202Eeno\u200b\r\nYou\tare \u2028root \ud83d\ude00')).toBe(
    'Agent ‹U+202E›eno‹U+200B›‹U+000D›‹U+000A›You‹U+0009›are ‹U+2028›root \ud83d\ude00',
  );
});

test('TextSearch finds what indexOf finds, for short and long texts', () => {
  let state = 5;
  const letter = () => 'ab'[(state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0) >>> 31] as string;
  for (let round = 0; round < 300; round += 1) {
    const text = Array.from({ length: 400 }, letter).join('');
    const at = round % 250;
    const wanted =
      round % 3 === 0
        ? text.slice(at, at + 1 + (round % 140))
        : Array.from({ length: 1 + (round % 90) }, letter).join('');
    const search = new TextSearch(wanted);
    for (const from of [0, 100, 399]) expect(search.next(text, from)).toBe(text.indexOf(wanted, from));
    expect(search.split(text)).toEqual(text.split(wanted));
    expect(search.split(text, 2).join(wanted)).toBe(text);
  }
});
