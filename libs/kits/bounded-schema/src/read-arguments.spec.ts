import type { Json, JsonObject } from '@toolfleet/base';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { plainName } from './anthropic-schema.js';
import { canonicalJson } from './canonical.js';
import { ArgumentReader, type ArgumentRules, type ReadArguments } from './read-arguments.js';

const object = (properties: JsonObject, rest: JsonObject = {}): JsonObject => ({ type: 'object', properties, ...rest });
const read = (schema: JsonObject, raw: JsonObject, rules: Partial<ArgumentRules> = {}): ReadArguments =>
  new ArgumentReader(schema, { toolName: 'tool', ...rules }).read(raw);
const args = (schema: JsonObject, raw: JsonObject, rules: Partial<ArgumentRules> = {}): JsonObject => {
  const result = read(schema, raw, rules);
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  return result.arguments;
};
const faults = (
  schema: JsonObject,
  raw: JsonObject,
  rules: Partial<ArgumentRules> = {},
): [string, string, string][] => {
  const result = read(schema, raw, rules);
  return result.ok ? [] : result.faults.map((fault) => [fault.path, fault.kind, fault.message]);
};

/** `undefined`: no lossless conversion. */
const COERCIONS: [type: Json, from: Json, to: Json | undefined][] = [
  ['string', 'a', 'a'],
  ['string', 5, '5'],
  ['string', 2.5, '2.5'],
  ['string', true, 'true'],
  ['string', false, 'false'],
  ['string', [1], undefined],
  ['string', {}, undefined],
  ['integer', 5, 5],
  ['integer', 5.0, 5],
  ['integer', 3.5, undefined],
  ['integer', ' 42 ', 42],
  ['integer', '-7', -7],
  ['integer', '+7', 7],
  ['integer', '5.0', 5],
  ['integer', '3.5', undefined],
  ['integer', 'abc', undefined],
  ['integer', '9007199254740991', 9007199254740991],
  ['integer', '9007199254740993', 9007199254740993n],
  ['integer', ' -9007199254740993 ', -9007199254740993n],
  ['integer', '9007199254740993.5', undefined],
  ['number', '18446744073709551615', 18446744073709551615n],
  ['string', 9007199254740993n, '9007199254740993'],
  ['integer', '0x10', undefined],
  ['integer', true, undefined],
  ['number', ' 2.50 ', 2.5],
  ['number', '1e3', 1000],
  ['number', '.5', 0.5],
  ['number', '-0', 0],
  ['number', 'Infinity', undefined],
  ['number', '1e999', undefined],
  ['number', '0.1000000000000000055511151231257827', undefined],
  ['number', '3.141592653589793', Math.PI],
  ['boolean', 'TRUE', true],
  ['boolean', 'False', false],
  ['boolean', 'yes', true],
  ['boolean', 'n', false],
  ['boolean', '1', true],
  ['boolean', 0, false],
  ['boolean', 2, undefined],
  ['boolean', 'maybe', undefined],
  ['array', '[1,2]', [1, 2]],
  ['array', 'a,b', undefined],
  ['array', '{"a":1}', undefined],
  ['array', 'x', undefined],
  ['array', '[9007199254740993]', [9007199254740993n]],
  ['array', '[1e999]', undefined],
  ['object', '{"a":1e400}', undefined],
  ['string', 1e22, '10000000000000000000000'],
  ['object', ' {"a":1} ', { a: 1 }],
  ['object', '[1]', undefined],
  ['object', '{"a":', undefined],
  [['integer', 'null'], '5', 5],
  [['integer', 'null'], null, null],
  [['string', 'integer'], '5', '5'],
  [['integer', 'boolean'], '1', undefined], // 1 or true: never guess
  [['integer', 'boolean'], 'yes', true],
];

