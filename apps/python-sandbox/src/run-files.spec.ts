import type { Json } from '@toolfleet/contracts';
import { expect, it } from 'vitest';
import { fileBlock, fileFacts, recordTable } from './run-files.js';

const file = (name: string, content: string | number[]) => ({ name, bytes: Buffer.from(content as string) });

it.each([
  ['out/a b.csv', 'x,y\n', { uri: 'file:///data/out/a%20b.csv', mimeType: 'text/csv', text: 'x,y\n' }],
  ['plot.SVG', '<svg/>', { uri: 'file:///data/plot.SVG', mimeType: 'image/svg+xml', text: '<svg/>' }],
  ['data.json', '{}', { uri: 'file:///data/data.json', mimeType: 'application/json', text: '{}' }],
  ['latin.txt', [0xe4], { uri: 'file:///data/latin.txt', mimeType: 'text/plain', blob: '5A==' }],
  ['noend', 'ab', { uri: 'file:///data/noend', mimeType: 'application/octet-stream', blob: 'YWI=' }],
])('%s is an embedded resource with its type', (name, content, resource) => {
  expect(fileBlock(file(name, content))).toEqual({ type: 'resource', resource });
  expect(fileFacts(file(name, content))).toEqual({ name, content_type: resource.mimeType, bytes: content.length });
});

it('a picture is a block that models see', () => {
  expect(fileBlock(file('p.png', [1, 2]))).toEqual({ type: 'image', data: 'AQI=', mimeType: 'image/png' });
});

it('a list of records is a table', () => {
  const rows: Json = [
    { name: 'a|b', n: 1 },
    { name: 'two\nlines', n: null, ok: true },
  ];
  expect(recordTable(rows)).toBe('| name | n | ok |\n| --- | --- | --- |\n| a\\|b | 1 |  |\n| two lines |  | true |');
});

it.each<[string, Json]>([
  ['one record', [{ a: 1 }]],
  ['numbers', [1, 2]],
  ['mixed values', [{ a: 1 }, 2]],
  ['nested records', [{ a: { b: 1 } }, { a: 1 }]],
  ['records without members', [{}, {}]],
  ['long cells', [{ a: 'x'.repeat(201) }, { a: '' }]],
  ['many columns', [Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`c${i}`, i])), {}]],
])('not a table: %s', (_what, value) => {
  expect(recordTable(value)).toBeUndefined();
});
