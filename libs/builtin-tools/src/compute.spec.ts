import { afterAll, describe, expect, it } from 'vitest';
import { isToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import { SystemClock } from '@toolfleet/resilience';
import { getWeather } from './get-weather.tool.js';
import { jsonProcess } from './json-process.tool.js';
import { runTool } from './run-tool.fixture.js';
import { textProcess } from './text-process.tool.js';
import { BoundedWork } from './bounded/bounded-work.js';

const bounded = new BoundedWork(new SystemClock());
afterAll(() => bounded.close());
const json = async (args: JsonObject) =>
  (await runTool(jsonProcess, args, { services: { bounded } })).output as JsonObject;
const text = async (args: JsonObject) =>
  (await runTool(textProcess, args, { services: { bounded } })).output as JsonObject;

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

  it('validates against a schema, naming each fault', async () => {
    const schema = { type: 'object', properties: { a: { type: 'integer' } }, required: ['b'] };
    const { valid, faults } = await json({ json_string: '{"a":"x"}', operation: 'validate', schema });
    expect(valid).toBe(false);
    expect(JSON.stringify(faults)).toMatch(/"a".*"b"|"b".*"a"/);
    expect((await json({ json_string: '{"a":1,"b":2}', operation: 'validate', schema })).valid).toBe(true);
  });

  it('stops a schema that explodes', async () => {
    const $defs: JsonObject = { d40: { type: 'string' } };
    for (let i = 0; i < 40; i++)
      $defs[`d${i}`] = { anyOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] };
    const bomb = { $ref: '#/$defs/d0', $defs };
    await expect(json({ json_string: '1', operation: 'validate', schema: bomb })).rejects.toThrow(/longer than|MB/);
  });

  it('finds differences as a patch that turns one into the other', async () => {
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

  it('keeps __proto__ in data as plain data', async () => {
    const { result } = await json({ json_string: '{"__proto__":{"x":1}}', operation: 'merge', patch: { y: 2 } });
    expect(JSON.stringify(result)).toBe('{"__proto__":{"x":1},"y":2}');
    expect(({} as { x?: number }).x).toBeUndefined();
  });
});