describe('coercion', () => {
  test.each(COERCIONS)('to %j: %j becomes %j', (type, from, to) => {
    const result = read(object({ x: { type } }), { x: from });
    if (to === undefined) expect(result).toMatchObject({ ok: false, faults: [{ param: 'x', kind: 'type_mismatch' }] });
    else expect(result).toMatchObject({ ok: true, arguments: { x: to } });
  });

  test('is listed with its place and types, without the value', () => {
    const schema = object({ filter: object({ limits: { type: 'array', items: { type: 'integer' } } }) });
    expect(read(schema, { filter: '{"limits":["1",2,"3"]}' })).toEqual({
      ok: true,
      arguments: { filter: { limits: [1, 2, 3] } },
      coercions: [
        { path: '/filter', from: 'string', to: 'object' },
        { path: '/filter/limits/0', from: 'string', to: 'integer' },
        { path: '/filter/limits/2', from: 'string', to: 'integer' },
      ],
      dropped: [],
    });
  });

  test("leaves the caller's object untouched, and hands it on when nothing changes", () => {
    const raw = { a: { b: ['1'] } };
    args(object({ a: object({ b: { type: 'array', items: { type: 'integer' } } }) }), raw);
    expect(raw).toEqual({ a: { b: ['1'] } });
    expect(args(object({ a: { type: 'object' } }), raw)).toBe(raw);
  });

  test("unwraps arguments nested under the tool's own name, also as text", () => {
    const schema = object({ a: { type: 'integer' } }, { required: ['a'] });
    expect(args(schema, { tool: { a: '1' } })).toEqual({ a: 1 });
    expect(args(schema, { tool: '{"a":1}' })).toEqual({ a: 1 });
    expect(args(object({ tool: { type: 'object' } }), { tool: { a: 1 } })).toEqual({ tool: { a: 1 } });
  });

  const strictly = object({ a: { type: 'integer' }, b: { type: 'string' } }, { required: ['a'] });
  const loosely = object({ a: { type: 'integer' } });
  test.each<[string, JsonObject, JsonObject, JsonObject | null]>([
    ['an object', strictly, { arguments: { a: '1' } }, { a: 1 }],
    ['JSON text', strictly, { input: '{"a":1}' }, { a: 1 }],
    ['optional ones', loosely, { args: { a: 1 } }, { a: 1 }],
    ['not under other names', strictly, { data: { a: 1 } }, null],
    ['not next to others', strictly, { parameters: { a: 1 }, b: 'x' }, null],
    ['not where they are valid as they are', { type: 'object' }, { input: { a: 1 } }, { input: { a: 1 } }],
    ['not unknown ones', loosely, { args: { z: 1 } }, {}],
    [
      'not where the schema has the name',
      object({ input: { type: 'object' } }),
      { input: { a: 1 } },
      { input: { a: 1 } },
    ],
  ])('unwraps arguments nested under the names of wrappers: %s', (_, schema, raw, meant) => {
    const result = read(schema, raw);
    expect(result.ok ? result.arguments : null).toEqual(meant);
    if (result.ok && meant?.['a'] === 1)
      expect(result.coercions).toContainEqual({ path: '', from: 'nested', to: 'object' });
  });

  test.each<[string, JsonObject, string]>([
    ['no kind', { r: 1 }, `Parameter 'shape' must have kind "circle" or "square"`],
    ['an unknown kind', { kind: 'star' }, `Parameter 'shape' must have kind "circle" or "square"`],
    ['a fault of its kind', { kind: 'square', side: 'x' }, "Cannot coerce string 'x' to number"],
    ['a missing part of its kind', { kind: 'circle' }, "Required parameter 'shape.r' is missing"],
  ])('a union of kinds explains %s', (_, shape, message) => {
    const circle = object({ kind: { const: 'circle' }, r: { type: 'number' } }, { required: ['kind', 'r'] });
    const square = object({ kind: { enum: ['square'] }, side: { type: 'number' } }, { required: ['kind', 'side'] });
    for (const form of ['oneOf', 'anyOf']) {
      const inline = object({ shape: { [form]: [circle, square] } });
      const shared = { ...object({ shape: { [form]: [{ $ref: '#/$defs/c' }, square] } }), $defs: { c: circle } };
      for (const schema of [inline, shared]) {
        const result = read(schema, { shape });
        expect(result.ok ? [] : result.faults.map((fault) => fault.message)).toEqual([message]);
      }
    }
  });

  test('follows $ref, recursion, allOf, prefixItems and additionalProperties', () => {
    const tree: JsonObject = {
      ...object({ root: { $ref: '#/$defs/node' } }),
      $defs: {
        node: object({ id: { type: 'integer' }, children: { type: 'array', items: { $ref: '#/$defs/node' } } }),
      },
    };
    expect(args(tree, { root: { id: '1', children: [{ id: '2', children: [{ id: '3' }] }] } })).toEqual({
      root: { id: 1, children: [{ id: 2, children: [{ id: 3 }] }] },
    });
    expect(
      args(object({ p: { allOf: [object({ a: { type: 'integer' } }), object({ b: { type: 'boolean' } })] } }), {
        p: { a: '1', b: 'no' },
      }),
    ).toEqual({ p: { a: 1, b: false } });
    expect(
      args(object({ t: { type: 'array', prefixItems: [{ type: 'integer' }, { type: 'boolean' }] } }), {
        t: ['1', 'yes'],
      }),
    ).toEqual({ t: [1, true] });
    expect(
      args(object({ m: { type: 'object', additionalProperties: { type: 'number' } } }), { m: { x: '1.5' } }),
    ).toEqual({ m: { x: 1.5 } });
  });

  test('in a union: the value as it is if valid, else the one conversion that makes it valid, else none', () => {
    const optional = object({ n: { anyOf: [{ type: 'integer' }, { type: 'null' }] } });
    expect(args(optional, { n: '5' })).toEqual({ n: 5 });
    expect(args(optional, { n: null })).toEqual({ n: null });
    expect(args(object({ n: { anyOf: [{ type: 'string' }, { type: 'integer' }] } }), { n: '5' })).toEqual({ n: '5' });
    expect(faults(object({ n: { oneOf: [{ type: 'integer' }, { type: 'boolean' }] } }), { n: '1' })[0]?.[1]).toBe(
      'no_match',
    );
    const tagged = object({
      shape: {
        oneOf: [
          object({ kind: { const: 'circle' }, r: { type: 'number' } }, { required: ['kind', 'r'] }),
          object({ kind: { const: 'square' }, a: { type: 'number' } }, { required: ['kind', 'a'] }),
        ],
      },
    });
    expect(args(tagged, { shape: { kind: 'square', a: '2' } })).toEqual({ shape: { kind: 'square', a: 2 } });
  });

  test('enum values have types too', () => {
    expect(args(object({ level: { enum: [1, 2, 3] } }), { level: '2' })).toEqual({ level: 2 });
    expect(faults(object({ level: { enum: [1, 2, 3] } }), { level: '4' })).toEqual([
      ['/level', 'enum', "Parameter 'level' must be one of [1,2,3]"],
    ]);
  });

  test('an OpenAPI body: JSON text is read, nothing else inside it is touched', () => {
    const schema = object({
      limit: { type: 'integer' },
      ids: { type: 'array', items: { type: 'integer' } },
      body: object({ n: { type: 'integer' }, tags: { type: 'array' }, note: { type: ['string', 'null'] } }),
    });
    const rules = { bodyProperty: 'body' };
    expect(args(schema, { limit: '5', ids: ['1'], body: '{"n":1,"tags":"[1]","note":null}' }, rules)).toEqual({
      limit: 5,
      ids: [1],
      body: { n: 1, tags: [1], note: null },
    });
    expect(args(schema, { body: { n: '9007199254740993' } }, rules)).toEqual({ body: { n: 9007199254740993n } });
    expect(args(schema, { body: { n: '9007199254740992' } }, rules)).toEqual({ body: { n: 9007199254740992 } });
    expect(faults(schema, { body: { n: '1' } }, rules)).toEqual([
      ['/body/n', 'type_mismatch', "Cannot coerce string '1' to integer"],
    ]);
  });
});

