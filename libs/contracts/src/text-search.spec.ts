import { expect, test } from 'vitest';
import { TextSearch } from './text-search.js';

test('finds what indexOf finds, short and long', () => {
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
