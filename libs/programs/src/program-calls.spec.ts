import {
  succeeded,
  ToolError,
  type CallRequest,
  type CallResult,
  type JsonObject,
  type Principal,
} from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { Call } from '@toolfleet/engine';
import { SystemClock } from '@toolfleet/resilience';
import { beforeEach, describe, expect, it } from 'vitest';
import { ProgramCalls } from './program-calls.js';

const principal = { tenantId: 'acme', userId: 'ann', roles: [], tools: ['*'], via: 'delegation' } as const;
const response = { ok: true, output: { value: 1 }, text: '1', metadata: { status: 'ok' } };
const LONG = 'x'.repeat(300);
const BYTES = 300;

let made: CallRequest[];
let respond: (request: CallRequest) => Promise<CallResult>;
beforeEach(() => {
  made = [];
  priceMicroUsd = 0;
  respond = async ({ input }) => succeeded({ output: input.rawArguments ?? null, text: 'ok' });
});

let priceMicroUsd: number;

function program(args: JsonObject = {}, acceptedAt?: number): ProgramCalls {
  const call = {
    callId: 'call-1',
    arguments: args,
    signal: new AbortController().signal,
    deadline: { remainingMs: () => 10_000 },
    request: {
      context: {},
      limits: { deadlineAt: Date.now() + 10_000 },
      reuse: {},
      mode: acceptedAt === undefined ? { kind: 'run' } : { kind: 'resume', acceptedAt, mayHaveBegun: false },
    },
    active: {
      makeCall: (request: CallRequest) => {
        made.push(request);
        return respond(request);
      },
    },
  } as unknown as Call;
  return new ProgramCalls(call, 'token', {
    clock: new SystemClock(),
    authenticate: async () => principal as Principal,
    search: async () => [],
    describe: async (_caller, name) => {
      if (name === 'missing') throw new ToolError('TOOL_NOT_FOUND');
      return { name, cost_per_use_micro_usd: priceMicroUsd } as RegisteredTool;
    },
    shelf: { keep: async ({ callId }) => ({ handle: callId, expiresAt: 0 }) },
  });
}

const question = (n: number, fields: JsonObject = {}) => ({
  n,
  op: 'call',
  tool: 'add',
  arguments: { a: n },
  ...fields,
});

describe('a question', () => {
  it('becomes a call with the rights of the caller and its own key', async () => {
    const answer = await program().answer(question(3), BYTES);
    expect(answer).toMatchObject({ n: 3, ok: true, output: { a: 3 } });
    expect(made).toMatchObject([
      {
        target: { toolName: 'add' },
        principal,
        entryPoint: 'program',
        reuse: { idempotencyKey: 'call-1#3', keyForEffects: true },
      },
    ]);
  });

  it('has a key whatever its tool does when another gateway may take the program over', async () => {
    await program({}, 1_700_000_000_000).answer(question(1), BYTES);
    expect(made[0]?.reuse.keyForEffects).toBe(false);
  });

  it('that is repeated gets the answer again and is not called again, also while it runs', async () => {
    const calls = program();
    const [first, second] = await Promise.all([calls.answer(question(1), BYTES), calls.answer(question(1), BYTES)]);
    expect(await calls.answer(question(1), BYTES)).toEqual(first);
    expect(second).toEqual(first);
    expect(made).toHaveLength(1);
  });

  it.each([null, 7, 'text', {}, { n: 0 }, { n: 1.5 }, { n: 1, op: 'call' }, { n: 1, op: 'steal' }])(
    'that is malformed is refused: %j',
    async (malformed) => {
      expect(await program().answer(malformed, BYTES)).toMatchObject({ code: 'REQUEST_INVALID' });
      expect(made).toEqual([]);
    },
  );

  it('beyond the calls of a program is refused', async () => {
    const calls = program({ max_calls: 2 });
    for (const n of [1, 2]) expect(await calls.answer(question(n), BYTES)).toMatchObject({ ok: true });
    expect(await calls.answer(question(3), BYTES)).toMatchObject({ code: 'PROGRAM_LIMIT', retryable: false });
  });

  it('that is too large, or one of too many bytes, is refused and not kept', async () => {
    const calls = program();
    const large = 1024 * 1024;
    expect(await calls.answer(question(1), 2 * large)).toMatchObject({ n: 1, code: 'PROGRAM_LIMIT' });
    for (let n = 1; n <= 72; n += 1) await calls.answer(question(n), large);
    expect(await calls.answer(question(73), large)).toMatchObject({
      code: 'PROGRAM_LIMIT',
      message: expect.stringContaining('questions of a program may have'),
    });
    expect(made).toHaveLength(50);
  });

  it('is refused while the open ones have too many bytes', async () => {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    respond = () => released.then(() => succeeded());
    const calls = program();
    const open = Array.from({ length: 16 }, (_, index) => calls.answer(question(index + 1), 1024 * 1024));
    expect(await calls.answer(question(17), 1)).toMatchObject({
      code: 'PROGRAM_LIMIT',
      message: expect.stringContaining('open questions'),
    });
    release();
    await Promise.all(open);
    expect(await calls.answer(question(17), 1)).toMatchObject({ ok: true });
  });

  it.each<JsonObject>([{ tool: 'x'.repeat(257) }, { op: 'search', query: 'x'.repeat(4_001) }])(
    'with a long name or search is refused',
    async (fields) => {
      const answer = await program().answer(question(1, fields), BYTES);
      expect(answer).toMatchObject({ code: 'REQUEST_INVALID', message: expect.stringContaining('characters') });
      expect(made).toEqual([]);
    },
  );

  it('is refused once the calls have cost what the program may spend', async () => {
    respond = async () => succeeded({ usage: { tokens: 0, microUsd: 1_000 } });
    const calls = program({ max_cost_usd: 0.001 });
    expect(await calls.answer(question(1), BYTES)).toMatchObject({ ok: true, cost_usd: 0.001 });
    expect(await calls.answer(question(2), BYTES)).toMatchObject({ code: 'PROGRAM_LIMIT' });
    expect(calls.end(response).metadata).toMatchObject({ calls_cost_usd: 0.001 });
  });
});

