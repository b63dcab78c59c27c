import { describe, expect, it } from 'vitest';
import { RegoError } from '../rego-error.js';
import { findAll, splitText } from './find-text.js';
import { STRING_BUILTINS } from './strings.js';

/** Texts of two letters, so that parts overlap often; long enough for the linear search. */
function texts(seed: number, length: number): string {
  let state = seed;
  let text = '';
  while (text.length < length) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    text += state & 0x10000 ? 'a' : state & 0x60000 ? 'b' : '😀';
  }
  return text;
}

function naive(text: string, part: string, overlapping: boolean): number[] {
  const found: number[] = [];
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + (overlapping ? 1 : part.length)))
    found.push(at);
  return found;
}

describe('searching for a text', () => {
  it.each([1, 2, 3, 4, 5])('finds what indexOf finds, with both algorithms (seed %i)', (seed) => {
    const text = texts(seed, 400);
    const long = text.repeat(500);
    for (const part of [text.slice(3, 4), text.slice(10, 13), 'ab', 'aa', `${text}${text}`, `${text}x`, 'zz']) {
      for (const overlapping of [false, true]) {
        expect(findAll(text, part, { overlapping })).toEqual(naive(text, part, overlapping));
        expect(findAll(long, part, { overlapping })).toEqual(naive(long, part, overlapping));
      }
      expect(splitText(long, part)).toEqual(long.split(part));
    }
    expect(findAll(long, 'a', { limit: 3 })).toHaveLength(3);
  });

  it('stays linear when a long part almost matches everywhere', () => {
    const text = 'a'.repeat(1_000_000);
    const part = `${'a'.repeat(500_000)}b`;
    const from = performance.now();
    expect(findAll(text, part)).toEqual([]);
    expect(performance.now() - from).toBeLessThan(20_000);
  });
});

describe('replacing', () => {
  const limited = (steps: number) => ({
    nowMs: 0,
    spend: (units: number) => {
      steps -= units;
      if (steps < 0) throw new RegoError('limit', 'the decision takes too many steps');
    },
  });

  it('ends with the limit of the evaluation before a result of gigabytes is made', () => {
    const args = ['a'.repeat(100_000), 'a', 'b'.repeat(100_000)];
    expect(() => STRING_BUILTINS['replace']!.run(args, limited(1_000_000))).toThrow('too many steps');
    expect(STRING_BUILTINS['replace']!.run(['a-b-c', '-', '+'], limited(10))).toBe('a+b+c');
    expect(STRING_BUILTINS['replace']!.run(['ab', '', '-'], limited(10))).toBe('-a-b-');
  });
});
