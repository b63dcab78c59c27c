import { ToolError, type CallRequest, type CallResult, type JsonObject } from '@toolfleet/contracts';
import { FakeClock } from '@toolfleet/testing';
import { aRequest, anEngine, okReply, over, ScriptedExecutor } from '@toolfleet/testing/engine-fixture';
import { expect, test } from 'vitest';
import { callRecord, MAX_BATCH, readBatch, runBatch } from './batch.js';
import type { ExecuteCall } from './execute-call.js';

const clock = new FakeClock();
const LIMITS = { parallelism: 5, deadlineAt: clock.now() + 120_000, clock };
const openAi = (id: string, args: unknown, name = 'adder') => ({
  id,
  type: 'function',
  function: { name, arguments: args },
});
const result = (output: number): CallResult => ({
  ok: true,
  output,
  text: '',
  provenance: 'live',
  usage: { tokens: 0, microUsd: 0 },
  metadata: {},
  timing: { queue_ms: 0, wait_ms: 0, execute_ms: 0 },
  attempts: 1,
});
const run = (execute: ExecuteCall, body: unknown, parallelism = 5) =>
  runBatch(execute, readBatch(body), (item, args) => aRequest(clock, { toolName: item.name, rawArguments: args }), {
    ...LIMITS,
    parallelism,
  });

test('reads OpenAI tool calls, Shannon requests and native calls, with arguments as object or text', () => {
  const items = readBatch([
    openAi('call_a', '{"a":1}'),
    { tool_name: 'adder', parameters: { a: 2 } },
    { name: 'adder', arguments: { a: 3 }, id: 'mine' },
    openAi('call_d', ''),
    openAi('call_e', '{"a":'),
    openAi('call_f', '[1]'),
  ]);
  expect(items.map((item) => item.id)).toEqual(['call_a', 'call_1', 'mine', 'call_d', 'call_e', 'call_f']);
  expect(items.slice(0, 4).map((item) => item.arguments)).toEqual([{ a: 1 }, { a: 2 }, { a: 3 }, {}]);
  expect(items[4]?.arguments).toBeInstanceOf(ToolError);
  expect(items[5]?.arguments).toBeInstanceOf(ToolError);
});

test.each<[string, unknown]>([
  ['no array', {}],
  ['an item that is no object', ['x']],
  ['an item without a name', [{ arguments: {} }]],
  ['an idempotency key that is no text', [{ name: 'adder', idempotency_key: 5 }]],
  ['too many', Array.from({ length: MAX_BATCH + 1 }, () => ({ name: 'adder' }))],
])('refuses the whole batch: %s', (_, body) => {
  expect(() => readBatch(body)).toThrow(expect.objectContaining({ code: 'REQUEST_INVALID' }));
});

test('keeps the order, limits concurrency and isolates failures', async () => {
  let [running, most] = [0, 0];
  const execute: ExecuteCall = async (request) => {
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
    if (request.rawArguments.a === 3) throw new ToolError('TOOL_NOT_FOUND');
    return result(request.rawArguments.a as number);
  };
  const answers = await run(
    execute,
    [1, 2, 3, 4, 5, 6, 7].map((a) => openAi(`c${a}`, { a })),
    2,
  );
  expect(most).toBe(2);
  expect(
    answers.map((answer) => (answer.outcome instanceof ToolError ? answer.outcome.code : answer.outcome.output)),
  ).toEqual([1, 2, 'TOOL_NOT_FOUND', 4, 5, 6, 7]);
});

test('runs equal items once and marks the others with the id of the first', async () => {
  const {
    call,
    executor,
    clock: ticking,
  } = anEngine({ idempotent: false }, new ScriptedExecutor(() => okReply('sent')));
  const execute: ExecuteCall = (request) => call({ rawArguments: request.rawArguments });
  const answers = await over(
    ticking,
    10,
    run(execute, [openAi('c1', { a: 1, b: 2 }), openAi('c2', '{"b":2,"a":1}'), openAi('c3', { a: 2, b: 2 })]),
  );
  expect(executor.calls).toHaveLength(2);
  const records = answers.map(callRecord);
  expect(records.map(({ id, skipped, success }) => [id, skipped, success])).toEqual([
    ['c1', false, true],
    ['c2', true, true],
    ['c3', false, true],
  ]);
  expect(JSON.parse(records[1]?.result ?? '')).toMatchObject({
    success: true,
    output: 'sent',
    metadata: { skipped: true, duplicate_of: 'c1' },
  });
});

