import { compileSchema } from '@toolfleet/bounded-schema';
import type { Json, JsonObject } from '@toolfleet/base';
import { describe, expect, it } from 'vitest';
import { parseSpec } from '../load/parse-spec.js';
import { convertDocument } from './convert-document.js';

/** The tool schema of one POST with a body of the schema. */
function convert(schema: Json, schemas: JsonObject = {}, openapi = '3.0.3') {
  const operation = { requestBody: { required: true, content: { 'application/json': { schema } } } };
  const text = JSON.stringify({ openapi, paths: { '/p': { post: operation } }, components: { schemas } });
  const { tools, findings } = convertDocument(parseSpec(text), { baseUrl: 'http://h.test' });
  const input = tools[0]!.inputSchema();
  compileSchema(input);
  const body = (input.properties as JsonObject).body as JsonObject;
  const check = (value: Json) => compileSchema(input).check({ body: value });
  return { body, input, check, warnings: findings.list().filter(({ pointer }) => pointer !== '/servers') };
}

describe('schemas of 3.0', () => {
  it.each([
    [
      { type: 'string', nullable: true, enum: ['a'] },
      { type: ['string', 'null'], enum: ['a', null] },
    ],
    [
      { nullable: true, description: 'd', allOf: [{ type: 'string' }] },
      { anyOf: [{ allOf: [{ type: 'string' }] }, { type: 'null' }], description: 'd' },
    ],
    [
      { type: 'number', minimum: 1, exclusiveMinimum: true },
      { type: 'number', exclusiveMinimum: 1 },
    ],
    [
      { type: 'number', maximum: 1, exclusiveMaximum: false },
      { type: 'number', maximum: 1 },
    ],
    [
      { type: 'string', example: 'x' },
      { type: 'string', examples: ['x'] },
    ],
    [
      { type: 'array', items: [{ type: 'string' }] },
      { type: 'array', prefixItems: [{ type: 'string' }] },
    ],
    [{ type: 'String' }, { type: 'string' }],
    [{ type: 'file' }, { type: 'string' }],
    [{ type: 'whatever', title: 't' }, { title: 't' }],
    [{ type: ['string', 'string'] }, { type: 'string' }],
    [
      { type: 'string', maxLength: '5', minLength: -1 },
      { type: 'string', maxLength: 5 },
    ],
    [{ type: 'number', multipleOf: 0 }, { type: 'number' }],
    [
      { type: 'string', pattern: '^[\\w\\-]+\\Z' },
      { type: 'string', pattern: '^[\\w\\x2d]+$' },
    ],
    [{ type: 'string', pattern: '(?i)abc' }, { type: 'string' }],
    [
      { type: 'string', pattern: '/^[a-z]+$/' },
      { type: 'string', pattern: '^[a-z]+$' },
    ],
    [{ type: 'string', pattern: '/^a$/i' }, { type: 'string' }],
    [{ type: 'string', pattern: '/a+/' }, { type: 'string' }],
    [{ type: 'object', required: true }, { type: 'object' }],
    [
      { type: 'object', required: ['a', 'a', 1] },
      { type: 'object', required: ['a'] },
    ],
    [{ enum: [1, 1, '1'] }, { enum: [1, '1'] }],
    [
      { type: 'string', enum: [1, true] },
      { type: 'string', enum: ['1', 'true'] },
    ],
    [{ type: 'array', default: 'a,b' }, { type: 'array' }],
    [
      { default: null, const: null },
      { default: null, const: null },
    ],
    [{ xml: {}, externalDocs: {}, discriminator: { propertyName: 'k' }, 'x-y': 1, title: 't' }, { title: 't' }],
    [
      {
        description: 'd',
        discriminator: { propertyName: 'k', mapping: { cat: '#/components/schemas/Cat', 2: 'Dog' } },
      },
      { description: 'd\nk chooses the form: "2": Dog, "cat": Cat' },
    ],
    [{ properties: { a: null } }, { properties: { a: {} } }],
  ])('%j', (schema, expected) => expect(convert(schema as Json).body).toEqual(expected));

  it('keeps a property called __proto__ and drops read-only ones with their requirement', () => {
    const source = JSON.parse(
      '{"properties":{"__proto__":{"type":"string"},"id":{"readOnly":true},"pw":{"writeOnly":true}},"required":["id","pw"]}',
    );
    const { body } = convert(source);
    expect(Object.keys(body.properties as JsonObject)).toEqual(['__proto__', 'pw']);
    expect(body.required).toEqual(['pw']);
  });

  it('does not ask for what another member of allOf made read-only', () => {
    const schemas = { Base: { properties: { id: { type: 'string', readOnly: true } }, required: ['id'] } };
    const { body } = convert({ allOf: [{ $ref: '#/components/schemas/Base' }], required: ['id'] }, schemas);
    expect(body.required).toBeUndefined();
  });

  it('turns circular and shared schemas into local definitions', () => {
    const schemas = { Node: { properties: { next: { $ref: '#/components/schemas/Node' } } } };
    const { body, input, check } = convert({ $ref: '#/components/schemas/Node' }, schemas);
    expect(body).toEqual({ $ref: '#/$defs/Node' });
    expect(input.$defs).toEqual({ Node: { properties: { next: { $ref: '#/$defs/Node' } } } });
    expect(check({ next: { next: {} } })).toBe(true);
  });

  it('makes a dangling reference an open schema with a warning', () => {
    const { body, warnings } = convert({ $ref: '#/components/schemas/Gone', nullable: true });
    expect(body).toEqual({});
    expect(warnings[0]).toMatchObject({ pointer: '/paths/~1p/post/requestBody/content/application~1json/schema/$ref' });
  });
});

