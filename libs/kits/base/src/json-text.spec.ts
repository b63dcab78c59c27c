import { describe, expect, test } from 'vitest';
import {
  bodyExcess,
  MAX_BODY_DEPTH,
  MAX_BODY_NAMES,
  MAX_BODY_NODES,
  MAX_RESULT_NAMES,
  MAX_RESULT_NODES,
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
