import type { JsonObject } from '@toolfleet/contracts';
import { describe, expect, it } from 'vitest';
import { readAs, readSent, resultSchema } from './readable.js';

const tool = (name: string, more: JsonObject = {}): JsonObject => ({ name, inputSchema: { type: 'object' }, ...more });

describe('a list', () => {
  it('keeps what is readable and names the rest', () => {
    const dropped: string[] = [];
    const list = {
      tools: [
        tool('good', { annotations: null }),
        tool('null-schema', { inputSchema: null }),
        tool('no-type', { inputSchema: {} }),
        7,
        tool('odd', { annotations: 'x', outputSchema: { $id: 'x.v1' } }),
        { inputSchema: { type: 'object' } },
      ],
      nextCursor: null,
      debug: 1,
    };
    const given = structuredClone(list);
    expect(readAs('ListToolsResult', list, dropped)?.['tools']).toEqual([
      tool('good'),
      tool('no-type'),
      tool('odd', { outputSchema: { $id: 'x.v1' } }),
    ]);
    expect(dropped.toSorted()).toEqual([
      expect.stringMatching(/^null-schema: inputSchema: /),
      expect.stringMatching(/^odd.annotations: /),
      expect.stringMatching(/^tools 3: /),
      expect.stringMatching(/^tools 5: name: /),
    ]);
    expect(list, 'is left as it was').toEqual(given);
  });

  it('that is none is refused, with the reason', async () => {
    const read = await resultSchema('tools/list')['~standard'].validate({ tools: 'none' });
    expect(read.issues?.[0]?.message).toContain('tools');
  });

  it('names a limited number of parts', () => {
    const dropped: string[] = [];
    readAs(
      'ListToolsResult',
      { tools: Array.from({ length: 2_000 }, (_, at) => tool(`t${at}`, { title: 7 })) },
      dropped,
    );
    expect(dropped).toHaveLength(50);
  });
});

describe('results', () => {
  it('of initialize need no name, version or capabilities', () => {
    const read = readAs('InitializeResult', {
      protocolVersion: '2025-11-25',
      serverInfo: { name: 'x', version: null },
    });
    expect(read).toMatchObject({ capabilities: {}, serverInfo: { name: 'x', version: 'unknown' } });
  });

  it('with alternatives are read by the one that they meet best', () => {
    const dropped: string[] = [];
    const messages: JsonObject[] = [
      { role: 'user', content: { type: 'text', text: 'hi', annotations: null, _meta: null } },
      { role: 'user', content: { type: 'video', data: 'AAAA' } },
    ];
    expect(readAs('GetPromptResult', { messages }, dropped)?.['messages']).toEqual([
      { role: 'user', content: { type: 'text', text: 'hi' } },
    ]);
    expect(dropped.join()).toContain('type video');
    const contents: JsonObject[] = [
      { uri: 'x://a', text: 't', mimeType: null },
      { uri: 'x://b', blob: 7 },
    ];
    expect(readAs('ReadResourceResult', { contents })?.['contents']).toEqual([{ uri: 'x://a', text: 't' }]);
  });
});

it('questions and progress are read without their nulls', () => {
  const progress = {
    jsonrpc: '2.0',
    method: 'notifications/progress',
    params: { progressToken: 1, progress: 2, total: null },
  };
  expect(readSent(progress)).toEqual({ ...progress, params: { progressToken: 1, progress: 2 } });
  const requestedSchema = { type: 'object', properties: { a: { type: 'string', title: null } }, required: null };
  const question = { jsonrpc: '2.0', id: 3, method: 'elicitation/create', params: { message: 'm', requestedSchema } };
  expect(readSent(question)).toEqual({
    ...question,
    params: { message: 'm', requestedSchema: { type: 'object', properties: { a: { type: 'string' } } } },
  });
});
