import { expect, it } from 'vitest';
import { EventFrames, sourcePath } from './console-api.js';

it('parses events from chunks of any size and ignores comments', () => {
  const text = ': hello\n\nid: 1-0\nevent: call\ndata: {"a":1}\n\nevent: done\r\ndata: x\r\ndata: y\r\n\r\nid: 9\n\n';
  for (const size of [1, 3, 7, text.length]) {
    const frames = new EventFrames();
    const found = Array.from({ length: Math.ceil(text.length / size) }, (_, index) =>
      frames.push(text.slice(index * size, (index + 1) * size)),
    ).flat();
    expect(found, `chunks of ${size}`).toEqual([
      { id: '1-0', type: 'call', data: '{"a":1}' },
      { id: undefined, type: 'done', data: 'x\ny' },
    ]);
  }
});

it.each([
  ['mcp/crm', '', '/api/v1/sources/mcp/crm?visibility=fleet'],
  ['openapi/pets@acme', '', '/api/v1/sources/openapi/pets%40acme'],
  ['mcp/crm', '/refresh', '/api/v1/sources/mcp/crm/refresh?visibility=fleet'],
])('the source %s%s is at %s', (id, action, path) => {
  expect(sourcePath(id, action)).toBe(path);
});
