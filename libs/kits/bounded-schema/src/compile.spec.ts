import type { Json, JsonObject } from '@toolfleet/base';
import { fullFormats } from 'ajv-formats/dist/formats.js';
import { describe, expect, it, test } from 'vitest';
import { compileSchema, validateMessage } from './compile.js';
import { explainErrors } from './explain.js';
import { boundedMatcher } from './pattern.js';
import { ArgumentReader } from './read-arguments.js';

test('is compiled once per content', () => {
  const schema = () => ({ type: 'object', properties: { a: { type: 'integer' } } });
  expect(compileSchema(schema())).toBe(compileSchema(schema()));
  expect(compileSchema({ ...schema(), required: ['a'] })).not.toBe(compileSchema(schema()));
});

test('supports 2020-12, and draft-07 where $schema names it', () => {
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

test('an asynchronous schema is still checked', () => {
  const schema = { $async: true, type: 'object', properties: { a: { type: 'integer' } } };
  expect(compileSchema(schema).check({ a: 'x' })).toBe(false);
});

test.each<[string, JsonObject]>([
  ['a type that does not exist', { type: 'object', properties: { a: { type: 'decimal' } } }],
  ['a reference that leads nowhere', { $ref: '#/$defs/none' }],
  ['a reference out of the document', { $ref: 'https://example.com/schema.json' }],
  ['too many characters', { type: 'object', description: 'x'.repeat(600_000) }],
  [
    'a pattern that the linear-time engine cannot express',
    { type: 'object', properties: { a: { type: 'string', pattern: '^(a+)\\1$' } } },
  ],
  ['a broken pattern', { type: 'object', properties: { a: { type: 'string', pattern: '(' } } }],
])('refuses %s', (_, schema) => {
  expect(() => compileSchema(schema)).toThrow(expect.objectContaining({ code: 'SPEC_INVALID' }));
});

test('refuses schemas that are nested too deeply', () => {
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
  'a*a*a*b',
  '^(?!z)a*a*a*b',
  '^(?=(a+)+$)b',
];

test.each(HOSTILE)('%s on a hostile text ends in bounded time', (pattern) => {
  const matcher = boundedMatcher(pattern, 'u');
  const from = performance.now();
  matcher.test(`${'a'.repeat(5_000)}!`);
  expect(performance.now() - from).toBeLessThan(20_000); // native: longer than the universe
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
  expect(performance.now() - from).toBeLessThan(20_000); // url and uniqueItems of ajv: minutes
});

test.each([
  ['date-time', '2026-01-31T10:00:00Z', '2026-13-31T10:00:00Z'],
  ['date', '2026-02-28', '2026-02-30'],
  ['email', 'a.b@example.com', 'a.b@'],
  ['hostname', 'example.com', '-example.com'],
  ['ipv6', '::1', '::g'],
  ['uuid', '123e4567-e89b-12d3-a456-426614174000', '123e4567'],
])('format %s takes %s and no text of a megabyte', (format, good, bad) => {
  const compiled = compileSchema({ type: 'string', format });
  expect([good, bad, `${good}${' '.repeat(1_000_000)}`].map((text) => compiled.check(text))).toEqual([
    true,
    false,
    false,
  ]);
});

test.each([
  ['byte', ['', 'QQ==', 'QUI=', 'QUJD', 'QUJD\r\nQQ==\n'], ['Q', 'QQ=', 'Q===', '====', 'QQ==QQ==', 'QU-_', '!\nQUJD']],
  ['uri', ['https://example.com/a?b#c', `data:image/png;base64,${'A'.repeat(10_000)}`], ['a', `a${'b'.repeat(9_000)}`]],
  ['uri-reference', ['../a', 'a'.repeat(9_000)], [`${'a'.repeat(9_000)} `]],
])('format %s takes what it should', (format, good, bad) => {
  const compiled = compileSchema({ type: 'string', format });
  expect(good.filter((text) => !compiled.check(text))).toEqual([]);
  expect(bad.filter((text) => compiled.check(text))).toEqual([]);
});

describe('every format reads megabytes about as fast as a loop over their characters', () => {
  const fastest = (work: () => unknown): number =>
    Math.min(
      ...[1, 2, 3].map(() => {
        const from = performance.now();
        work();
        return performance.now() - from;
      }),
    );
  const long = ['A', 'a/', '/~0', '{a}', '1', 'x:a'].flatMap((unit) =>
    ['', '!', ' '].map((end) => `x:${unit.repeat(4_000_000 / unit.length)}${end}`.slice(unit === 'x:a' ? 0 : 2)),
  );
  const loop = (text: string): number => {
    let sum = 0;
    for (let at = 0; at < text.length; at += 1) sum += text.charCodeAt(at);
    return sum;
  };
  it.each(Object.keys(fullFormats))('%s', (format) => {
    const compiled = compileSchema({ type: 'string', format });
    for (const text of long) {
      expect(fastest(() => compiled.check(text))).toBeLessThan(10 * fastest(() => loop(text)) + 5);
    }
  });
});

test('instants are still compared', () => {
  const compiled = compileSchema({ type: 'string', format: 'date', formatMinimum: '2026-01-31' });
  expect(['2026-02-01', '2026-01-01'].map((text) => compiled.check(text))).toEqual([true, false]);
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

/** A schema with `levels` parts that are each a union of two references to the next one. */
function chain(levels: number, link: (next: JsonObject) => JsonObject[]): JsonObject {
  const parts: Record<string, JsonObject> = { [`n${levels}`]: { type: 'string' } };
  for (let level = 0; level < levels; level += 1)
    parts[`n${level}`] = { anyOf: link({ $ref: `#/$defs/n${level + 1}` }) };
  return { $ref: '#/$defs/n0', $defs: parts };
}

test('a fan-out over references is refused, with the reason', () => {
  expect(() => compileSchema(chain(20, (next) => [next, next]))).toThrow(
    expect.objectContaining({ code: 'SPEC_INVALID', message: expect.stringContaining('10000 schemas') as string }),
  );
  expect(compileSchema(chain(5, (next) => [next, next])).check('x')).toBe(true);
});

test.each<[string, JsonObject]>([
  ['itself', { $ref: '#' }],
  [
    'itself by way of a union',
    { $defs: { a: { anyOf: [{ type: 'string' }, { $ref: '#/$defs/a' }] } }, $ref: '#/$defs/a' },
  ],
])('a schema that applies %s to the same value is refused', (_, schema) => {
  expect(() => compileSchema(schema)).toThrow(expect.objectContaining({ code: 'SPEC_INVALID' }));
});

test('validation that would take exponential time stops with an error', () => {
  let nested: Json = 1;
  for (let level = 0; level < 40; level += 1) nested = { c: nested };
  const twice = (next: JsonObject): JsonObject[] => [
    { properties: { c: next } },
    { minProperties: 1, properties: { c: next } },
  ];
  const compiled = compileSchema(chain(40, twice));
  expect(compiled.check(nested)).toBe(false);
  expect(explainErrors(compiled.errors(nested))).toEqual([
    expect.objectContaining({ kind: 'invalid', message: expect.stringContaining('takes too long to check') as string }),
  ]);
  const reader = new ArgumentReader(
    { type: 'object', properties: { x: { $ref: '#/$defs/n0' } }, $defs: chain(40, twice).$defs as Json },
    { toolName: 't' },
  );
  expect(reader.read({ x: nested })).toEqual({
    ok: false,
    faults: [
      expect.objectContaining({ kind: 'invalid', message: expect.stringContaining('takes too long') as string }),
    ],
    tooCostly: true,
  });
});

test('a large value of a plain schema is checked to the end', () => {
  const row = { type: 'object', properties: { a: { type: 'integer' }, b: { type: 'string', pattern: '^[a-z]+$' } } };
  const compiled = compileSchema({ type: 'array', items: { ...row, additionalProperties: false } });
  const rows: Json[] = Array.from({ length: 10_000 }, (_, index) => ({ a: index, b: 'abc' }));
  expect(compiled.check(rows)).toBe(true);
  expect(explainErrors(compiled.errors([...rows, { a: 'x' }]))).toMatchObject([{ kind: 'type_mismatch' }]);
  const more = Array.from({ length: 10 }, () => rows).flat();
  expect(explainErrors(compiled.errors(more))).toMatchObject([
    { message: expect.stringContaining('too long') as string },
  ]);
  expect(compiled.check(more, 2_000_000)).toBe(true);
});

const repeat = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));
const names = (count: number): string[] => repeat(count, (index) => `k${index}`);
const object = <T>(members: string[], value: T): Record<string, T> =>
  Object.fromEntries(members.map((name) => [name, value]));
/** A schema that applies one part to the same value over and over. */
const again = (count: number, part: JsonObject): JsonObject => ({
  allOf: repeat(count, () => ({ $ref: '#/$defs/part' })),
  $defs: { part },
});
const nest = (depth: number, value: Json): Json => (depth === 0 ? value : [nest(depth - 1, value)]);

/** Schemas within all limits of size that took 0.5 to 12 s to compile. */
test.each<[string, JsonObject]>([
  ['properties', { properties: object(names(4_900), { type: 'string' }) }],
  ['dependent names', { dependentRequired: object(names(1_000), names(80)) }],
  ['names that depend on one', { dependentRequired: { a: names(40_000) } }],
  ['dependencies of an older draft', { dependencies: object(names(1_000), names(80)) }],
  [
    'conditions',
    { allOf: names(1_200).map((name) => ({ if: { properties: { a: { const: name } } }, then: { required: [name] } })) },
  ],
  [
    'unevaluated properties',
    { allOf: names(1_000).map((name) => ({ properties: { [name]: {} } })), unevaluatedProperties: false },
  ],
  ['patterns of names', { patternProperties: object(names(2_400), {}) }],
  ['forms of a union', { oneOf: names(2_000).map((name) => ({ const: name })) }],
  [
    'patterns',
    { properties: Object.fromEntries(names(600).map((name) => [name, { pattern: `^[\\w-]{1,1000}${name}` }])) },
  ],
  [
    'classes of Unicode',
    { properties: Object.fromEntries(names(400).map((name) => [name, { pattern: `${'\\p{L}'.repeat(60)}${name}` }])) },
  ],
  ['lists of required names', { properties: object(names(1_000), { required: names(19) }) }],
  ['enums', { properties: object(names(300), { enum: names(200) }) }],
  ['a part that is referenced and nested', { allOf: names(900).map(() => ({ not: { $ref: '#/allOf/899/not/not' } })) }],
])('a schema with many %s is refused before it is compiled', (_, schema) => {
  expect(() => compileSchema({ $schema: 'https://json-schema.org/draft/2020-12/schema', ...schema })).toThrow(
    expect.objectContaining({
      code: 'SPEC_INVALID',
      message: expect.stringContaining('too long to compile') as string,
    }),
  );
});

test('a schema as large as the largest of public APIs compiles', () => {
  const part = { type: 'object', description: 'x', properties: object(names(7), { type: 'string' }), required: ['k0'] };
  const parts = names(180).map((name): [string, JsonObject] => [name, part]);
  const items = { anyOf: parts.map(([name]) => ({ $ref: `#/$defs/${name}` })) };
  const compiled = compileSchema({ type: 'array', items, $defs: Object.fromEntries(parts) });
  expect([[{ k0: 'a' }], [{}]].map((value) => compiled.check(value))).toEqual([true, false]);
});

/** Small values and schemas that took seconds or gigabytes when all steps had one price. */
test.each<[string, JsonObject, Json]>([
  ['missing names', { items: { type: 'object', required: names(4_000) } }, repeat(9_000, () => ({}))],
  ['present names', again(450, { required: names(2_000) }), object(names(2_000), 1)],
  ['dependent names', again(300, { dependentRequired: object(names(60), names(60)) }), object(names(60), 1)],
  ['values of an enum', { items: { not: { enum: repeat(5_000, (a) => ({ a })) } } }, repeat(20_000, () => ({ a: -1 }))],
  [
    'nested unique items',
    { $ref: '#/$defs/p', $defs: { p: { uniqueItems: true, items: { $ref: '#/$defs/p' } } } },
    nest(
      100,
      repeat(20_000, (i) => i),
    ),
  ],
  ['one large unique item', again(100, { uniqueItems: true }), [repeat(50_000, (index) => index)]],
  ['items to find', again(500, { contains: { const: 1 } }), repeat(20_000, () => 2)],
  [
    'patterns of names',
    { patternProperties: object(names(400), { type: 'integer' }) },
    object(
      names(40_000).map((name) => `x${name}`),
      'x',
    ),
  ],
  ['names to check', again(100, { propertyNames: { maxLength: 20 } }), object(names(40_000), 1)],
  ['unevaluated members', again(100, { unevaluatedProperties: { type: 'integer' } }), object(names(20_000), 1)],
  [
    'forms of a union',
    { items: { anyOf: names(100).map((name) => ({ required: [name] })) } },
    repeat(20_000, () => ({ k99: 1 })),
  ],
  ['long texts', again(200, { maxLength: 3_000_000 }), 'é'.repeat(4_000_000)],
  ['formats', again(200, { format: 'uri-reference' }), `/${'%20'.repeat(1_000_000)}`],
  ['patterns', again(200, { pattern: '^[a-z]+$' }), 'a'.repeat(1_000_000)],
  ['types', { items: { type: 'string' } }, repeat(100_000, () => 1)],
  ['items that must not exist', again(100, { items: false }), repeat(20_000, () => 1)],
])('validation is bounded by the cost of %s', (_, schema, value) => {
  const compiled = compileSchema(schema);
  const heap = process.memoryUsage().heapUsed;
  const from = process.threadCpuUsage();
  const errors = compiled.errors(value);
  const { user, system } = process.threadCpuUsage(from);
  expect(errors.length).toBeLessThanOrEqual(1_000);
  expect(errors.length).toBeGreaterThan(0);
  expect((user + system) / 1_000).toBeLessThan(500); // about 20 ms on an idle machine
  // Garbage included, of which the collector leaves more or less; it was gigabytes.
  expect(process.memoryUsage().heapUsed - heap).toBeLessThan(256 * 1024 * 1024);
});

test('the first value that is refused does not pay for the compilation that it causes', () => {
  const compiled = compileSchema({ type: 'object', properties: object(names(200), { type: ['string', 'null'] }) });
  // Enough for the value and too little for the schema as a value of its meta-schema.
  expect(compiled.errors({ k0: 1 }, 500)).toMatchObject([{ keyword: 'type', instancePath: '/k0' }]);
});

test('keywords of a schema cannot switch the count off', () => {
  const compiled = compileSchema({
    type: 'array',
    items: { type: 'integer', 'x-steps': 0 },
    'x-steps': -1_000_000_000,
  });
  expect(compiled.check([1, 2])).toBe(true);
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