describe('text_process', () => {
  it.each<[JsonObject, JsonObject]>([
    [
      { operation: 'count', text: 'Hello world. Bye!\n\nNew 👩‍👩‍👧 line' },
      { words: 5, lines: 3, paragraphs: 2, sentences: 3, graphemes: 29 },
    ],
    [{ operation: 'case', text: 'hello World fooBar', to: 'snake' }, { result: 'hello_world_foo_bar' }],
    [{ operation: 'case', text: 'hello world', to: 'title' }, { result: 'Hello World' }],
    [{ operation: 'case', text: 'XMLHttpRequest', to: 'kebab' }, { result: 'xml-http-request' }],
    [{ operation: 'case', text: 'one. two', to: 'sentence' }, { result: 'One. Two' }],
    [{ operation: 'case', text: 'max retry count', to: 'camel' }, { result: 'maxRetryCount' }],
    [
      { operation: 'replace', text: 'a.b.c', find: '.', replace_with: '-' },
      { result: 'a-b-c', replaced: 2 },
    ],
    [
      { operation: 'replace', text: 'a.b.c', find: '.', replace_with: '-', limit: 1 },
      { result: 'a-b.c', replaced: 1 },
    ],
    [
      { operation: 'replace', text: 'John Smith', find: '(\\w+) (\\w+)', replace_with: '$2, $1', use_regex: true },
      { result: 'Smith, John', replaced: 1 },
    ],
    [
      {
        operation: 'replace',
        text: '2026-11-21',
        find: '(?<y>\\d+)-(?<m>\\d+)',
        replace_with: '$<m>/$<y> $$ $&',
        use_regex: true,
      },
      { result: '11/2026 $ 2026-11-21' },
    ],
    [
      { operation: 'split', text: 'a, b;c', separator: '[,;] ?', use_regex: true },
      { items: ['a', 'b', 'c'], count: 3 },
    ],
    [{ operation: 'split', text: 'a|b', separator: '|' }, { items: ['a', 'b'] }],
    [
      { operation: 'extract', text: 'Mail a.b@c.org, or x@y.example.', what: 'emails' },
      { items: ['a.b@c.org', 'x@y.example'] },
    ],
    [
      { operation: 'extract', text: 'See https://a.example/x?y=1. Or (http://b.example)', what: 'urls' },
      { items: ['https://a.example/x?y=1', 'http://b.example'] },
    ],
    [{ operation: 'extract', text: '1,234.5 and -7 or 1e3', what: 'numbers' }, { items: ['1,234.5', '-7', '1e3'] }],
    [
      { operation: 'extract', text: 'on 2026-11-21 and May 3, 2025', what: 'dates' },
      { items: ['2026-11-21', 'May 3, 2025'] },
    ],
    [{ operation: 'extract', text: '10.0.0.1 but not 300.1.1.1', what: 'ip_addresses' }, { items: ['10.0.0.1'] }],
    [{ operation: 'extract', text: '#a #b #a', what: 'hashtags', unique: true }, { items: ['#a', '#b'] }],
    [
      { operation: 'similarity', text: 'kitten', other: 'sitting' },
      { distance: 3, ratio: 0.5714 },
    ],
    [{ operation: 'trim', text: '  a   b \n\n c ' }, { result: 'a b\n\nc' }],
    [{ operation: 'lines', text: 'b\na\nb', unique: true, sort: true }, { items: ['a', 'b'] }],
    [
      { operation: 'summary', text: 'Cats purr. Cats sleep.' },
      { unique_words: 3, sentences: 2, average_sentence_words: 2 },
    ],
  ])('%j', async (args, expected) => {
    expect(await text(args)).toMatchObject(expected);
  });

  it('tells matches with groups and positions', async () => {
    const { matches, count, more } = await text({
      operation: 'regex',
      text: 'a1 b22',
      find: '([a-z])(?<n>\\d+)',
      limit: 1,
    });
    expect(matches).toEqual([{ match: 'a1', index: 0, groups: ['a', '1'], named: { n: '1' } }]);
    expect([count, more]).toEqual([1, true]);
  });

  it.each<[string, JsonObject]>([
    ['nested repetition', { operation: 'regex', text: `${'a'.repeat(50)}!`, find: '^(a+)+$' }],
    ['alternation', { operation: 'replace', text: `${'a'.repeat(60)}!`, find: '^(a|aa)+$', use_regex: true }],
    ['split', { operation: 'split', text: `${'x'.repeat(60)}!`, separator: '(x+x+)+y', use_regex: true }],
  ])('stops a pattern that explodes: %s', async (_name, args) => {
    const fault = await text(args).catch((error: unknown) => error);
    expect(isToolError(fault) && fault.message).toMatch(/longer than 1000 ms/);
    expect((await text({ operation: 'regex', text: 'ok', find: 'o' })).count).toBe(1);
  });

  it.each([
    ['a'.repeat(200_000), 'emails'],
    [`${'a.'.repeat(100_000)}@`, 'emails'],
    ['1,'.repeat(100_000), 'numbers'],
    ['http://'.repeat(30_000), 'urls'],
    ['1 '.repeat(100_000), 'phone_numbers'],
    ['#'.repeat(200_000), 'hashtags'],
    ['1.'.repeat(100_000), 'ip_addresses'],
    ['2026-'.repeat(40_000), 'dates'],
  ])('collects from hostile text in linear time (%#)', async (hostile, what) => {
    const startedAt = performance.now();
    await text({ operation: 'extract', text: hostile, what });
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });

  it('stops the work when the caller goes away', async () => {
    const caller = new AbortController();
    const pending = runTool(
      textProcess,
      { operation: 'regex', text: `${'a'.repeat(50)}!`, find: '^(a+)+$' },
      { services: { bounded }, signal: caller.signal },
    );
    queueMicrotask(() => caller.abort(new Error('gone')));
    await expect(pending).rejects.toThrow('gone');
  });
});

describe('get_weather', () => {
  it('is the same every time and says that it is invented', async () => {
    const first = await runTool(getWeather, { city: 'Lisbon' });
    expect(first).toEqual(
      await runTool(getWeather, { city: ' lisbon' }).then((second) => ({
        ...second,
        output: { ...(second.output as JsonObject), city: 'Lisbon' },
        text: first.text,
      })),
    );
    expect(first.output).toMatchObject({ simulated: true, city: 'Lisbon', unit: 'celsius' });
    expect(first.text).toContain('simulated');
    await expect(runTool(getWeather, { city: '123' })).rejects.toThrow(/Not the name/);
  });
});
