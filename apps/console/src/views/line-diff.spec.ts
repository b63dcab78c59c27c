import fc from 'fast-check';
import { expect, it } from 'vitest';
import { lineDiff, visible } from './line-diff.js';

it('marks removed and added lines', () => {
  expect(lineDiff('a\nb\nc', 'a\nx\nc\nd')).toEqual([
    { change: 'same', text: 'a' },
    { change: 'gone', text: 'b' },
    { change: 'new', text: 'x' },
    { change: 'same', text: 'c' },
    { change: 'new', text: 'd' },
  ]);
});

it('contains both texts completely', () => {
  const text = fc.array(fc.constantFrom('a', 'b', 'c', ''), { maxLength: 12 }).map((lines) => lines.join('\n'));
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = lineDiff(before, after);
      const without = (change: string) => lines.filter((line) => line.change !== change).map((line) => line.text);
      expect(without('new').join('\n')).toBe(before);
      expect(without('gone').join('\n')).toBe(after);
    }),
  );
});

it('makes invisible characters visible', () => {
  expect(visible('a\u200Bb\u{E0041}')).toBe('a‹U+200B›b‹U+E0041›');
});
