import { describe, expect, it } from 'vitest';
import type { ContentBlock } from './call.js';
import type { Json } from '@toolfleet/base/json';
import { toAttachments, toContentFile, toOutputFile, type ResultFile } from './result-files.js';

const PNG = 'iVBORw0KGgo=';
const body = (output: unknown, content?: ContentBlock[], metadata = {}) => ({
  output,
  text: 'words',
  metadata,
  content,
});
const shown = (file: ResultFile | undefined) =>
  file && [
    file.name,
    file.contentType,
    Buffer.from(file.bytes).toString(file.name.endsWith('.png') ? 'base64' : 'utf8'),
  ];

describe('the output as a file', () => {
  it.each<[string, Json, object, string[]]>([
    ['no output', null, {}, ['tool.txt', 'text/plain; charset=utf-8', 'words']],
    ['text', 'ü', {}, ['tool.txt', 'text/plain; charset=utf-8', 'ü']],
    [
      'text of an upstream',
      'a,b',
      { content_type: 'text/CSV; charset=latin1' },
      ['tool.csv', 'text/csv; charset=utf-8', 'a,b'],
    ],
    ['text of a strange type', 'a', { content_type: 'x\r\nEvil: 1' }, ['tool.txt', 'text/plain; charset=utf-8', 'a']],
    ['JSON', { a: [1] }, {}, ['tool.json', 'application/json; charset=utf-8', '{\n  "a": [\n    1\n  ]\n}\n']],
    [
      'bytes of an operation',
      { content_base64: PNG, content_type: 'image/png', bytes: 8 },
      {},
      ['tool.png', 'image/png', PNG],
    ],
    [
      'a file read as base64',
      { path: 'a/b.png', content: PNG, encoding: 'base64' },
      {},
      ['b.png', 'application/octet-stream', PNG],
    ],
    [
      'content that is not base64',
      { content_base64: 'no!' },
      {},
      ['tool.json', 'application/json; charset=utf-8', '{\n  "content_base64": "no!"\n}\n'],
    ],
  ])('%s', (_what, output, metadata, expected) => {
    expect(shown(toOutputFile(body(output, undefined, metadata), 'tool'))).toEqual(expected);
  });
});

describe('a content block as a file', () => {
  it.each<[ContentBlock, string[] | undefined]>([
    [{ type: 'image', data: PNG, mimeType: 'image/png' }, ['tool.png', 'image/png', PNG]],
    [{ type: 'text', text: 'hello' }, ['tool.txt', 'text/plain; charset=utf-8', 'hello']],
    [
      { type: 'resource', resource: { uri: 'file:///r/%C3%BCber%20b.md?x', mimeType: 'text/markdown', text: '#' } },
      ['über_b.md', 'text/markdown; charset=utf-8', '#'],
    ],
    [
      { type: 'resource', resource: { uri: 'x://host/../../.ssh', text: 's' } },
      ['ssh.txt', 'text/plain; charset=utf-8', 's'],
    ],
    [
      { type: 'resource', resource: { uri: 'x://host', blob: 'aGk', mimeType: 'a/b\nc' } },
      ['tool.bin', 'application/octet-stream', 'hi'],
    ],
    [{ type: 'resource_link', uri: 'x://doc', name: 'doc' }, undefined],
    [{ type: 'image', data: 5 }, undefined],
  ])('%j', (block, expected) => {
    expect(shown(toContentFile(block, 'tool'))).toEqual(expected);
  });
});

it('attachments are numbered, and leave out text and links', () => {
  const picture = { type: 'image', data: PNG, mimeType: 'image/png' };
  // A client with types of its tools has an unknown output.
  const names = (output: unknown, content?: ContentBlock[]) =>
    toAttachments(body(output, content), 'a.tool').map(({ name }) => name);
  expect(names('words', [{ type: 'text', text: 'words' }, picture])).toEqual(['a_tool.png']);
  expect(names(null, [picture, { type: 'resource_link', uri: 'x://d', name: 'd' }, picture])).toEqual([
    'a_tool-1.png',
    'a_tool-3.png',
  ]);
  expect(names({ content_base64: PNG, content_type: 'image/png' })).toEqual(['a_tool.png']);
  expect(names({ a: 1 })).toEqual([]);
});
