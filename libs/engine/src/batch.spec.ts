import {
  succeeded,
  ToolError,
  type CallRecord,
  type Json,
  type JsonObject,
  type Succeeded,
} from '@toolfleet/contracts';
import { SIZES } from '@toolfleet/contracts/subjects';
import { FakeClock } from '@toolfleet/testing';
import {
  aRequest,
  anEngine,
  okReply,
  over,
  ScriptedExecutor,
  type RequestFields,
} from '@toolfleet/testing/engine-fixture';
import { describe, expect, test } from 'vitest';
import { callRecord, MAX_BATCH, readBatch, renderAnswers, runBatch } from './batch.js';
import { RESULT_FORMATS } from '@toolfleet/contracts/resources';
import type { ExecuteCall } from './call.js';

const clock = new FakeClock();
const LIMITS = { parallelism: 5, deadlineAt: clock.now() + 120_000, clock };
const openAi = (id: string, args: unknown, name = 'adder') => ({
  id,
  type: 'function',
  function: { name, arguments: args },
});
const result = (output: number): Succeeded => succeeded({ output, attempts: 1 });
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

/** Calls as models of the providers send them, with every member that their APIs document. */
const FUNCTION_CALL = {
  type: 'function_call',
  id: 'fc_1',
  call_id: 'call_1',
  name: 'adder',
  arguments: '{"a":1}',
  status: 'completed',
};
const TOOL_USE = { type: 'tool_use', id: 'toolu_1', name: 'adder', input: { a: 1 }, caller: { type: 'direct' } };
const GEMINI_PART = { functionCall: { id: 'g1', name: 'adder', args: { a: 1 } }, thoughtSignature: 'AA==' };

test('reads items of the Responses API, blocks of Anthropic and parts of Gemini', () => {
  const items = readBatch([FUNCTION_CALL, TOOL_USE, { name: 'adder', input: { a: 1 }, call_id: 'mine' }]);
  expect(items.map((item) => [item.id, item.arguments])).toEqual([
    ['call_1', { a: 1 }],
    ['toolu_1', { a: 1 }],
    ['mine', { a: 1 }],
  ]);
  const ofGemini = readBatch([GEMINI_PART, { name: 'adder', args: { a: 1 } }]);
  expect(ofGemini.map((item) => [item.id, item.arguments])).toEqual([
    ['g1', { a: 1 }],
    ['call_1', { a: 1 }],
  ]);
  expect(() => readBatch([{ ...TOOL_USE, inputs: {} }])).toThrow("Item 0: Unknown field 'inputs'");
  expect(() => readBatch([{ name: 'adder', status: 'completed' }])).toThrow("Unknown field 'status'");
});

describe('answers in the shape of the provider', () => {
  const render = async (parts: Partial<Omit<Succeeded, 'ok'>>) =>
    renderAnswers(await run(async () => ({ ...result(5), ...parts }), [FUNCTION_CALL, TOOL_USE]), callRecord);
  const png = { type: 'image', mimeType: 'image/png', data: 'AAAA' };
  const pdf = { type: 'resource', resource: { uri: 'file:///a/b.pdf', mimeType: 'application/pdf', blob: 'BBBB' } };

  test('with the text, else the output as JSON', async () => {
    expect(await render({ output: { sum: 5 } })).toEqual([
      { type: 'function_call_output', call_id: 'call_1', output: '{"sum":5}' },
      { type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: '{"sum":5}' }] },
    ]);
    expect((await render({ text: 'five' }))[0]).toMatchObject({ output: 'five' });
    expect(await render({ output: null })).toMatchObject([{ output: '' }, { content: [] }]);
  });

  test('with pictures and documents, and a note for what the provider does not take', async () => {
    const audio = { type: 'audio', mimeType: 'audio/wav', data: 'CCCC' };
    const link = { type: 'resource_link', uri: 'https://x.example/y', name: 'y' };
    const content = [{ type: 'text', text: 'two' }, png, pdf, audio, link];
    const notes = ['audio (audio/wav, 3 bytes) is not shown here', 'y: https://x.example/y'];
    expect(await render({ content })).toEqual([
      {
        type: 'function_call_output',
        call_id: 'call_1',
        output: [
          { type: 'input_text', text: 'two' },
          { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'auto' },
          { type: 'input_file', filename: 'b.pdf', file_data: 'data:application/pdf;base64,BBBB' },
          ...notes.map((text) => ({ type: 'input_text', text })),
        ],
      },
      {
        type: 'tool_result',
        tool_use_id: 'toolu_1',
        content: [
          { type: 'text', text: 'two' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
          { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'BBBB' } },
          ...notes.map((text) => ({ type: 'text', text })),
        ],
      },
    ]);
  });

  test('with pictures as parts of a function response of Gemini, which has an id only if its call had one', async () => {
    const bare = { name: 'adder', args: { a: 2 } };
    const answers = await run(
      async () => ({ ...result(5), content: [{ type: 'text', text: 'two' }, png] }),
      [GEMINI_PART, bare],
    );
    const response = { output: 'two\nimage (image/png, 3 bytes) is not shown here' };
    const parts = [{ inlineData: { mimeType: 'image/png', data: 'AAAA' } }];
    expect(renderAnswers(answers, callRecord)).toEqual([
      { functionResponse: { id: 'g1', name: 'adder', response, parts } },
      { functionResponse: { name: 'adder', response, parts } },
    ]);
  });

  test('in the format asked for, whatever the shape of the call', async () => {
    const chat = { id: 'call_9', type: 'function', function: { name: 'adder', arguments: '{"a":1}' } };
    const answers = await run(async () => ({ ...result(5), text: 'five' }), [chat]);
    const shown = RESULT_FORMATS.map((format) => renderAnswers(answers, callRecord, format)[0]);
    expect(shown).toEqual([
      { role: 'tool', tool_call_id: 'call_9', content: 'five' },
      { type: 'function_call_output', call_id: 'call_9', output: 'five' },
      { type: 'tool_result', tool_use_id: 'call_9', content: [{ type: 'text', text: 'five' }] },
      { functionResponse: { id: 'call_9', name: 'adder', response: { output: 'five' } } },
    ]);
    const refuse: ExecuteCall = async () => {
      throw new ToolError('RATE_LIMITED', { message: 'Too many calls' });
    };
    const [failure] = renderAnswers(await run(refuse, [chat]), callRecord, 'gemini');
    expect(failure).toMatchObject({ functionResponse: { response: { error: expect.stringContaining('Too many') } } });
  });

  test('with the picture that is the output of an operation', async () => {
    const text = 'Binary content: image/png, 3 bytes';
    const [output] = await render({ text, output: { content_base64: 'AAAA', content_type: 'image/png', bytes: 3 } });
    expect((output as JsonObject).output).toEqual([
      { type: 'input_text', text },
      { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'auto' },
    ]);
  });

  test('with the reason of a refusal and what to do, as an error', async () => {
    const refuse: ExecuteCall = async () => {
      throw new ToolError('RATE_LIMITED', { message: 'Too many calls' });
    };
    const [output, block] = renderAnswers(await run(refuse, [FUNCTION_CALL, TOOL_USE]), callRecord);
    for (const text of [(output as JsonObject).output, JSON.stringify((block as JsonObject).content)]) {
      expect(text).toContain('Too many calls');
      expect(text).toContain('Wait, then retry the same call.');
    }
    expect(block).toMatchObject({ type: 'tool_result', is_error: true });
  });

  test('with a note where content is too large', async () => {
    const large = { ...png, data: 'A'.repeat(SIZES.toolResult) };
    const [output] = await render({ content: [large], text: 'drawn' });
    expect((output as JsonObject).output).toMatch(
      /^drawn\nPictures and files were too large and left out: .*"blocks":1/,
    );
  });
});

