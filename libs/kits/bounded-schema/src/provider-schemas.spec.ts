/** Schemas for model providers: examples, and random schemas against the rules that the providers publish. */
import type { Json, JsonObject } from '@toolfleet/base';
import { anthropicFaults, geminiFaults, strictFaults } from '@toolfleet/testing/provider-rules';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { plainName, toAnthropicSchema } from './anthropic-schema.js';
import { toGeminiSchema } from './gemini-schema.js';
import { inlineDefinitions } from './inline-definitions.js';
import { toStrictSchema } from './strict-schema.js';

/** An object schema with one property. */
const withProperty = (property: Json, required: string[] = ['x']): JsonObject => ({
  type: 'object',
  properties: { x: property },
  required,
});

describe('toAnthropicSchema', () => {
  it('leaves a plain schema unchanged', () => {
    const schema = withProperty({ type: 'string' });
    expect(toAnthropicSchema(schema)).toBe(schema);
  });

  it('lists arguments under plain names that name the original', () => {
    const schema: JsonObject = {
      type: 'object',
      properties: { 'filter[id]': { type: 'integer', description: 'Which' }, $top: { type: 'integer' }, a: true },
      required: ['filter[id]', 'a'],
    };
    expect(toAnthropicSchema(schema)).toEqual({
      type: 'object',
      properties: {
        filter_id__665d001d: { type: 'integer', description: 'filter[id]: Which' },
        [plainName('$top')]: { type: 'integer', description: '$top' },
        a: true,
      },
      required: ['filter_id__665d001d', 'a'],
    });
    expect(plainName('x'.repeat(75))).toMatch(/^x{55}_[0-9a-f]{8}$/);
  });

  it('makes one object of unions, parts and references at the top', () => {
    const schema: JsonObject = {
      description: 'A place',
      allOf: [{ $ref: '#/$defs/Named' }],
      oneOf: [
        { properties: { at: { type: 'string' }, zoom: { type: 'integer' } }, required: ['at', 'zoom'] },
        { anyOf: [{ properties: { at: { type: 'integer' } }, required: ['at'] }, { $ref: '#/$defs/Loop' }] },
      ],
      $defs: {
        Named: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
        Loop: { $ref: '#/$defs/Loop' },
      },
    };
    expect(toAnthropicSchema(schema)).toEqual({
      type: 'object',
      description: 'A place',
      properties: {
        name: { type: 'string' },
        at: { anyOf: [{ type: 'string' }, { type: 'integer' }] },
        zoom: { type: 'integer' },
      },
      required: ['name'],
      $defs: schema.$defs,
    });
  });
});

describe('toGeminiSchema', () => {
  it.each<[string, Json, Json]>([
    ['a type or null', { type: ['string', 'null'], minLength: 1 }, { type: 'string', minLength: 1, nullable: true }],
    [
      'several types, each with its own keywords',
      { type: ['string', 'integer'], description: 'd', minLength: 1, minimum: 2 },
      {
        anyOf: [
          { type: 'string', description: 'd', minLength: 1 },
          { type: 'integer', description: 'd', minimum: 2 },
        ],
      },
    ],
    [
      'a union with a description',
      { description: 'd', oneOf: [{ const: 'a' }, { type: 'boolean' }, { type: 'null' }] },
      {
        anyOf: [
          { type: 'string', description: 'd', format: 'enum', enum: ['a'], nullable: true },
          { type: 'boolean', description: 'd', nullable: true },
        ],
      },
    ],
    ['a union of one', { anyOf: [{ type: 'string' }, { type: 'null' }] }, { type: 'string', nullable: true }],
    ['numbers to choose from', { enum: [1, 2] }, { type: 'number', description: 'One of: 1, 2' }],
    ['an unknown format', { type: 'string', format: 'uuid' }, { type: 'string' }],
    ['an array of anything', { type: 'array' }, { type: 'array', items: { type: 'string' } }],
    [
      'a tuple',
      { type: 'array', prefixItems: [{ type: 'string' }, { type: 'integer' }] },
      { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'integer' }] } },
    ],
    ['free keys', { type: 'object', additionalProperties: { type: 'string' } }, { type: 'object' }],
    [
      'parts of one object',
      { allOf: [withProperty({ type: 'string' }), { properties: { y: { type: 'integer' } }, required: ['y', 'z'] }] },
      { type: 'object', properties: { x: { type: 'string' }, y: { type: 'integer' } }, required: ['x', 'y'] },
    ],
    [
      'an object that takes one of two properties',
      {
        type: 'object',
        properties: { x: { type: 'string' } },
        anyOf: [{ required: ['x'] }, { properties: { y: {} } }],
      },
      {
        type: 'object',
        properties: {
          x: { type: 'string' },
          y: {
            anyOf: [
              ...['string', 'number', 'boolean', 'object'].map((type) => ({ type })),
              { type: 'array', items: { type: 'string' } },
            ],
          },
        },
      },
    ],
  ])('%s', (_, schema, expected) => expect(toGeminiSchema(schema)).toEqual(expected));
});

