import { describe, expect, it } from 'vitest';
import type { JsonObject } from '@toolfleet/client';
import { describeSchema } from './describe-schema.js';
import { fieldsOf, needsJson } from './form-model.js';
import { initialTexts, readForm, readJson, textsFor } from './form-values.js';

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
const fields = fieldsOf(SCHEMA);
const fieldNamed = (name: string) => fields.find((field) => field.name === name)!;

describe('form of a schema', () => {
  it('has the required fields first and a fitting input for each', () => {
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

  it('reads what was filled in as values of the right type, and leaves out what is empty', () => {
    const texts = {
      ...initialTexts(fields),
      code: 'print(1)',
      unit: '2',
      exact: 'false',
      filters: '{"tags":["a"]}',
      ratio: '0.5',
    };
    expect(readForm(fields, texts)).toEqual({
      arguments: { code: 'print(1)', unit: 3, limit: 10, exact: false, filters: { tags: ['a'] }, ratio: 0.5 },
    });
  });

  it('names every fault by its field', () => {
    expect(readForm(fields, { code: ' ', unit: '7', limit: '1.5', ratio: 'x', filters: '{' })).toEqual({
      faults: {
        code: 'is required',
        unit: 'is none of the choices',
        limit: 'must be a whole number',
        ratio: 'is no number',
        filters: expect.stringMatching(/^is no JSON/) as string,
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

  it('shows given arguments and reads the same back', () => {
    const args = { code: 'x', unit: 'imperial', exact: true, filters: { tags: [] }, limit: 3 };
    expect(readForm(fields, textsFor(fields, args))).toEqual({ arguments: args });
  });

  it('takes arguments as JSON, objects only', () => {
    expect(readJson('{"a": 1}')).toEqual({ arguments: { a: 1 } });
    expect(readJson('[1]')).toEqual({ faults: { '': 'must be a JSON object' } });
    expect(readJson('{')).toMatchObject({ faults: { '': expect.stringContaining('no JSON') as string } });
  });

  it('takes names as they are', () => {
    const [field] = fieldsOf(JSON.parse('{"properties":{"__proto__":{"type":"string"}}}') as JsonObject);
    const texts = JSON.parse('{"__proto__":"x"}') as Record<string, string>;
    expect(JSON.stringify(readForm([field!], texts))).toBe('{"arguments":{"__proto__":"x"}}');
  });

  it('asks for JSON where properties are not everything', () => {
    expect(needsJson(SCHEMA)).toBe(false);
    expect(needsJson({ type: 'object', oneOf: [] })).toBe(true);
    expect(fieldsOf({ type: 'object' })).toEqual([]);
  });
});

describe('schema in words', () => {
  const lines = describeSchema(SCHEMA);
  const line = (path: string) => lines.find((one) => one.path === path);

  it('tells type, need and rules of every property', () => {
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

  it('goes into nested objects and ends where a schema holds itself', () => {
    expect(line('filters.tags')).toMatchObject({ depth: 1, type: 'list of string', required: true });
    expect(lines.map(({ path }) => path).filter((path) => path.startsWith('filters'))).toEqual([
      'filters',
      'filters.tags',
      'filters.more',
    ]);
  });
});
