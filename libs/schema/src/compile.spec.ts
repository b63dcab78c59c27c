import type { JsonObject } from '@toolfleet/contracts';
import { expect, test } from 'vitest';
import { compileSchema } from './compile.js';
import { boundedMatcher, isBoundedPattern } from './pattern.js';
import { validateMessage } from './validate-message.js';

test('is compiled once per content', () => {
  const schema = () => ({ type: 'object', properties: { a: { type: 'integer' } } });
  expect(compileSchema(schema())).toBe(compileSchema(schema()));
  expect(compileSchema({ ...schema(), required: ['a'] })).not.toBe(compileSchema(schema()));
});

test('speaks 2020-12, and draft-07 where the schema says so', () => {
  const tuple = { type: 'object', properties: { t: { prefixItems: [{ type: 'integer' }], items: false } } };
  expect(compileSchema(tuple).check({ t: [1, 2] })).toBe(false);
  const old = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    properties: { t: { items: [{ type: 'integer' }], additionalItems: false } },
  };
  expect(compileSchema(old).check({ t: [1] })).toBe(true);
  expect(compileSchema(old).check({ t: [1, 2] })).toBe(false);
});

test('an asynchronous schema is checked all the same', () => {
  const schema = { $async: true, type: 'object', properties: { a: { type: 'integer' } } };
  expect(compileSchema(schema).check({ a: 'x' })).toBe(false);
});

test.each<[string, JsonObject]>([
  ['a type that does not exist', { type: 'object', properties: { a: { type: 'decimal' } } }],
  ['a reference that leads nowhere', { $ref: '#/$defs/none' }],
  ['a reference out of the document', { $ref: 'https://example.com/schema.json' }],
  ['too many characters', { type: 'object', description: 'x'.repeat(600_000) }],
  [
    'a pattern neither engine can bound',
    { type: 'object', properties: { a: { type: 'string', pattern: '^(?=(a+)+$)b' } } },
  ],
  ['a broken pattern', { type: 'object', properties: { a: { type: 'string', pattern: '(' } } }],
])('refuses %s', (_, schema) => {
  expect(() => compileSchema(schema)).toThrow(expect.objectContaining({ code: 'SPEC_INVALID' }));
});

test('refuses what is nested too deep', () => {
  let schema: JsonObject = { type: 'string' };
  for (let level = 0; level < 200; level += 1) schema = { type: 'object', properties: { a: schema } };
  expect(() => compileSchema(schema)).toThrow(expect.objectContaining({ code: 'SPEC_INVALID' }));
});

/** Patterns on which backtracking takes exponential or high polynomial time. */
const HOSTILE = [
  '^(a+)+$',
  '^(a|a)*$',
  '^(a|aa)+$',
  '([a-z]+)*1',
  '^(([a-z])+.)+[A-Z]([a-z])+$',
  '(x+x+)+y',
  '^(\\d+)*$',
  '(.*a){20}',
  'a*a*a*a*a*b',
];

test.each(HOSTILE)('%s on a hostile text ends in bounded time', (pattern) => {
  expect(isBoundedPattern(pattern)).toBe(false);
  const matcher = boundedMatcher(pattern, 'u');
  const from = performance.now();
  matcher.test(`${'a'.repeat(5_000)}!`);
  expect(performance.now() - from).toBeLessThan(2_000); // native: longer than the universe
});

test.each<[string, JsonObject, unknown]>([
  ['the url format', { type: 'string', format: 'url' }, `http://${'a:@'.repeat(30_000)}`],
  ['uniqueItems', { type: 'array', uniqueItems: true }, Array.from({ length: 20_000 }, (_, index) => ({ index }))],
  [
    'nested unknown names',
    { type: 'object', additionalProperties: false },
    Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`k${index}`, 0])),
  ],
])('%s ends in bounded time on a hostile value', (_, schema, value) => {
  const from = performance.now();
  compileSchema(schema).errors(value as JsonObject);
  expect(performance.now() - from).toBeLessThan(5_000); // url and uniqueItems of ajv: minutes
});

test('uniqueItems still means what it says', () => {
  const unique = compileSchema({ type: 'array', uniqueItems: true });
  expect(unique.check([1, '1', true, null, { a: 1, b: 2 }, { a: 1 }])).toBe(true);
  expect(
    unique.check([
      { a: 1, b: 2 },
      { b: 2, a: 1 },
    ]),
  ).toBe(false);
  expect(compileSchema({ type: 'string', format: 'url' }).check('https://example.com/x?y=1')).toBe(true);
  expect(compileSchema({ type: 'string', format: 'url' }).check('example.com')).toBe(false);
});

test.each<[string, string, boolean]>([
  ['^[a-z0-9-]{1,64}$', 'abc-1', true],
  ['^\\d{4}-\\d{2}-\\d{2}$', '2026-01-31', true],
  ['^(?=.*\\d)(?=.*[a-z]).{8,}$', 'abcdefg1', true],
  ['^(?:foo|bar)$', 'bar', true],
  ['\\s+$', `${' '.repeat(100_000)}x`, false],
  ['^\\p{L}+$', 'Größe', true],
  ['^[\\w.+-]+@[\\w-]+\\.[\\w.]+$', 'a.b@example.com', true],
])('%s still means what it says', (pattern, text, matches) => {
  expect(boundedMatcher(pattern, 'u').test(text)).toBe(matches);
});

test('messages: every fault named, under a code of choice', () => {
  const validate = validateMessage<{ a: number }>({
    type: 'object',
    properties: { a: { type: 'integer' } },
    required: ['a'],
  });
  expect(validate({ a: 1 }).a).toBe(1);
  expect(() => validate(undefined)).toThrow(expect.objectContaining({ message: 'The message is empty' }));
  expect(() => validate({ a: 'x' })).toThrow(
    expect.objectContaining({ code: 'REQUEST_INVALID', message: expect.stringContaining('/a') as string }),
  );
});