test('items with different sessions or idempotency keys are different calls', async () => {
  const ran: unknown[] = [];
  const item = (session: string | undefined, key?: string) => ({
    ...openAi('c', { a: 1 }),
    ...(session === undefined ? {} : { session_context: { session_id: session } }),
    ...(key === undefined ? {} : { idempotency_key: key }),
  });
  const items = readBatch([item('s1'), item('s2'), item('s1'), item('s1', 'k1'), item('s1', 'k2'), item('s1', 'k1')]);
  const answers = await runBatch(
    async (request) => {
      ran.push([request.context.session_id, request.idempotencyKey]);
      return result(1);
    },
    items,
    ({ source, fields }, rawArguments) =>
      aRequest(clock, {
        rawArguments,
        context: { user_id: 'u', session_id: (source.session_context as JsonObject | undefined)?.session_id as string },
        idempotencyKey: fields.idempotency_key,
      }),
    LIMITS,
  );
  expect(ran).toEqual([
    ['s1', undefined],
    ['s2', undefined],
    ['s1', 'k1'],
    ['s1', 'k2'],
  ]);
  expect(answers.map(({ duplicateOf }) => duplicateOf !== undefined)).toEqual([false, false, true, false, false, true]);
});

test.each<[string, Partial<CallRequest>]>([
  ['project', { context: { project_id: 'b' } }],
  ['user', { context: { project_id: 'a', user_id: 'bob' } }],
  ['dry run', { context: { project_id: 'a' }, dryRun: true }],
  ['approval', { context: { project_id: 'a' }, approved: { questions: ['yes'], revision: 'r1' } }],
])('items that differ only in their %s are different calls', async (_, second) => {
  let runs = 0;
  const requests: Partial<CallRequest>[] = [{ context: { project_id: 'a' } }, second];
  const answers = await runBatch(
    async () => result((runs += 1)),
    readBatch([openAi('c1', { a: 1 }), openAi('c2', { a: 1 })]),
    (_item, rawArguments, index) => aRequest(clock, { rawArguments, ...requests[index] }),
    LIMITS,
  );
  expect(runs).toBe(2);
  expect(answers.map(({ duplicateOf }) => duplicateOf)).toEqual([undefined, undefined]);
});

test('a request that cannot be built refuses the batch before anything has run', async () => {
  const ran: unknown[] = [];
  const answers = runBatch(
    async (request) => {
      ran.push(request.rawArguments);
      return result(1);
    },
    readBatch([openAi('c1', { a: 1 }), openAi('c2', { a: 2 })]),
    (item, rawArguments) => {
      if (item.id === 'c2') throw new ToolError('REQUEST_INVALID');
      return aRequest(clock, { rawArguments });
    },
    LIMITS,
  );
  await expect(answers).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
  expect(ran).toEqual([]);
});

test('arguments nested too deep to serialize fail their item only', async () => {
  const deep = `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
  const [good, bad] = await run(async () => result(1), [openAi('c1', { a: 1 }), openAi('c2', deep)]);
  expect(callRecord(good!).success).toBe(true);
  expect(callRecord(bad!)).toMatchObject({ success: false, function: { arguments: deep } });
});

test('arguments as text with a number that would lose digits fail their item only', async () => {
  const [good, bad] = await run(
    async () => result(1),
    [openAi('c1', { a: 1 }), openAi('c2', '{"a":9007199254740993}')],
  );
  expect(callRecord(good!).success).toBe(true);
  expect(bad!.outcome).toMatchObject({
    code: 'ARGUMENTS_INVALID',
    message: expect.stringContaining('send it as a string'),
  });
});

test('renders the record of an item', async () => {
  const [good, refused, unreadable] = (
    await run(
      async (request) => {
        if (request.rawArguments.a === 0)
          throw new ToolError('BUDGET_EXCEEDED', { message: 'Budget exceeded for request' });
        return result(5);
      },
      [openAi('call_1', '{"a":5}'), openAi('call_2', { a: 0 }), openAi('call_3', '{"a"')],
    )
  ).map(callRecord);
  expect(good).toEqual({
    id: 'call_1',
    type: 'function',
    function: { name: 'adder', arguments: '{"a":5}' },
    result: expect.any(String) as string,
    success: true,
    skipped: false,
    execution_time: 0,
  });
  expect(JSON.parse(refused?.result ?? '')).toMatchObject({
    success: false,
    error: 'Budget exceeded for request',
    metadata: { code: 'BUDGET_EXCEEDED' },
  });
  expect(unreadable).toMatchObject({ success: false, function: { arguments: '{"a"' } });
});