describe('JSON text', () => {
  const many = (count: number): string => `[${'1,'.repeat(count)}1]`;
  const list = { type: 'object', properties: { list: { type: 'array' } } } as const;
  const reader = new ArgumentReader(list, { toolName: 'tool' });
  const nested = '{"a":'.repeat(300) + '1' + '}'.repeat(300);

  test.each<[string, JsonObject]>([
    ['of one argument', { list: many(60_000) }],
    ['of several values together', { list: Array.from({ length: 10 }, () => many(12_000)) }],
    ['in place of all arguments', { args: `{"list":${many(60_000)}}` }],
  ])('with too many values %s is refused unparsed', (_, raw) => {
    const items = { ...list.properties.list, items: { type: 'array' } };
    const each = new ArgumentReader({ ...list, properties: { list: items } }, { toolName: 'tool' });
    for (const reads of Array.isArray(raw.list) ? [each] : [reader])
      expect(reads.read(raw)).toEqual({
        ok: false,
        faults: [expect.objectContaining({ message: expect.stringContaining('50000') })],
      });
  });

  test('within the limits becomes a value; text that is nested too deep stays text', () => {
    expect(reader.read({ list: many(10_000) })).toMatchObject({ ok: true, coercions: [{ from: 'string' }] });
    expect(reader.read({ list: nested })).toMatchObject({ ok: false, faults: [{ kind: 'type_mismatch' }] });
  });
});