describe('the highest cost of calls', () => {
  const costing = (microUsd: number) => async () => succeeded({ usage: { tokens: 0, microUsd } });
  const eightAtOnce = async (calls: ProgramCalls, from = 1) => {
    const answers = Array.from({ length: 8 }, (_, index) => calls.answer(question(from + index), BYTES));
    return (await Promise.all(answers)).filter(({ ok }) => ok === true).length;
  };

  it('is never exceeded by calls that run at the same time', async () => {
    priceMicroUsd = 1_000;
    respond = costing(1_000);
    const calls = program({ max_cost_usd: 0.003_5 });
    expect(await eightAtOnce(calls)).toBe(3);
    expect(calls.end(response).metadata).toMatchObject({ calls_cost_usd: 0.003 });
  });

  it('holds the price of a call until it ends, and what it costs after that', async () => {
    priceMicroUsd = 1_000;
    const calls = program({ max_cost_usd: 0.003 });
    respond = costing(0);
    expect(await eightAtOnce(calls)).toBe(3);
    respond = () => Promise.reject(new ToolError('TOOL_ERROR'));
    expect(await calls.answer(question(20), BYTES)).toMatchObject({ code: 'TOOL_ERROR' });
    respond = costing(1_000);
    expect(await eightAtOnce(calls, 30)).toBe(3);
    expect(made).toHaveLength(7);
  });

  it('counts a tool without a price by the highest cost that it had', async () => {
    respond = costing(1_000);
    const calls = program({ max_cost_usd: 0.003 });
    expect(await calls.answer(question(1), BYTES)).toMatchObject({ ok: true });
    expect(await eightAtOnce(calls, 2)).toBe(2);
  });

  it('does not hide why a call is refused', async () => {
    respond = () => Promise.reject(new ToolError('TOOL_NOT_FOUND'));
    expect(await program({ max_cost_usd: 1 }).answer(question(1, { tool: 'missing' }), BYTES)).toMatchObject({
      code: 'TOOL_NOT_FOUND',
    });
  });
});

describe('a program that takes another path in its second run', () => {
  it.each([
    ['another tool', question(1, { tool: 'subtract' })],
    ['other arguments', question(1, { arguments: { a: 2 } })],
  ])('(%s) ends as unknown, with both calls', async (_what, other) => {
    const calls = program();
    await calls.answer(question(1), BYTES);
    expect(await calls.answer(other, BYTES)).toMatchObject({ code: 'OUTCOME_UNKNOWN', other_path: true });
    const ended = calls.end(response);
    expect(ended).toMatchObject({ ok: false, failure: { code: 'OUTCOME_UNKNOWN', details: { n: 1 } } });
    expect(ended.failure?.details?.['expected']).toBe('["call","add",{"a":1}]');
  });

  it('is seen by what comes late in long arguments', async () => {
    const calls = program();
    await calls.answer(question(1, { arguments: { text: `${LONG}a` } }), BYTES);
    expect(await calls.answer(question(1, { arguments: { text: `${LONG}b` } }), BYTES)).toMatchObject({
      other_path: true,
    });
  });

  it('is seen by the key when another gateway made the first run', async () => {
    respond = () => Promise.reject(new ToolError('IDEMPOTENCY_MISMATCH'));
    const calls = program({}, 1);
    expect(await calls.answer(question(1), BYTES)).toMatchObject({ other_path: true });
    expect(calls.end(response).failure?.code).toBe('OUTCOME_UNKNOWN');
  });
});

it('lists calls that are cut at the end, and stops them', async () => {
  let stopped = false;
  respond = ({ signal }) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => {
        stopped = true;
        reject(new ToolError('CANCELLED'));
      });
    });
  const calls = program();
  const answer = calls.answer(question(1), BYTES);
  await new Promise((resolve) => setImmediate(resolve));
  const { metadata } = calls.end({ ...response, ok: false });
  expect(metadata).toMatchObject({ calls: [{ n: 1, tool: 'add', ok: false, key: 'call-1#1', code: 'CANCELLED' }] });
  expect(await answer).toMatchObject({ code: 'CANCELLED' });
  expect(stopped).toBe(true);
});
