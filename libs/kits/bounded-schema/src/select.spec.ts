import type { Json } from '@toolfleet/base';
import { describe, expect, it } from 'vitest';
import { describeShape } from './json-shape.js';
import { evaluateSelect, readSelect, SelectRefused } from './select.js';

const BOOKS: Json = {
  books: [
    { title: 'A', price: 8 },
    { title: 'B', price: 12, tags: ['x'] },
  ],
  total: 2,
};

describe('select', () => {
  it.each([
    ['$.books[?@.price > 10].title', 'jsonpath', ['B']],
    ['$.none', 'jsonpath', []],
    [' $..tags[0]', 'jsonpath', ['x']],
    ["$.books[?match(@.title, '[A-Z]')].price", 'jsonpath', [8, 12]],
    ['books[?price > `10`].title', 'jmespath', ['B']],
    ['{n: length(books), first: books[0].title}', 'jmespath', { n: 2, first: 'A' }],
    ['none.deeper', 'jmespath', null],
  ])('%s', (expression, language, expected) => {
    const select = readSelect(expression);
    expect(select.language).toBe(language);
    expect(evaluateSelect(select, BOOKS)).toEqual(expected);
  });

  it.each([
    ['$.a b', /"b" found at position 4$/, 4],
    ['$[', /end of input found at position 2$/, 2],
    ['$.a[?foo(@)]', /unknown function foo\(\)/, 5],
    ['$.a[?length(@, 1) > 2]', /takes 1 argument/, 5],
    ["$.a[?search(@.b, '(x)\\\\1')]", /refused/, undefined],
    ['a b', /value: b at position 2$/, 2],
    ['items[?price >', /EOF.* at position 14$/, 14],
    ['a.b[0]) | c', /position 6$/, 6],
    ['a."b', /position 2$/, 2],
    ['"a".b["c', /position 6$/, 6],
    [`"a".b.'c'.#`, /position 10$/, 10],
    [`${'a.'.repeat(400)}b.9`, /position 802$/, 802],
    ['nope(@)', /unknown function nope\(\)/, 0],
    [`${'['.repeat(13)}a${']'.repeat(13)}`, /deeper than 12 levels at position 12$/, 12],
    ['a'.repeat(1_001), /longer than 1000/, undefined],
  ])('refuses %s', (expression, message, position) => {
    const refused = (() => {
      try {
        return readSelect(expression);
      } catch (error) {
        return error;
      }
    })();
    expect(refused).toBeInstanceOf(SelectRefused);
    expect((refused as SelectRefused).message).toMatch(message);
    expect((refused as SelectRefused).position).toBe(position);
  });

  it('finds the position of an error in a long expression in milliseconds, and remembers a refusal', () => {
    const invalid = (index: number): string => `{${'a:b,'.repeat(240)}${index}`;
    const refuse = (count: number) => {
      const from = process.threadCpuUsage();
      for (let index = 0; index < 60; index += 1)
        expect(() => readSelect(invalid(index % count))).toThrow(SelectRefused);
      const { user, system } = process.threadCpuUsage(from);
      return (user + system) / 1_000;
    };
    expect(refuse(60)).toBeLessThan(1_000); // compiling every prefix took 3 s
    expect(refuse(60)).toBeLessThan(100);
  });

  it('parses the worst expression of the allowed nesting in milliseconds', () => {
    const nested = `$[?${'count(@[?'.repeat(5)}@.a${'])'.repeat(5)} > 0]`;
    expect(() => readSelect(nested)).not.toThrow();
    expect(() => readSelect(`$[?${'count(@[?'.repeat(7)}@.a${'])'.repeat(7)} > 0]`)).toThrow(/deeper/);
  });
});

it('describes the shape of a value', () => {
  expect(describeShape({ data: [{ id: 1, 'a-b': null }, {}], next: 'x', none: [] })).toBe(
    '{data: [2 × {id: number, "a-b": null}], next: string, none: []}',
  );
  expect(describeShape({ a: { b: { c: { d: { e: 1 } } } } })).toBe('{a: {b: {c: {d: {…}}}}}');
  const wide = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`key_${index}`, index]));
  expect(describeShape(wide)).toMatch(/key_19: number, … 4980 more keys}$/);
});