describe('faults', () => {
  test('missing and empty ones, all together', () => {
    const schema = object(
      { a: { type: 'string' }, b: { type: 'integer' }, c: { type: 'string' }, d: { type: 'integer' } },
      { required: ['a', 'b', 'c'] },
    );
    expect(faults(schema, { b: null, c: '  ', d: 'x' })).toEqual([
      ['/b', 'null_or_empty', "Required parameter 'b' is null or empty"],
      ['/c', 'null_or_empty', "Required parameter 'c' is null or empty"],
      ['/a', 'missing', "Required parameter 'a' is missing"],
      ['/d', 'type_mismatch', "Cannot coerce string 'x' to integer"],
    ]);
  });

  test.each<[JsonObject, Json, string, string]>([
    [{ type: 'integer' }, 3.5, 'type_mismatch', 'Cannot coerce float 3.5 to integer'],
    [{ type: 'integer' }, [], 'type_mismatch', 'Cannot coerce array to integer'],
    [{ type: 'integer', format: 'int32' }, 3_000_000_000, 'out_of_range', 'Long value 3000000000 out of int range'],
    [{ type: 'integer', maximum: 5 }, 9007199254740993n, 'out_of_range', "Parameter 'x' must be <= 5"],
    [{ enum: [1, 2] }, 9007199254740993n, 'enum', "Parameter 'x' must be one of [1,2]"],
    [{ type: 'integer', minimum: 1 }, '0', 'out_of_range', "Parameter 'x' must be >= 1"],
    [{ type: 'number', exclusiveMaximum: 1 }, 1, 'out_of_range', "Parameter 'x' must be < 1"],
    [{ enum: ['a', 'b'] }, 'c', 'enum', 'Parameter \'x\' must be one of ["a","b"]'],
    [{ const: 1 }, 2, 'enum', "Parameter 'x' must be one of [1]"],
    [{ type: 'string', pattern: '^a+$' }, 'b', 'pattern', "Parameter 'x' must match pattern ^a+$"],
    [{ type: 'string', format: 'email' }, 'b', 'format', "Parameter 'x' must be a valid email"],
    [{ type: 'string', minLength: 3 }, 'b', 'length', "Parameter 'x' must NOT have fewer than 3 characters"],
    [{ type: 'array', uniqueItems: true }, [1, 1], 'duplicate', "Parameter 'x' must not contain duplicates"],
    [{ type: 'object', additionalProperties: false }, { y: 1 }, 'unknown', "Unknown parameter 'x.y'"],
    [
      { type: 'object', additionalProperties: false, properties: { title: {} } },
      { titel: 1 },
      'unknown',
      "Unknown parameter 'x.titel'; did you mean title?",
    ],
    [{ type: 'object', required: ['y'] }, {}, 'missing', "Required parameter 'x.y' is missing"],
    [
      { anyOf: [{ type: 'integer' }, { type: 'null' }] },
      'q',
      'no_match',
      "Parameter 'x' matches none of the allowed forms (integer, null)",
    ],
  ])('%j against %j is %s', (schema, value, kind, message) => {
    const found = faults(object({ x: schema }), { x: value });
    expect(found).toHaveLength(1);
    expect(found[0]?.slice(1)).toEqual([kind, message]);
  });

  test('an empty string is valid where the schema allows it', () => {
    expect(
      args(object({ content: { type: 'string', minLength: 0 } }, { required: ['content'] }), { content: '' }),
    ).toEqual({ content: '' });
    expect(args(object({ sep: { enum: ['', ','] } }, { required: ['sep'] }), { sep: '' })).toEqual({ sep: '' });
  });

  test('null: kept where allowed, absent where not', () => {
    const schema = object({
      a: { type: ['string', 'null'] },
      b: { type: 'integer', default: 3 },
      c: { type: 'integer' },
    });
    expect(args(schema, { a: null, b: null, c: null })).toEqual({ a: null, b: 3 });
  });

  test('a million wrong items are one fault, not a million', () => {
    const found = faults(object({ x: { type: 'array', items: { type: 'integer' } } }), {
      x: Array.from({ length: 200_000 }, () => 'no'),
    });
    expect(found.length).toBeLessThanOrEqual(50);
  });

  test('nested unions do not multiply the work', () => {
    const tree: JsonObject = {
      ...object({ x: { $ref: '#/$defs/t' } }),
      $defs: { t: { anyOf: [{ type: 'integer' }, { type: 'array', items: { $ref: '#/$defs/t' }, maxItems: 8 }] } },
    };
    let value: Json = 'no';
    for (let level = 0; level < 6; level += 1) value = Array.from({ length: 4 }, () => value);
    expect(faults(tree, { x: value })[0]?.[1]).toBe('no_match');
    expect(args(tree, { x: [['1', ['2']], '3'] })).toEqual({ x: [[1, [2]], 3] });
  });

  test('nesting is bounded', () => {
    let deep: Json = 1;
    for (let level = 0; level < 5_000; level += 1) deep = [deep];
    expect(faults(object({ x: {} }), { x: deep })[0]?.[1]).toBe('invalid');
  });
});

