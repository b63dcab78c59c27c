import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  bodyExcess,
  inexactNumber,
  inexactNumberMessage,
  MAX_BODY_DEPTH,
  MAX_BODY_NAMES,
  MAX_BODY_NODES,
  parseExact,
  MAX_RESULT_NAMES,
  MAX_RESULT_NODES,
  readJson,
  resultExcess,
  shapeExcess,
  shapeOfText,
} from './json-text.js';

describe('bodies with too many names and values, or too deep', () => {
  const bytes = (value: unknown) => Buffer.from(JSON.stringify(value));
  const many = <T>(count: number, make: (index: number) => T): T[] =>
    Array.from({ length: count }, (_, index) => make(index));
  const nested = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels));

  test.each<[string, unknown, ReturnType<typeof bodyExcess>]>([
    ['numbers', many(MAX_BODY_NODES + 1, () => 12), 'nodes'],
    ['numbers within the limit', many(MAX_BODY_NODES - 1, () => 12), undefined],
    ['objects', many(MAX_BODY_NODES, () => ({})), 'nodes'],
    ['names', Object.fromEntries(many(MAX_BODY_NODES / 2, (index) => [`k${index}`, 1])), 'names'],
    ['one text of separators', ',:[{"\\'.repeat(1_000_000), undefined],
    ['a text that ends in backslashes, then numbers', ['\\\\', ...many(MAX_BODY_NODES, () => 12)], 'nodes'],
    ['different names', many(1.05 * MAX_BODY_NAMES, (index) => ({ [`k${index}`]: 1 })), 'names'],
    ['the same names', many(MAX_BODY_NODES / 10, () => ({ a: 1, b: 2 })), undefined],
    ['different names within the limit', many(MAX_BODY_NAMES, (index) => ({ [`k${index}`]: 1 })), undefined],
    ['levels', nested(MAX_BODY_DEPTH + 1), 'depth'],
    ['levels within the limit, twice', [nested(MAX_BODY_DEPTH - 1), nested(MAX_BODY_DEPTH - 1)], undefined],
    ['levels in a text', '['.repeat(10_000), undefined],
  ])('%s', (_, value, expected) => {
    expect(bodyExcess(bytes(value))).toBe(expected);
    expect(shapeExcess(shapeOfText(JSON.stringify(value)))).toBe(expected);
  });

  test.each<[string, unknown, string | undefined]>([
    ['values', many(MAX_RESULT_NODES, () => 1), 'names and values'],
    ['values within the limit', many(MAX_RESULT_NODES - 1, () => 1), undefined],
    [
      'different names',
      Object.fromEntries(many(1.2 * MAX_RESULT_NAMES, (index) => [`k${index}`, 1])),
      'different names',
    ],
    ['different names within the limit', many(MAX_RESULT_NAMES, (index) => ({ [`k${index}`]: 1 })), undefined],
    ['one text of separators', ',:[{'.repeat(1_000_000), undefined],
  ])('of a result: %s', (_, value, expected) => {
    const excess = resultExcess(bytes(value));
    if (expected === undefined) expect(excess).toBeUndefined();
    else expect(excess).toContain(expected);
  });

  test('text that is not JSON', () => {
    expect(bodyExcess(Buffer.from('"'.repeat(1_000_001)))).toBeUndefined();
    expect(bodyExcess(Buffer.from('['.repeat(1_000_000)))).toBe('nodes');
  });
});

describe('inexact numbers', () => {
  test.each([
    ['9007199254740993', '9007199254740993'],
    ['-9007199254740993', '-9007199254740993'],
    ['{"a":[1,{"b":9007199254740993}]}', '9007199254740993'],
    ['[1,12345678901234567890]', '12345678901234567890'],
    ['{"id": 18446744073709551615 }', '18446744073709551615'],
    ['9007199254740993.0', '9007199254740993.0'],
    ['{"x":1e400}', '1e400'],
    ['[-1E+999]', '-1E+999'],
    [`[${'9'.repeat(400)}]`, '9'.repeat(400)],
    ['"\\\\" ', undefined],
    ['["\\\\",9007199254740993]', '9007199254740993'],
    ['["\\"",9007199254740993]', '9007199254740993'],
    // Kept: a string, a double's own digits, a power of ten, fractions, a large exponent that is in range.
    ['"9007199254740993"', undefined],
    ['{"9007199254740993":"1e999"}', undefined],
    ['["a\\"9007199254740993"]', undefined],
    ['9007199254740992', undefined],
    ['12345678901234567000', undefined],
    ['10000000000000000000000', undefined],
    ['0.1234567890123456789', undefined],
    ['1e308', undefined],
    ['1e-400', undefined],
  ])('%s: %s', (json, literal) => {
    expect(inexactNumber(json)).toBe(literal);
  });

  test('become strings of their digits in parseExact', () => {
    const { value, asText } = parseExact('{"id":9007199254740993,"name":"9007199254740993","all":[1, -1e999 ,2]}');
    expect(value).toEqual({ id: '9007199254740993', name: '9007199254740993', all: [1, '-1e999', 2] });
    expect(asText).toBe(2);
    expect(parseExact('{"id":7}')).toEqual({ value: { id: 7 }, asText: 0 });
    expect(() => parseExact('{"id":9007199254740993')).toThrow(SyntaxError);
  });

  test('are truncated in messages', () => {
    expect(inexactNumberMessage('9'.repeat(400)).length).toBeLessThan(120);
  });

  test('property: every integer is exact or reported, and parseExact keeps its digits', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }), fc.string(), (integer, text) => {
        const json = JSON.stringify({ text, n: 0 }).replace(/0}$/, `${integer}}`);
        const kept = BigInt(JSON.parse(String(integer)) as number) === integer;
        const told = inexactNumber(json);
        if (told === undefined) expect(JSON.stringify(JSON.parse(json))).toContain(shortest(integer));
        else expect(told).toBe(String(integer));
        if (!kept && told === undefined) expect(String(integer)).toMatch(/0$/); // written as the double writes itself
        const value = parseExact(json).value as { text: string; n: number | string };
        expect(value.text).toBe(text);
        expect(String(value.n)).toBe(told ?? String(Number(integer)));
      }),
      { numRuns: 2_000 },
    );
  });

  test('property: readJson finds the same in texts that it scans', () => {
    const literal = fc.oneof(
      fc.bigInt({ min: -(10n ** 20n), max: 10n ** 20n }).map(String),
      fc.constantFrom('1e400', '-1E+999', '1e3', '0.1234567890123456789', '123456789012345', '9007199254740993.0'),
    );
    fc.assert(
      fc.property(fc.array(literal), fc.string(), (numbers, text) => {
        const json = `{"text":${JSON.stringify(text)},"padding":"${' '.repeat(1_000)}","numbers":[${numbers.join(' , ')}]}`;
        const reading = readJson(Buffer.from(json));
        expect(reading.fault).toBe(inexactNumber(json) === undefined ? undefined : 'number');
        expect(reading.value).toEqual(JSON.parse(json));
      }),
      { numRuns: 2_000 },
    );
  });

  test('property: output of JSON.stringify is always exact', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.double({ noNaN: true }), (value, number) => {
        const json = JSON.stringify([value, Number.isFinite(number) ? number : 0]);
        expect(inexactNumber(json)).toBeUndefined();
        expect(JSON.stringify(parseExact(json).value)).toBe(json);
      }),
      { numRuns: 2_000 },
    );
  });
});

/** The integer as a double writes itself. */
const shortest = (integer: bigint) => String(Number(integer));