test.each<[string, unknown]>([
  ['no array', {}],
  ['an item that is not an object', ['x']],
  ['an item without a name', [{ arguments: {} }]],
  ['an idempotency key that is not a string', [{ name: 'adder', idempotency_key: 5 }]],
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
    if (request.input.rawArguments.a === 3) throw new ToolError('TOOL_NOT_FOUND');
    return result(request.input.rawArguments.a as number);
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
  const execute: ExecuteCall = (request) => call({ rawArguments: request.input.rawArguments });
  const answers = await over(
    ticking,
    10,
    run(execute, [openAi('c1', { a: 1, b: 2 }), openAi('c2', '{"b":2,"a":1}'), openAi('c3', { a: 2, b: 2 })]),
  );
  expect(executor.calls).toHaveLength(2);
  const records = renderAnswers(answers, callRecord) as CallRecord[];
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
      ran.push([request.context.session_id, request.reuse.idempotencyKey]);
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

test.each<[string, RequestFields]>([
  ['project', { context: { project_id: 'b' } }],
  ['user', { context: { project_id: 'a', user_id: 'bob' } }],
  ['dry run', { context: { project_id: 'a' }, mode: { kind: 'dry' } }],
  [
    'approval',
    { context: { project_id: 'a' }, approval: { asks: false, given: { questions: ['yes'], revision: 'r1' } } },
  ],
])('items that differ only in their %s are different calls', async (_, second) => {
  let runs = 0;
  const requests: RequestFields[] = [{ context: { project_id: 'a' } }, second];
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
      ran.push(request.input.rawArguments);
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
  const answers = await run(async () => result(1), [openAi('c1', { a: 1 }), openAi('c2', deep)]);
  const [good, bad] = renderAnswers(answers, callRecord);
  expect(good).toMatchObject({ success: true });
  expect(bad).toMatchObject({ success: false, function: { arguments: deep } });
});

test('arguments as text keep the digits of integers; a number out of range fails its item only', async () => {
  const seen: Json[] = [];
  const [good, bad] = await run(
    async ({ input }) => {
      seen.push(input.rawArguments);
      return result(1);
    },
    [openAi('c1', '{"a":9007199254740993}'), openAi('c2', '{"a":1e999}')],
  );
  expect(seen).toEqual([{ a: 9007199254740993n }]);
  expect(good!.outcome).toMatchObject({ ok: true });
  expect(bad!.outcome).toMatchObject({
    code: 'ARGUMENTS_INVALID',
    message: expect.stringContaining('send it as a string'),
  });
});

test('renders the record of an item', async () => {
  const answers = await run(
    async (request) => {
      if (request.input.rawArguments.a === 0)
        throw new ToolError('BUDGET_EXCEEDED', { message: 'Budget exceeded for request' });
      return result(5);
    },
    [openAi('call_1', '{"a":5}'), openAi('call_2', { a: 0 }), openAi('call_3', '{"a"')],
  );
  const [good, refused, unreadable] = renderAnswers(answers, callRecord) as CallRecord[];
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

test('the JSON texts of a batch have as many names and values together as a body', () => {
  const text = (count: number) => `{"list":[${'1,'.repeat(count)}1]}`;
  const read = (...counts: number[]) =>
    readBatch(counts.map((count) => ({ name: 'x', arguments: text(count) }))).map(({ arguments: args }) =>
      args instanceof ToolError ? args.message : 'read',
    );
  expect(read(20_000, 20_000)).toEqual(['read', 'read']);
  expect(read(20_000, 20_000, 20_000).at(-1)).toContain('50000 names and values');
  expect(read(60_000)).toEqual([expect.stringContaining('50000 names and values')]);
});