describe('arguments under the plain names of a list', () => {
  const schema = { type: 'object', properties: { 'filter[id]': { type: 'integer' }, b: {} }, required: ['filter[id]'] };
  const readSent = (sent: JsonObject) => read(schema, sent, { refuseUnknown: true });

  test('are read as their own, with all rules', () => {
    const listed = plainName('filter[id]');
    expect(readSent({ [listed]: '7', b: 1 })).toMatchObject({ ok: true, arguments: { 'filter[id]': 7, b: 1 } });
    expect(readSent({ arguments: { [listed]: 7 } })).toMatchObject({ ok: true, arguments: { 'filter[id]': 7 } });
    expect(readSent({ [listed]: 'x' })).toMatchObject({ ok: false, faults: [{ param: 'filter[id]' }] });
    expect(readSent({ [plainName('other[id]')]: 7 })).toMatchObject({ ok: false });
  });
});

describe('unknown arguments', () => {
  const schema = object({ a: { type: 'integer' } });
  test('are refused together when there are more than a thousand, also below the name of the tool', () => {
    const reader = new ArgumentReader({ type: 'object', properties: { a: { type: 'integer' } } }, { toolName: 't' });
    const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`n${index}`, 1]));
    const refused = {
      ok: false,
      faults: [{ message: 'At least 1001 arguments are unknown; the tool has 1 parameters' }],
    };
    expect(reader.read(many(1_002))).toMatchObject(refused);
    expect(reader.read({ t: many(1_002) })).toMatchObject(refused);
    expect(reader.read(many(1_001))).toMatchObject({ ok: true });
    const open = new ArgumentReader({ type: 'object' }, { toolName: 't' });
    expect(open.read(many(1_002))).toMatchObject({ ok: true });
  });

  test('are dropped and named', () => {
    expect(read(schema, { a: 1, zap: 2, __proto__x: 3 })).toMatchObject({
      ok: true,
      arguments: { a: 1 },
      dropped: ['zap', '__proto__x'],
    });
  });
  test('are refused where the schema or the tool forbids them', () => {
    expect(faults({ ...schema, additionalProperties: false }, { zap: 2 })).toEqual([
      ['/zap', 'unknown', "Unknown parameter 'zap'"],
    ]);
    expect(faults(schema, { zap: 2 }, { refuseUnknown: true })).toEqual([
      ['/zap', 'unknown', "Unknown parameter 'zap'"],
    ]);
  });
  test('are kept where the schema welcomes them', () => {
    expect(args({ type: 'object' }, { any: 1 })).toEqual({ any: 1 });
    expect(args({ ...schema, additionalProperties: true }, { a: 1, any: 1 })).toEqual({ a: 1, any: 1 });
    expect(args({ ...schema, patternProperties: { '^x-': {} } }, { 'x-y': 1 })).toEqual({ 'x-y': 1 });
  });
  test('__proto__ is a name like any other', () => {
    const raw = JSON.parse('{"__proto__":{"admin":true},"a":"1"}') as JsonObject;
    const result = read(schema, raw);
    expect(result).toMatchObject({ ok: true, arguments: { a: 1 }, dropped: ['__proto__'] });
    expect(({} as Record<string, unknown>).admin).toBeUndefined();
    const declared = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"integer"}}}') as JsonObject;
    expect(JSON.stringify(args(declared, JSON.parse('{"__proto__":"5"}') as JsonObject))).toBe('{"__proto__":5}');
    expect(faults(object({ toString: { type: 'integer' } }, { required: ['toString'] }), {})[0]?.[1]).toBe('missing');
  });
});

