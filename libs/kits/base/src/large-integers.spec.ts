import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  asDoubles,
  inexactNumberMessage,
  mayBeInexact,
  parseExact,
  readJson,
  toExactJson,
  toInteger,
  toMarked,
  unmarked,
} from './json-text.js';

describe('numbers that a double cannot represent', () => {
  test.each<[string, unknown, string?]>([
    ['9007199254740993', 9007199254740993n],
    ['-9007199254740993', -9007199254740993n],
    ['{"a":[1,{"b":9007199254740993}]}', { a: [1, { b: 9007199254740993n }] }],
    ['[1,12345678901234567890]', [1, 12345678901234567890n]],
    ['{"id": 18446744073709551615 }', { id: 18446744073709551615n }],
    ['{"trace":"b9007199254740993c","id":\n9007199254740993}', { trace: 'b9007199254740993c', id: 9007199254740993n }],
    ['9007199254740993.0', 9007199254740993n],
    ['["\\\\",9007199254740993]', ['\\', 9007199254740993n]],
    ['["\\"",9007199254740993]', ['"', 9007199254740993n]],
    [
      '{"__proto__":9007199254740993}',
      JSON.parse('{"__proto__":1}', (key, value) => (key ? 9007199254740993n : value)),
    ],
    // A double would write them with an exponent.
    ['1000000000000000000000', 1000000000000000000000n],
    // Strings, because not even BigInt or no reader has them.
    ['{"x":1e400}', { x: '1e400' }, '1e400'],
    ['[-1E+999,9007199254740993]', ['-1E+999', 9007199254740993n], '-1E+999'],
    [`[${'9'.repeat(400)}]`, ['9'.repeat(400)], '9'.repeat(400)],
    // Numbers: a double writes the same digits, fractions, a large exponent that is in range.
    ['9007199254740992', 9007199254740992],
    ['12345678901234567000', 12345678901234567000],
    ['0.1234567890123456789', 0.12345678901234568],
    ['1e308', 1e308],
    ['1e-400', 0],
    // Strings that look like them.
    ['"9007199254740993"', '9007199254740993'],
    ['{"9007199254740993":"1e999"}', { '9007199254740993': '1e999' }],
    ['["a\\"9007199254740993"]', ['a"9007199254740993']],
  ])('%s is read as %s', (json, value, inexact) => {
    const parsed = parseExact(json);
    expect(parsed.value).toEqual(value);
    expect(parsed.inexact).toBe(inexact);
    // The padding makes it long enough to be counted first.
    for (const padded of [json, `${' '.repeat(1_000)}${json}`]) {
      const reading = readJson(Buffer.from(padded));
      expect(reading.fault).toBe(inexact === undefined ? undefined : 'number');
      expect(reading.value).toEqual(value);
    }
  });

  test('are not looked for behind ids that have as many digits', () => {
    expect(mayBeInexact('{"trace_id":"b16dce56fd1041109932567354133f7c","share":0.30000000000000004}')).toBe(false);
    expect(mayBeInexact('{"trace_id":"b16dce56fd1041109932567354133f7c","id":-9007199254740993}')).toBe(true);
  });

  test('are not read from text that is not JSON', () => {
    expect(() => parseExact('{"id":9007199254740993')).toThrow(SyntaxError);
  });

  test('are written as digits, and as strings by JSON.stringify', () => {
    const value = { id: 9007199254740993n, ids: [-9007199254740993n, 1], text: '9007199254740993' };
    expect(toExactJson(value)).toBe('{"id":9007199254740993,"ids":[-9007199254740993,1],"text":"9007199254740993"}');
    expect(JSON.stringify(value)).toBe(
      '{"id":"9007199254740993","ids":["-9007199254740993",1],"text":"9007199254740993"}',
    );
    expect(toExactJson({ id: 1n }, 2)).toBe('{\n  "id": 1\n}');
  });

  test('pass a library that writes JSON', () => {
    const value = { id: 9007199254740993n, text: 'a' };
    expect(unmarked(JSON.stringify(toMarked(value)))).toBe('{"id":9007199254740993,"text":"a"}');
  });

  test('are seen as doubles by validators; other values are not copied', () => {
    expect(asDoubles({ a: [9007199254740993n, null], b: 'x' })).toEqual({ a: [9007199254740992, null], b: 'x' });
    const plain = { a: [1, null, { b: 'x' }] };
    expect(asDoubles(plain)).toBe(plain);
  });

  test.each([
    ['12', 12],
    ['+12', 12],
    ['-0', 0],
    ['9007199254740993', 9007199254740993n],
    ['009007199254740993', 9007199254740993n],
    ['9007199254740994', 9007199254740994],
    ['1e3', undefined],
    ['1.5', undefined],
    ['9'.repeat(400), undefined],
    ['', undefined],
    ['0x10', undefined],
  ])('the integer in %s is %s', (text, integer) => {
    const read = toInteger(text);
    if (integer === 0) expect(read === 0).toBe(true);
    else expect(read).toBe(integer);
  });

  test('are read at any depth, and from a number of any length in linear time', () => {
    const deep = (number: string) => '['.repeat(100_000) + number + ']'.repeat(100_000);
    let { value } = parseExact(deep('9007199254740993'));
    while (Array.isArray(value)) value = value[0] ?? null;
    expect(value).toBe(9007199254740993n);
    const zeros = '0'.repeat(8_000_000);
    for (const literal of [`1${zeros}`, `1.${zeros}e400`, `1e${zeros}400`])
      expect(parseExact(`[${literal}]`).inexact === literal).toBe(true);
    expect(parseExact(`[9007199254740993.${zeros}]`).value).toEqual([9007199254740992]);
    expect(toInteger(`9${zeros}`)).toBeUndefined();
  });

  test('are truncated in messages', () => {
    expect(inexactNumberMessage('9'.repeat(400)).length).toBeLessThan(120);
  });

  test('property: every integer is read and written with its digits', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }), fc.string(), (integer, text) => {
        const json = `{"text":${JSON.stringify(text)},"n":${integer}}`;
        const { value } = parseExact<{ text: string; n: number | bigint }>(json);
        expect(value.text).toBe(text);
        expect(BigInt(value.n)).toBe(integer);
        expect(toExactJson(value)).toBe(json);
      }),
      { numRuns: 2_000 },
    );
  });

  test('property: output of JSON.stringify is read as JSON.parse reads it', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.double({ noNaN: true }), (value, number) => {
        const json = JSON.stringify([value, Number.isFinite(number) ? number : 0]);
        expect(parseExact(json)).toEqual({ value: JSON.parse(json) });
        expect(toExactJson(JSON.parse(json))).toBe(json);
      }),
      { numRuns: 2_000 },
    );
  });
});
