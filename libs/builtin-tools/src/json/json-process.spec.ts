import { isToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import { SystemClock } from '@toolfleet/resilience';
import { afterAll, describe, expect, it } from 'vitest';
import { BoundedWork } from '../bounded/bounded-work.js';
import { runTool } from '../../spec/run-tool.fixture.js';
import { jsonProcess } from './json-process.tool.js';

const bounded = new BoundedWork(new SystemClock());
afterAll(() => bounded.close());
const json = async (args: JsonObject) =>
  (await runTool(jsonProcess, args, { services: { bounded } })).output as JsonObject;

const STORE = JSON.stringify({
  book: [
    { title: 'A', price: 8, tags: ['x'] },
    { title: 'B', price: 12, tags: ['x', 'y'] },
    { title: 'C', price: 20 },
  ],
});

describe('json_process', () => {
  it.each<[string, JsonObject, Json]>([
    ['parse', { json_string: '{"a":[1,2]}', operation: 'parse' }, { a: [1, 2] }],
    ['format', { json_string: '{"b":1,"a":2}', operation: 'format', sort_keys: true }, '{\n  "a": 2,\n  "b": 1\n}'],
    ['minify', { json_string: '{ "b" : 1 }', operation: 'minify' }, '{"b":1}'],
    ['JSONPath filter', { json_string: STORE, operation: 'query', query: '$.book[?@.price < 15].title' }, ['A', 'B']],
    ['JSONPath descent', { json_string: STORE, operation: 'query', query: '$..tags[0]' }, ['x', 'x']],
    ['JMESPath', { json_string: STORE, operation: 'query', query: 'book[?price > `10`].title' }, ['B', 'C']],
    ['JMESPath function', { json_string: STORE, operation: 'query', query: 'max_by(book, &price).title' }, 'C'],
    [
      'patch',
      {
        json_string: '{"a":1}',
        operation: 'patch',
        patch: [
          { op: 'add', path: '/b', value: [1] },
          { op: 'remove', path: '/a' },
        ],
      },
      { b: [1] },
    ],
    ['patch of the root', { json_string: '1', operation: 'patch', patch: [{ op: 'replace', path: '', value: 2 }] }, 2],
    [
      'merge',
      { json_string: '{"a":{"b":1,"c":2}}', operation: 'merge', patch: { a: { b: null, d: 3 } } },
      { a: { c: 2, d: 3 } },
    ],
    [
      'describe',
      { json_string: '{"a":[1,2]}', operation: 'describe' },
      { type: 'object', keys: 1, fields: { a: { type: 'array', length: 2, first: { type: 'number' } } } },
    ],
  ])('%s', async (_name, args, expected) => {
    expect((await json(args)).result).toEqual(expected);
  });

  it('validates against a schema and names each violation', async () => {
    const schema = { type: 'object', properties: { a: { type: 'integer' } }, required: ['b'] };
    const { valid, faults } = await json({ json_string: '{"a":"x"}', operation: 'validate', schema });
    expect(valid).toBe(false);
    expect(JSON.stringify(faults)).toMatch(/"a".*"b"|"b".*"a"/);
    expect((await json({ json_string: '{"a":1,"b":2}', operation: 'validate', schema })).valid).toBe(true);
  });

  it('refuses a schema that explodes', async () => {
    const $defs: JsonObject = { d40: { type: 'string' } };
    for (let i = 0; i < 40; i++)
      $defs[`d${i}`] = { anyOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] };
    const bomb = { $ref: '#/$defs/d0', $defs };
    await expect(json({ json_string: '1', operation: 'validate', schema: bomb })).rejects.toThrow(
      /more than 10000 schemas/,
    );
  });

  it('returns differences as a patch from one document to the other', async () => {
    const { equal, patch } = await json({
      json_string: '{"a":1,"b":[1,2]}',
      operation: 'diff',
      other: '{"a":2,"b":[1]}',
    });
    expect(equal).toBe(false);
    const patched = await json({ json_string: '{"a":1,"b":[1,2]}', operation: 'patch', patch: patch as Json });
    expect(patched.result).toEqual({ a: 2, b: [1] });
    expect((await json({ json_string: '[1]', operation: 'diff', other: ' [1]' })).equal).toBe(true);
  });

  it.each<[string, JsonObject, RegExp]>([
    [
      'bad JSON',
      { json_string: '{\n  "a": tru }', operation: 'parse' },
      /expected a value, found "t" at line 2, column 8/,
    ],
    [
      'single quotes',
      { json_string: "{'a':1}", operation: 'parse' },
      /expected a key in double quotes at line 1, column 2/,
    ],
    [
      'comma before the end',
      { json_string: '[1,\n2,]', operation: 'parse' },
      /comma before the end at line 2, column 3/,
    ],
    ['cut off', { json_string: '{"a":[1,2', operation: 'parse' }, /ends too early/],
    ['two values', { json_string: '1 2', operation: 'parse' }, /after the end of the value at line 1, column 3/],
    ['raw line end', { json_string: '"a\nb"', operation: 'parse' }, /control character/],
    ['no JSON', { json_string: '', operation: 'parse' }, /not valid JSON/],
    ['missing query', { json_string: '1', operation: 'query' }, /needs the argument query/],
    ['bad JSONPath', { json_string: '1', operation: 'query', query: '$[' }, /./],
    ['bad JMESPath', { json_string: '1', operation: 'query', query: 'foo[' }, /./],
    [
      'missing place of a patch',
      { json_string: '{}', operation: 'patch', patch: [{ op: 'remove', path: '/x' }] },
      /Operation 1/,
    ],
    [
      'failed test of a patch',
      { json_string: '{"a":1}', operation: 'patch', patch: [{ op: 'test', path: '/a', value: 2 }] },
      /Operation 1/,
    ],
    [
      'no pointer',
      { json_string: '{}', operation: 'patch', patch: [{ op: 'add', path: 'x', value: 1 }] },
      /JSON Pointer/,
    ],
    [
      'prototype pollution',
      { json_string: '{}', operation: 'patch', patch: [{ op: 'add', path: '/__proto__/x', value: 1 }] },
      /not allowed/,
    ],
    ['a number out of range', { json_string: '[1e999]', operation: 'format' }, /1e999/],
    ['depth bomb', { json_string: '['.repeat(100_000), operation: 'format' }, /nested deeper/],
    [
      'growth bomb',
      {
        json_string: '{"a":[1,2,3]}',
        operation: 'patch',
        patch: Array.from({ length: 40 }, (_, i) => ({ op: 'copy', from: '', path: `/k${i}` })),
      },
      /larger|longer|MB|ended/,
    ],
    [
      'ReDoS in JSONPath',
      { json_string: JSON.stringify(['a'.repeat(40) + '!']), operation: 'query', query: "$[?match(@, '(a+)+')]" },
      /longer than 2000 ms/,
    ],
  ])('%s is a clear fault', async (_name, args, message) => {
    const fault = await json(args).catch((error: unknown) => error);
    expect(isToolError(fault)).toBe(true);
    expect((fault as Error).message).toMatch(message);
  });

  it('treats __proto__ in data as an ordinary key', async () => {
    const { result } = await json({ json_string: '{"__proto__":{"x":1}}', operation: 'merge', patch: { y: 2 } });
    expect(JSON.stringify(result)).toBe('{"__proto__":{"x":1},"y":2}');
    expect(({} as { x?: number }).x).toBeUndefined();
  });
});
