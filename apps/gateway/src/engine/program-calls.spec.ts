import { blankResult, ToolError, type CallRequest, type JsonObject, type Principal } from '@toolfleet/contracts';
import type { Call } from '@toolfleet/engine';
import { SystemClock } from '@toolfleet/resilience';
import { beforeEach, describe, expect, it } from 'vitest';
import { ProgramCalls } from './program-calls.js';

const principal = { tenantId: 'acme', userId: 'ann', roles: [], tools: ['*'], via: 'delegation' } as const;
const response = { ok: true, output: { value: 1 }, text: '1', metadata: { status: 'ok' } };
const LONG = 'x'.repeat(300);

let made: CallRequest[];
let respond: (request: CallRequest) => Promise<ReturnType<typeof blankResult>>;
beforeEach(() => {
  made = [];
  respond = async ({ rawArguments }) => blankResult({ ok: true, output: rawArguments ?? null, text: 'ok' });
});

function program(args: JsonObject = {}, acceptedAt?: number): ProgramCalls {
  const call = {
    callId: 'call-1',
    arguments: args,
    signal: new AbortController().signal,
    deadline: { remainingMs: () => 10_000 },
    request: { context: {}, deadlineAt: Date.now() + 10_000, acceptedAt },
  } as unknown as Call;
  return new ProgramCalls(call, 'token', {
    clock: new SystemClock(),
    executeCall: (request) => {
      made.push(request);
      return respond(request);
    },
    authenticate: async () => principal as Principal,
    search: async () => [],
    describe: async () => Promise.reject(new ToolError('TOOL_NOT_FOUND')),
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
    const answer = await program().answer(question(3));
    expect(answer).toMatchObject({ n: 3, ok: true, output: { a: 3 } });
    expect(made).toMatchObject([
      { toolName: 'add', principal, door: 'program', idempotencyKey: 'call-1#3', keyForEffects: true },
    ]);
  });

  it('has a key whatever its tool does when another gateway may take the program over', async () => {
    await program({}, 1_700_000_000_000).answer(question(1));
    expect(made[0]?.keyForEffects).toBe(false);
  });

  it('that is repeated gets the answer again and is not called again, also while it runs', async () => {
    const calls = program();
    const [first, second] = await Promise.all([calls.answer(question(1)), calls.answer(question(1))]);
    expect(await calls.answer(question(1))).toEqual(first);
    expect(second).toEqual(first);
    expect(made).toHaveLength(1);
  });

  it.each([null, 7, 'text', {}, { n: 0 }, { n: 1.5 }, { n: 1, op: 'call' }, { n: 1, op: 'steal' }])(
    'that is malformed is refused: %j',
    async (malformed) => {
      expect(await program().answer(malformed)).toMatchObject({ code: 'REQUEST_INVALID' });
      expect(made).toEqual([]);
    },
  );

  it('beyond the calls of a program is refused', async () => {
    const calls = program({ max_calls: 2 });
    for (const n of [1, 2]) expect(await calls.answer(question(n))).toMatchObject({ ok: true });
    expect(await calls.answer(question(3))).toMatchObject({ code: 'PROGRAM_LIMIT', retryable: false });
  });

  it('is refused once the calls have cost what the program may spend', async () => {
    respond = async () => blankResult({ ok: true, usage: { tokens: 0, microUsd: 1_000 } });
    const calls = program({ max_cost_usd: 0.001 });
    expect(await calls.answer(question(1))).toMatchObject({ ok: true, cost_usd: 0.001 });
    expect(await calls.answer(question(2))).toMatchObject({ code: 'PROGRAM_LIMIT' });
    expect(calls.end(response).metadata).toMatchObject({ calls_cost_usd: 0.001 });
  });
});

describe('a program that takes another path in its second run', () => {
  it.each([
    ['another tool', question(1, { tool: 'subtract' })],
    ['other arguments', question(1, { arguments: { a: 2 } })],
  ])('(%s) ends as unknown, with both calls', async (_what, other) => {
    const calls = program();
    await calls.answer(question(1));
    expect(await calls.answer(other)).toMatchObject({ code: 'OUTCOME_UNKNOWN', other_path: true });
    const ended = calls.end(response);
    expect(ended).toMatchObject({ ok: false, failure: { code: 'OUTCOME_UNKNOWN', details: { n: 1 } } });
    expect(ended.failure?.details?.['expected']).toBe('["call","add",{"a":1}]');
  });

  it('is seen by what comes late in long arguments', async () => {
    const calls = program();
    await calls.answer(question(1, { arguments: { text: `${LONG}a` } }));
    expect(await calls.answer(question(1, { arguments: { text: `${LONG}b` } }))).toMatchObject({ other_path: true });
  });

  it('is seen by the key when another gateway made the first run', async () => {
    respond = () => Promise.reject(new ToolError('IDEMPOTENCY_MISMATCH'));
    const calls = program({}, 1);
    expect(await calls.answer(question(1))).toMatchObject({ other_path: true });
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
  const answer = calls.answer(question(1));
  await new Promise((resolve) => setImmediate(resolve));
  const { metadata } = calls.end({ ...response, ok: false });
  expect(metadata).toMatchObject({ calls: [{ n: 1, tool: 'add', ok: false, key: 'call-1#1', code: 'CANCELLED' }] });
  expect(await answer).toMatchObject({ code: 'CANCELLED' });
  expect(stopped).toBe(true);
});