describe('toStrictSchema', () => {
  it.each<[string, Json, Json]>([
    ['required', { type: 'string', minLength: 2, format: 'uuid' }, { type: 'string', format: 'uuid' }],
    ['a constant', { const: 'a' }, { enum: ['a'] }],
    ['a union', { oneOf: [{ type: 'string' }, { type: 'null' }] }, { anyOf: [{ type: 'string' }, { type: 'null' }] }],
  ])('keeps the meaning of a property: %s', (_, property, expected) => {
    expect(toStrictSchema(withProperty(property))?.['properties']).toEqual({ x: expected });
  });

  it.each<[string, Json, Json]>([
    ['a value', { type: 'string', enum: ['a'] }, { type: ['string', 'null'], enum: ['a', null] }],
    [
      'a union',
      { anyOf: [{ type: 'string' }, { type: 'integer' }], description: 'd' },
      { anyOf: [{ type: 'string' }, { type: 'integer' }, { type: 'null' }], description: 'd' },
    ],
    ['what may be null', { type: ['string', 'null'] }, { type: ['string', 'null'] }],
  ])('lets an optional argument be null: %s', (_, property, expected) => {
    expect(toStrictSchema(withProperty(property, []))).toEqual({
      type: 'object',
      properties: { x: expected },
      required: ['x'],
      additionalProperties: false,
    });
  });

  it('keeps references', () => {
    const schema = { ...withProperty({ $ref: '#/$defs/A' }, []), $defs: { A: { type: 'string' } } };
    expect(toStrictSchema(schema)).toMatchObject({
      properties: { x: { anyOf: [{ $ref: '#/$defs/A' }, { type: 'null' }] } },
      $defs: { A: { type: 'string' } },
    });
  });

  const deep = (levels: number): JsonObject => (levels === 0 ? { type: 'string' } : withProperty(deep(levels - 1)));
  it.each<[string, JsonObject]>([
    ['free keys', withProperty({ type: 'object', additionalProperties: { type: 'string' } })],
    ['an object without properties', withProperty({ type: 'object' })],
    ['any value', withProperty({ description: 'anything' })],
    ['an array of anything', withProperty({ type: 'array' })],
    ['an optional property below the first level', withProperty(withProperty({ type: 'string' }, []))],
    ['parts', withProperty({ allOf: [{ type: 'string' }] })],
    ['open arguments', { ...withProperty({ type: 'string' }), additionalProperties: true }],
    ['11 levels', deep(11)],
  ])('cannot express %s', (_, schema) => expect(toStrictSchema(schema)).toBeUndefined());
});

/** Random schemas of the keywords that tools use, well-formed or not. */
const { schema: anySchema } = fc.letrec<{ schema: JsonObject; map: JsonObject }>((tie) => ({
  map: fc.dictionary(fc.constantFrom('a', 'b', '__proto__', 'type'), tie('schema'), { maxKeys: 3 }),
  // Each level is rarer than the one above it.
  schema: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<JsonObject>({}, { type: 'string' }, { const: null }),
    fc.record(
      {
        type: fc.oneof(
          fc.constantFrom('string', 'number', 'integer', 'boolean', 'object', 'array', 'null'),
          fc.constant(['string', 'null']),
          fc.constant(['object', 'array']),
        ),
        description: fc.string(),
        format: fc.constantFrom('uuid', 'date-time', 'int32', 'float'),
        enum: fc.array(fc.oneof(fc.string(), fc.integer(), fc.constant(null)), { maxLength: 3 }),
        const: fc.oneof(fc.string(), fc.boolean()),
        default: fc.anything({ maxDepth: 0 }) as fc.Arbitrary<Json>,
        minimum: fc.integer(),
        exclusiveMinimum: fc.integer(),
        maxLength: fc.nat(),
        pattern: fc.constant('^a'),
        nullable: fc.boolean(),
        items: tie('schema'),
        prefixItems: fc.array(tie('schema'), { maxLength: 2 }),
        properties: tie('map'),
        required: fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 2 }),
        additionalProperties: fc.oneof(fc.boolean(), tie('schema')),
        anyOf: fc.array(tie('schema'), { maxLength: 3 }),
        oneOf: fc.array(tie('schema'), { maxLength: 2 }),
        allOf: fc.array(tie('schema'), { maxLength: 2 }),
        $ref: fc.constantFrom('#/$defs/a', '#'),
      },
      { requiredKeys: [] },
    ) as fc.Arbitrary<JsonObject>,
  ),
}));

it('random schemas become schemas that the providers accept, or are omitted', () => {
  fc.assert(
    fc.property(anySchema, (schema) => {
      const root = { ...schema, type: 'object' };
      expect(geminiFaults(toGeminiSchema(inlineDefinitions(root)))).toEqual([]);
      expect(anthropicFaults(toAnthropicSchema(root))).toEqual([]);
      const strict = toStrictSchema(root);
      if (strict) expect(strictFaults(strict)).toEqual([]);
    }),
    { numRuns: 500 },
  );
});
