import { anEngine, okReply, ScriptedExecutor } from '@toolfleet/testing/engine-fixture';
import { describe, expect, it } from 'vitest';

const BOOKS = { books: [{ title: 'A' }, { title: 'B' }], total: 2 };
const engine = (tool = {}, reply = okReply(BOOKS)) => anEngine(tool, new ScriptedExecutor(() => reply));

describe('select', () => {
  it('gives the selection as output and text', async () => {
    const { call } = engine();
    expect(await call({ select: '$.books[*].title' })).toMatchObject({
      ok: true,
      output: ['A', 'B'],
      text: '["A","B"]',
      metadata: { select: { expression: '$.books[*].title', matched: true } },
    });
    expect(await call({ select: 'books[1].title' })).toMatchObject({ output: 'B', text: 'B' });
  });

  it('applies to text that is JSON', async () => {
    const { call } = engine({}, okReply('{"a": [1, 9007199254740993]}'));
    expect((await call({ select: 'a[1]' })).output).toBe(9007199254740993n);
    const textOnly = engine({}, okReply(null, { text: '[{"id": 7}]' }));
    expect((await textOnly.call({ select: '[0].id' })).output).toBe(7);
  });

  it('refuses an invalid expression before the tool runs, with the position of the error', async () => {
    const { call, executor } = engine();
    await expect(call({ select: '$.books[' })).rejects.toMatchObject({
      code: 'REQUEST_INVALID',
      message: expect.stringMatching(/^Invalid select: .*end of input found at position 8$/),
      details: { fields: ['select'], position: 8 },
    });
    await expect(call({ select: 'a b', mode: { kind: 'admit' } })).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
    await expect(call({ select: 'a b', mode: { kind: 'dry' } })).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
    expect(executor.calls).toHaveLength(0);
  });

  it('explains an expression that matches nothing, with the shape of the result', async () => {
    const { call } = engine();
    const none = await call({ select: '$.items[*]' });
    expect(none).toMatchObject({ ok: true, output: [], metadata: { select: { matched: false } } });
    expect(none.text).toBe(
      `select "$.items[*]" matches nothing in the result of 'adder', which is {books: [2 × {title: string}], total: number}`,
    );
    expect(await call({ select: 'items' })).toMatchObject({ output: null, metadata: { select: { matched: false } } });
  });

  it('each call selects from the same cached result', async () => {
    const { call, executor } = engine();
    expect((await call({ select: 'total' })).output).toBe(2);
    expect(await call({ select: 'books[0].title' })).toMatchObject({ output: 'A', provenance: 'cache' });
    expect(await call()).toMatchObject({ output: BOOKS, provenance: 'cache' });
    expect(executor.calls).toHaveLength(1);
  });

  it('a repeated idempotency key gets the first outcome with its own selection', async () => {
    const { call, executor } = engine({ idempotent: false });
    const key = { idempotencyKey: 'k' };
    expect((await call({ ...key, select: 'total' })).output).toBe(2);
    const replay = await call({ ...key, select: 'books[0].title' });
    expect(replay).toMatchObject({ output: 'A', replayOf: expect.any(String) });
    expect((await call(key)).output).toEqual(BOOKS);
    expect(executor.calls).toHaveLength(1);
  });

  it('takes the selection of the tool unless the call has one', async () => {
    const { call } = engine({ select: 'books[*].title' });
    expect((await call()).output).toEqual(['A', 'B']);
    expect((await call({ select: 'total' })).output).toBe(2);
    expect(await call({ select: '@' })).toMatchObject({ output: BOOKS, metadata: {} });
  });

  it('leaves failures whole and keeps pictures and the mark of a substitute', async () => {
    const picture = { type: 'image', data: 'AA==', mimeType: 'image/png' };
    const rich = engine({}, okReply(BOOKS, { content: [{ type: 'text', text: 'all of it' }, picture] }));
    expect((await rich.call({ select: 'total' })).content).toEqual([{ type: 'text', text: '2' }, picture]);
    const down = anEngine(
      { stub_data: BOOKS },
      new ScriptedExecutor(() => {
        throw new Error('down');
      }),
    );
    expect(await down.call({ select: 'total' })).toMatchObject({
      output: 2,
      text: expect.stringMatching(/^Substitute data.* 2$/),
    });
    const failing = engine({}, { ...okReply({ reason: 'no' }), ok: false, text: 'no such book' });
    expect(await failing.call({ select: 'total' })).toMatchObject({ ok: false, output: { reason: 'no' } });
  });
});