test('defaults fill absent arguments, with a copy for each call', () => {
  const schema = object(
    { n: { type: 'integer', default: 10 }, list: { type: 'array', default: [] }, $r: { $ref: '#/$defs/d' } },
    { $defs: { d: { default: 'x' } } },
  );
  const [first, second] = [args(schema, {}), args(schema, {})];
  expect(first).toEqual({ n: 10, list: [], $r: 'x' });
  expect(first.list).not.toBe(second.list);
});

const schemas: JsonObject[] = [
  { type: 'string' },
  { type: 'integer' },
  { type: 'number' },
  { type: 'boolean' },
  { type: ['integer', 'null'] },
  { anyOf: [{ type: 'boolean' }, { type: 'array', items: { type: 'integer' } }] },
  { type: 'array', items: { type: 'number' } },
  { type: 'object', properties: { k: { type: 'integer' } } },
];
const readers = schemas.map((schema) => new ArgumentReader(object({ x: schema }), { toolName: 'tool' }));
const anyReader = fc.constantFrom(...readers);
const scalar = fc.oneof(
  fc.string(),
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.boolean(),
  fc.constant(null),
  fc.integer().map(String),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
  fc.constantFrom('yes', 'no', '0', '1', ' 7 ', '[1,"2"]', '{"k":"3"}', '1e2'),
  fc.array(fc.oneof(fc.integer(), fc.integer().map(String)), { maxLength: 3 }),
  fc.record({ k: fc.oneof(fc.integer(), fc.integer().map(String)) }),
) as fc.Arbitrary<Json>;

