import { ToolError } from '@toolfleet/contracts';
import type { ExecMessage } from '@toolfleet/contracts/execution';
import { SIZES } from '@toolfleet/contracts/subjects';
import { SystemClock } from '@toolfleet/resilience';
import { expect, test } from 'vitest';
import { defineTool, type ToolOutcome } from './builtin-tool.js';
import { ToolRunner } from './tool-runner.js';

const FACTS = { begun: 'no', delivered: true, blame: 'executor', noResponders: true, status: 503 } as const;

const failing = (plugin: boolean, throws: boolean) => {
  const error = new ToolError('TOOL_ERROR', { message: 'out of order', facts: FACTS });
  return run(plugin, () => {
    if (throws) throw error;
    return { output: 1, text: '', failure: error };
  });
};

const run = (plugin: boolean, handler: () => ToolOutcome) => {
  const tool = defineTool({
    name: 'probe',
    description: 'A tool',
    category: 'test',
    inputSchema: { type: 'object' },
    handler,
  });
  const clock = new SystemClock();
  const runner = new ToolRunner([plugin ? { ...tool, build: 'a1b2' } : tool], {}, clock);
  const message: ExecMessage = {
    call_id: 'c-1',
    tool: 'probe',
    revision: 'r',
    arguments: {},
    attempt: 1,
    fence: 0,
    journalled: false,
    binding: { kind: 'builtin', handler: 'probe', toolset: 'compute' },
    context: { tenant_id: 'acme' },
  };
  return runner.run(message, { signal: new AbortController().signal, deadlineAt: clock.now() + 1_000 });
};

test.each([true, false])('a plugin cannot say that its attempt never began (throws: %s)', async (throws) => {
  const { failure } = await failing(true, throws);
  expect(failure?.facts).toEqual({ delivered: true, status: 503 });
});

test.each([true, false])('a tool of the fleet can (throws: %s)', async (throws) => {
  expect((await failing(false, throws)).failure?.facts).toEqual(FACTS);
});

test.each([true, false])('a result above the limit fails, with its size and its cost (plugin: %s)', async (plugin) => {
  const usage = { tokens: 7, microUsd: 0 };
  const bytes = SIZES.toolResult;
  const sized = (size: number) => run(plugin, () => ({ output: 'x'.repeat(size), text: 'large', usage }));
  expect(await sized(bytes - 1_000)).toMatchObject({ ok: true });
  expect(await sized(bytes)).toMatchObject({
    ok: false,
    output: null,
    usage,
    failure: { code: 'RESULT_TOO_LARGE', details: { limit: bytes } },
  });
});

test('pictures count elsewhere: they are left out where they do not fit', async () => {
  const content = [{ type: 'text' as const, text: 'x'.repeat(SIZES.toolResult) }];
  expect(await run(true, () => ({ output: null, text: 'drawn', content }))).toMatchObject({ ok: true, content });
});