describe('schemas of 3.1', () => {
  it('keeps siblings of a reference, and resolves anchors', () => {
    const schemas = { A: { $anchor: 'a', type: 'string' } };
    const { body } = convert({ $ref: '#a', maxLength: 3, description: 'd' }, schemas, '3.1.0');
    expect(body).toEqual({ $ref: '#/$defs/A', maxLength: 3, description: 'd' });
  });

  it('finds definitions pasted together with their schema', () => {
    const A = {
      $defs: { B: { items: { $ref: '#/$defs/C' } }, C: { type: 'string' } },
      properties: { b: { $ref: '#/$defs/B' } },
    };
    const { input } = convert({ $ref: '#/components/schemas/A' }, { A }, '3.1.0');
    expect(Object.keys(input.$defs as JsonObject).toSorted()).toEqual(['A', 'B', 'C']);
    expect((input.$defs as JsonObject).A).toEqual({ properties: { b: { $ref: '#/$defs/B' } } });
  });

  it('keeps boolean schemas, conditions and dependencies', () => {
    const schema = {
      if: { required: ['a'] },
      then: false,
      dependentRequired: { a: ['b', 'b'] },
      unevaluatedProperties: false,
    };
    expect(convert(schema, {}, '3.1.0').body).toEqual({ ...schema, dependentRequired: { a: ['b'] } });
  });
});

describe('alternatives', () => {
  const branch = (kind: string) => ({ required: ['kind'], properties: { kind: { const: kind } } });

  it('keeps oneOf where branches exclude each other and relaxes it where they overlap', () => {
    expect(convert({ oneOf: [branch('a'), branch('b')] }).body).toHaveProperty('oneOf');
    expect(convert({ oneOf: [{ type: 'string' }, { type: 'object' }] }).body).toHaveProperty('oneOf');
    const { body, check } = convert({ oneOf: [{ properties: { a: {} } }, { properties: { b: {} } }] });
    expect(body).toHaveProperty('anyOf');
    expect(check({ a: 1 })).toBe(true);
  });

  it('cuts rings of a base and its alternatives without losing properties', () => {
    const schemas: JsonObject = {
      Pet: {
        oneOf: [{ $ref: '#/components/schemas/Cat' }, { $ref: '#/components/schemas/Dog' }],
        required: ['name'],
        properties: { name: { type: 'string' } },
      },
      Cat: {
        allOf: [
          { $ref: '#/components/schemas/Pet' },
          { required: ['lives'], properties: { lives: { type: 'integer' } } },
        ],
      },
      Dog: {
        allOf: [
          { $ref: '#/components/schemas/Pet' },
          { required: ['tricks'], properties: { tricks: { type: 'integer' } } },
        ],
      },
    };
    for (const name of ['Pet', 'Cat']) {
      const { check } = convert({ $ref: `#/components/schemas/${name}` }, schemas);
      expect(check({ name: 'Tom', lives: 9 })).toBe(true);
      expect(check({ lives: 9 })).toBe(false);
      expect(check({ name: 'Tom' })).toBe(false);
    }
  });

  it('ends rings that say nothing', () => {
    const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });
    const schemas = {
      A: ref('B'),
      B: ref('A'),
      C: { allOf: [ref('C')], type: 'string' },
      D: { anyOf: [ref('D'), { type: 'string' }] },
    };
    for (const name of ['A', 'C', 'D']) expect(convert(ref(name), schemas).check('x')).toBe(true);
    expect(convert(ref('D'), schemas).check(1)).toBe(false);
  });
});