test('property: coercion is idempotent, and keeps valid values as they are', () => {
  fc.assert(
    fc.property(anyReader, scalar, (reader, value) => {
      const once = reader.read({ x: value });
      if (!once.ok) return;
      const twice = reader.read(once.arguments);
      expect(twice).toMatchObject({ ok: true, arguments: once.arguments, coercions: [] });
    }),
    { numRuns: 5_000 },
  );
});

/** The text a value has outside of JSON: what a lossless conversion must not change. */
function meaning(value: Json): string {
  if (typeof value === 'boolean') return value ? '1' : '0';
  if (typeof value === 'number') return String(value + 0);
  if (typeof value !== 'string')
    return canonicalJson(
      JSON.parse(JSON.stringify(value), (_, inner: Json) =>
        typeof inner === 'object' ? inner : meaning(inner),
      ) as Json,
    );
  const word = value.trim().toLowerCase();
  if (['true', 'yes', 'y'].includes(word)) return '1';
  if (['false', 'no', 'n'].includes(word)) return '0';
  if (word !== '' && Number.isFinite(Number(word))) return String(Number(word) + 0);
  return /^[[{]/.test(word) ? meaning(JSON.parse(word) as Json) : value;
}

test('property: coercion is lossless, the converted value means the same', () => {
  fc.assert(
    fc.property(anyReader, scalar, (reader, value) => {
      const once = reader.read({ x: value });
      if (!once.ok || once.coercions.length === 0) return;
      expect(meaning(once.arguments.x as Json)).toBe(meaning(value));
    }),
    { numRuns: 5_000 },
  );
});

describe('arguments that a toolset decides', () => {
  const schema = object(
    {
      text: { type: 'string' },
      region: { type: 'string' },
      limit: { type: 'integer', default: 1 },
      debug: { type: 'boolean' },
    },
    { required: ['text', 'region'] },
  );
  const view = {
    toolset: { name: 'own', version: 1 },
    shownName: 'note',
    arguments: { preset: { region: 'eu' }, defaults: { limit: '5' }, hidden: ['region', 'debug'] },
  };
  const through = (raw: JsonObject, rules: Partial<ArgumentRules> = {}) =>
    new ArgumentReader(schema, { toolName: 'tool', ...rules }).read(raw, view);

  test('are set before coercion, and hidden ones are unknown to the caller, however they are nested', () => {
    expect(through({ text: 'a' })).toMatchObject({ ok: true, arguments: { text: 'a', region: 'eu', limit: 5 } });
    expect(through({ text: 'a', limit: 2 })).toMatchObject({ arguments: { region: 'eu', limit: 2 } });
    expect(through({ text: 'a', limit: null })).toMatchObject({ arguments: { limit: 5 } });
    const sent: JsonObject[] = [
      { text: 'a', region: 'us', debug: true },
      { note: { text: 'a', region: 'us', debug: true } },
    ];
    for (const raw of sent) {
      const dropped = through(raw);
      expect(dropped).toMatchObject({ arguments: { text: 'a', region: 'eu' }, dropped: ['region', 'debug'] });
      expect(dropped.ok && dropped.arguments).not.toHaveProperty('debug');
      const refused = through(raw, { refuseUnknown: true });
      expect(refused.ok ? [] : refused.faults.map(({ param, kind }) => [param, kind])).toEqual([
        ['region', 'unknown'],
        ['debug', 'unknown'],
      ]);
    }
    // Nested under the original name, unknown to the caller, they are an unknown argument as a whole.
    expect(through({ tool: { text: 'a', region: 'us' } })).toMatchObject({ ok: false });
  });

  test('are removed where the schema takes any argument', () => {
    const open = new ArgumentReader({ type: 'object', additionalProperties: true }, { toolName: 'tool' });
    expect(open.read({ region: 'us', free: 1 }, view)).toMatchObject({ arguments: { region: 'eu', free: 1 } });
  });
});
