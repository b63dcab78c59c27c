import type { JsonObject } from '@toolfleet/contracts';
import { describe, expect, it } from 'vitest';
import { dropUncheckablePatterns } from './uncheckable-patterns.js';

const BAD = String.raw`^[\w]{1,2048}$`;
const bad = { type: 'string', pattern: BAD };
const good = { type: 'string', pattern: '^[a-z]+$' };
const convert = (schema: JsonObject) => {
  const dropped = new Set<string>();
  return { schema: dropUncheckablePatterns(schema, dropped), dropped: [...dropped] };
};

describe('a schema with a pattern that cannot be checked in bounded time', () => {
  it.each<[string, JsonObject, JsonObject]>([
    ['in a property', { properties: { a: bad, b: good } }, { properties: { a: { type: 'string' }, b: good } }],
    ['in an array', { items: bad }, { items: { type: 'string' } }],
    ['in allOf', { allOf: [bad, good] }, { allOf: [{ type: 'string' }, good] }],
    ['in a definition', { $defs: { a: bad } }, { $defs: { a: { type: 'string' } } }],
    ['that is not a regular expression', { pattern: '(' }, {}],
    ['under not', { type: 'string', not: bad }, { type: 'string' }],
    [
      'under if',
      { if: { properties: { a: bad } }, then: { required: ['b'] }, else: false, type: 'object' },
      { type: 'object' },
    ],
    ['in oneOf', { oneOf: [bad, { type: 'integer' }] }, { anyOf: [{ type: 'string' }, { type: 'integer' }] }],
    [
      'as a property pattern',
      { patternProperties: { [BAD]: good, '^x': good }, additionalProperties: false },
      { patternProperties: { '^x': good } },
    ],
  ])('loses the pattern and accepts no less: %s', (_place, schema, expected) => {
    const found = convert(schema);
    expect(found.schema).toEqual(expected);
    expect(found.dropped).toHaveLength(1);
  });

  it('keeps everything else, such as a property or a constant called pattern', () => {
    const schema = {
      properties: { pattern: { const: { pattern: BAD } } },
      enum: [{ pattern: BAD }],
      default: { pattern: BAD },
      examples: [{ properties: { a: bad } }],
    };
    const found = convert(schema);
    expect(found.schema).toBe(schema);
    expect(found.dropped).toEqual([]);
  });
});
