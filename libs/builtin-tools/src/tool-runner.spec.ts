import { ToolError } from '@toolfleet/contracts';
import type { ExecMessage } from '@toolfleet/contracts/execution';
import { SystemClock } from '@toolfleet/resilience';
import { expect, test } from 'vitest';
import { defineTool } from './builtin-tool.js';
import { ToolRunner } from './tool-runner.js';

const FACTS = { begun: 'no', delivered: true, blame: 'executor', noResponders: true, status: 503 } as const;

const failing = (plugin: boolean, throws: boolean) => {
  const error = new ToolError('TOOL_ERROR', { message: 'out of order', facts: FACTS });
  const tool = defineTool({
    name: 'probe',
    description: 'Fails',
    category: 'test',
    inputSchema: { type: 'object' },
    handler: () => {
      if (throws) throw error;
      return { output: 1, text: '', failure: error };
    },
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
