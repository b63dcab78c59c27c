import { anEngine, okReply, ScriptedExecutor } from '@toolfleet/testing/engine-fixture';
import type { ResultReading } from '@toolfleet/contracts';
import { MemoryShelf } from '@toolfleet/testing/memory-ports';
import { expect, it } from 'vitest';

const ROWS = { rows: Array.from({ length: 200 }, (_, id) => ({ id, name: `row ${id}` })), total: 200 };
const engine = (reply = okReply(ROWS)) => {
  const made = anEngine({}, new ScriptedExecutor(() => reply));
  return { ...made, shelf: made.ports.shelf as MemoryShelf };
};

it('gives a handle and a summary in place of a large result, and keeps it whole', async () => {
  const { call, shelf } = engine();
  const { output, text, content, metadata } = await call({ callId: 'c1', inlineBytes: 2_000 });
  expect(output).toBeNull();
  expect(text).toContain(`has ${JSON.stringify(ROWS).length} bytes`);
  expect(text).toContain('Shape: {rows: [200 × {id: number, name: string}], total: number}');
  expect(text).toContain('read_result {"handle":"c1","offset":2000}');
  expect(text).toContain('It begins with: {"rows":[{"id":0,');
  expect(content?.at(-1)).toMatchObject({ type: 'resource_link', uri: 'toolfleet://results/c1' });
  expect(metadata.result_handle).toMatchObject({ handle: 'c1', chars: JSON.stringify(ROWS).length });
  expect(shelf.kept.get('c1')).toMatchObject({ output: ROWS });
});

it.each<[ResultReading, string]>([
  [{ by: 'tool', tool: 'look' }, 'with look {"handle":"c1","select":"<JSONPath or JMESPath>"}, or a page with look {'],
  [
    { by: 'call_tool', tool: 'read_result' },
    'call_tool {"name":"read_result","arguments":{"handle":"c1","offset":2000}}',
  ],
  [
    { by: 'program', function: 'tools.look' },
    'in a program with tools.look(handle="c1", select="<JSONPath or JMESPath>")',
  ],
  [{ by: 'resource' }, 'or a page as toolfleet://results/c1?offset=2000.'],
])('names the way that its caller has to read on: %j', async (resultReading, way) => {
  const { call } = engine();
  const { text } = await call({ callId: 'c1', inlineBytes: 2_000, resultReading });
  expect(text.split('\n')[2]).toContain(way);
});

it('returns small, selected, unlimited and unstorable results whole', async () => {
  const { call, shelf } = engine();
  expect((await call()).output).toEqual(ROWS);
  expect((await call({ inlineBytes: 1_000_000 })).output).toEqual(ROWS);
  expect((await call({ inlineBytes: 100, select: 'total' })).output).toBe(200);
  expect(shelf.kept.size).toBe(0);
  shelf.keep = async () => undefined;
  expect((await call({ inlineBytes: 100 })).output).toEqual(ROWS);
});

it('keeps long text, and lets pictures through', async () => {
  const picture = { type: 'image', data: 'AA==', mimeType: 'image/png' };
  const long = 'é'.repeat(2_000);
  const { call, shelf } = engine(okReply(long, { content: [{ type: 'text', text: long }, picture] }));
  const { text, content, metadata } = await call({ callId: 'c2', inlineBytes: 3_999 });
  expect(text).toContain('has 4000 bytes (2000 characters)');
  expect(content).toEqual([{ type: 'text', text }, picture, expect.objectContaining({ type: 'resource_link' })]);
  expect(metadata.result_handle).toMatchObject({ shape: 'text' });
  expect(shelf.kept.get('c2')?.output).toBe(long);
});
