import { describe, expect, it } from 'vitest';
import type { JsonObject } from '@toolfleet/client';
import { describeSchema } from './describe-schema.js';
import { toFields, needsJson, initialTexts, readForm, readJson, textsFor } from './form.js';

const SCHEMA: JsonObject = {
  type: 'object',
  properties: {
    limit: { type: 'integer', minimum: 1, maximum: 100, default: 10, description: 'How many' },
    code: { type: 'string' },
    name: { type: ['string', 'null'], title: 'Full name', maxLength: 40 },
    exact: { type: 'boolean' },
    unit: { enum: ['metric', 'imperial', 3] },
    filters: { $ref: '#/$defs/filters' },
    ratio: { type: 'number' },
    either: { type: ['string', 'integer'] },
  },
  required: ['code', 'unit'],
  $defs: {
    filters: {
      type: 'object',
      properties: { tags: { type: 'array', items: { type: 'string' } }, more: { $ref: '#/$defs/filters' } },
      required: ['tags'],
    },
  },
};
const fields = toFields(SCHEMA);
const fieldNamed = (name: string) => fields.find((field) => field.name === name)!;

describe('form of a schema', () => {
  it('puts required fields first and chooses a control for each', () => {
    expect(fields.map(({ name }) => name).slice(0, 2)).toEqual(['code', 'unit']);
    expect(fieldNamed('code').input).toEqual({ kind: 'text', multiline: true });
    expect(fieldNamed('name')).toMatchObject({ label: 'Full name', input: { kind: 'text', multiline: false } });
    expect(fieldNamed('limit')).toMatchObject({
      help: 'How many',
      initial: '10',
      input: { kind: 'number', whole: true, min: 1, max: 100 },
    });
    expect(fieldNamed('unit').input).toEqual({ kind: 'choice', options: ['metric', 'imperial', 3] });
    expect(fieldNamed('filters').input).toEqual({ kind: 'json', example: '{\n  "tags": []\n}' });
    expect(fieldNamed('either').input.kind).toBe('json');
  });

  it('converts texts to values of the right type and omits empty fields', () => {
    const texts = {
      ...initialTexts(fields),
      code: 'print(1)',
      unit: '2',
      exact: '1',
      filters: '{"tags":["a"]}',
      ratio: '0.5',
    };
    expect(readForm(fields, texts)).toEqual({
      arguments: { code: 'print(1)', unit: 3, limit: 10, exact: false, filters: { tags: ['a'] }, ratio: 0.5 },
    });
  });

  it('reports every invalid field', () => {
    expect(readForm(fields, { code: ' ', unit: '7', limit: '1.5', ratio: 'x', filters: '{' })).toEqual({
      faults: {
        code: 'is required',
        unit: 'is not one of the choices',
        limit: 'must be an integer',
        ratio: 'is not a number',
        filters: expect.stringMatching(/^is not valid JSON/) as string,
      },
    });
    expect(readForm([fieldNamed('limit')], { limit: '101' })).toEqual({ faults: { limit: 'must be at most 100' } });
    expect(
      readForm([{ ...fieldNamed('limit'), input: { kind: 'number', whole: true } }], { limit: '9007199254740993' }),
    ).toEqual({
      faults: { limit: 'is too large to be exact' },
    });
    expect(readForm([fieldNamed('limit')], { limit: '0' })).toEqual({ faults: { limit: 'must be at least 1' } });
  });

  it('converts given arguments to texts and back', () => {
    const args = { code: 'x', unit: 'imperial', exact: true, filters: { tags: [] }, limit: 3 };
    expect(readForm(fields, textsFor(fields, args))).toEqual({ arguments: args });
  });

  it('accepts arguments as JSON objects only', () => {
    expect(readJson('{"a": 1}')).toEqual({ arguments: { a: 1 } });
    expect(readJson('[1]')).toEqual({ faults: { '': 'must be a JSON object' } });
    expect(readJson('{')).toMatchObject({ faults: { '': expect.stringContaining('not valid JSON') as string } });
  });

  it('accepts any argument name', () => {
    const [field] = toFields(JSON.parse('{"properties":{"__proto__":{"type":"string"}}}') as JsonObject);
    const texts = JSON.parse('{"__proto__":"x"}') as Record<string, string>;
    expect(JSON.stringify(readForm([field!], texts))).toBe('{"arguments":{"__proto__":"x"}}');
  });

  it('requires JSON for schemas that a form cannot show', () => {
    expect(needsJson(SCHEMA)).toBe(false);
    expect(needsJson({ type: 'object', oneOf: [] })).toBe(true);
    expect(toFields({ type: 'object' })).toEqual([]);
  });
});

describe('description of a schema', () => {
  const lines = describeSchema(SCHEMA);
  const line = (path: string) => lines.find((one) => one.path === path);

  it('lists type, requirement and rules of every property', () => {
    expect(line('limit')).toEqual({
      path: 'limit',
      depth: 0,
      type: 'integer',
      required: false,
      description: 'How many',
      rules: ['1 to 100', 'default 10'],
    });
    expect(line('unit')).toMatchObject({ type: 'choice', required: true, rules: ['one of "metric", "imperial", 3'] });
    expect(line('either')?.type).toBe('string or integer');
  });

  it('lists the properties of all parts of a schema', () => {
    const part = { type: 'object', required: ['name'], properties: { name: { type: 'string' } } };
    const whole: JsonObject = {
      allOf: [{ $ref: '#/$defs/part' }, { properties: { shelf: { allOf: [part] } } }],
      $defs: { part },
    };
    expect(describeSchema(whole).map(({ path, type, required }) => [path, type, required])).toEqual([
      ['name', 'string', true],
      ['shelf', 'object', false],
      ['shelf.name', 'string', true],
    ]);
  });

  it('descends into nested objects and stops at recursive references', () => {
    expect(line('filters.tags')).toMatchObject({ depth: 1, type: 'list of string', required: true });
    expect(lines.map(({ path }) => path).filter((path) => path.startsWith('filters'))).toEqual([
      'filters',
      'filters.tags',
      'filters.more',
    ]);
  });
});
