import { isToolError, type JsonObject } from '@toolfleet/contracts';
import { SystemClock } from '@toolfleet/resilience';
import { afterAll, describe, expect, it } from 'vitest';
import { BoundedWork } from '../bounded/bounded-work.js';
import { runTool } from '../../spec/run-tool.fixture.js';
import { textProcess } from './text-process.tool.js';

const bounded = new BoundedWork(new SystemClock());
afterAll(() => bounded.close());
const text = async (args: JsonObject) =>
  (await runTool(textProcess, args, { services: { bounded } })).output as JsonObject;

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

  it('returns matches with groups and positions', async () => {
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
    expect(performance.now() - startedAt).toBeLessThan(20_000);
  });

  it.each<[JsonObject]>([
    [{ operation: 'count' }],
    [{ operation: 'summary' }],
    [{ operation: 'trim' }],
    [{ operation: 'case', to: 'title' }],
    [{ operation: 'lines', unique: true, sort: true }],
    [{ operation: 'extract', what: 'emails', unique: true }],
    [{ operation: 'split', separator: '.' }],
    [{ operation: 'replace', find: 'mail', replace_with: '$&' }],
  ])('gives the same answer to long texts, which another process works on: %j', async (args) => {
    const line = '  Write to a.b@example.com ... Or call!  mail\n';
    const short = line.repeat(Math.ceil(8_192 / line.length)).slice(0, 8_190);
    const long = `${short}   `; // three spaces more, so that it is no longer short
    const [here, there] = await Promise.all([text({ ...args, text: short }), text({ ...args, text: long })]);
    expect(Object.keys(there).toSorted()).toEqual(Object.keys(here).toSorted());
    if (args.operation === 'trim' || args.operation === 'extract') expect(there).toEqual(here);
    if (args.operation === 'count') expect(there).toMatchObject({ words: here.words, sentences: here.sentences });
  });

  it('stops when the caller cancels', async () => {
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
