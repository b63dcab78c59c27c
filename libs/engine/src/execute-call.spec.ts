import type { CallRequest, ExecReply, RegisteredTool } from '@toolfleet/contracts';
import { expect, test } from 'vitest';
import { makeExecuteCall } from './execute-call.js';
import { memoryPorts } from './memory/memory-ports.js';
import { Executor } from './ports.js';
import type { Call } from './call.js';

class Fn extends Executor {
  constructor(private readonly run: (call: Call) => Promise<ExecReply>) {
    super();
  }
  override execute(call: Call) {
    return this.run(call);
  }
}
const tool = (over: Partial<RegisteredTool> = {}): RegisteredTool => ({
  name: 'adder',
  version: '1.0.0',
  description: 'adds',
  category: 'data',
  revision: 'r1',
  available: true,
  input_schema: {
    type: 'object',
    properties: { a: { type: 'integer' }, b: { type: 'integer', default: 1 } },
    required: ['a'],
  },
  binding: { kind: 'builtin', toolset: 'compute', handler: 'adder' },
  source: { kind: 'builtin', name: 'builtin' },
  idempotent: true,
  ...over,
});
const request = (over: Partial<CallRequest> = {}): CallRequest => ({
  callId: 'c1',
  toolName: 'adder',
  rawArguments: { a: '2' },
  principal: { tenantId: 't', userId: 'u', roles: [], tools: ['*'], via: 'api_key' },
  origin: 'public',
  door: 'http',
  context: {},
  deadlineAt: Date.now() + 5000,
  signal: new AbortController().signal,
  ...over,
});

test('runs, coerces, caches', async () => {
  const ports = memoryPorts(
    [tool()],
    new Fn(async (c) => ({ ok: true, output: Number(c.arguments.a) + Number(c.arguments.b), text: 'x', metadata: {} })),
  );
  const run = makeExecuteCall(ports);
  expect((await run(request())).output).toBe(3);
  expect((await run(request({ callId: 'c2' }))).provenance).toBe('cache');
  await expect(run(request({ rawArguments: {} }))).rejects.toMatchObject({ code: 'ARGUMENTS_INVALID' });
});
