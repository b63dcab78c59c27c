import type { CallResult, Json, JsonObject } from '@toolfleet/contracts';
import { SIZES } from '@toolfleet/contracts/subjects';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import {
  anEngine,
  aRequest,
  aTool,
  failedReply,
  okReply,
  over,
  ScriptedExecutor,
} from '@toolfleet/testing/engine-fixture';
import { describe, expect, test } from 'vitest';
import { makeExecuteCall } from '../execute-call.js';
import type { InterceptedCall, Interception, Interceptor, InterceptorPlace } from '../interceptor.js';
import { Meter, type ApprovalRequest, type EnginePorts, type PolicyRequest } from '../ports.js';

type Intercept = Interceptor['intercept'];

const interceptor = (at: InterceptorPlace, intercept: Intercept, parts: Partial<Interceptor> = {}): Interceptor => ({
  name: 'house',
  at: [at],
  timeoutMs: 100,
  failsOpen: false,
  watches: () => true,
  intercept,
  ...parts,
});

const PRICE = 10;

/** An engine with interceptors, whose tool costs 10 micro-USD and answers "a secret". */
function intercepted(
  interceptors: Interceptor[],
  tool: Partial<RegisteredTool> = {},
  executor = new ScriptedExecutor(() => okReply('a secret', { text: 'a secret' })),
  ports: Partial<EnginePorts> = {},
) {
  const counted: string[] = [];
  class Counting extends Meter {
    override intercepted({ interceptor: name, did }: Interception): void {
      counted.push(`${name} ${did}`);
    }
  }
  const engine = anEngine({ cost_per_use_micro_usd: PRICE, ...tool }, executor);
  const execute = makeExecuteCall({ ...engine.ports, interceptors, meter: new Counting(), ...ports });
  const call = (parts: Parameters<typeof aRequest>[1] = {}) => execute(aRequest(engine.clock, parts));
  const recorded = () => engine.audit.records.at(-1)?.call.interceptions;
  return { ...engine, call, counted, recorded };
}

const goesOn: Intercept = (_, next) => next();
const denies: Intercept = () => ({ deny: 'closed today' });
const hides: Intercept = async (_, next) => (await next(), { output: 'hidden', text: 'hidden' });
const adds =
  (change: JsonObject): Intercept =>
  (call, next) =>
    next({ arguments: { ...call.arguments, ...change } });
/** Never settles: a place to wait that has no time-out of its own. */
const forever = () => new Promise<never>(() => {});

describe('an interceptor that goes on', () => {
  test('sees a copy of every call with coerced arguments, and leaves call and answer as they are', async () => {
    const seen: InterceptedCall[] = [];
    const { call, executor, recorded, counted } = intercepted([
      interceptor('call', (one, next) => {
        seen.push(structuredClone(one));
        one.arguments.a = 99;
        return next();
      }),
    ]);
    const result = await call({ rawArguments: { a: '5' } });
    const known = { tenant_id: 'acme', user_id: 'ann', tool: 'adder', at: 'call', mode: 'run' };
    expect(seen).toMatchObject([{ ...known, arguments: { a: 5, b: 1 }, attempt: 1 }]);
    expect(executor.calls[0]?.arguments).toEqual({ a: 5, b: 1 });
    expect(result.metadata).not.toHaveProperty('interceptors');
    expect([recorded(), counted]).toEqual([undefined, []]);
  });

  test('does not see calls of tools that it does not watch', async () => {
    const { call } = intercepted([interceptor('call', denies, { watches: ({ name }) => name !== 'adder' })]);
    expect(await call()).toMatchObject({ ok: true });
  });

  test('goes on once, and cannot make a result of a refusal', async () => {
    const twice = intercepted([
      interceptor('call', async (_, next) => {
        await next();
        return next();
      }),
    ]);
    expect(await twice.call()).toMatchObject({ ok: false, failure: { code: 'RESULT_WITHHELD' } });
    expect([twice.executor.calls.length, twice.budget.spent]).toEqual([1, PRICE]);
    const swallows = intercepted([interceptor('call', (_, next) => next().catch(() => ({ text: 'fine' })))], {
      rate_limit: 1,
    });
    await swallows.call();
    await expect(swallows.call({ rawArguments: { a: 2 } })).rejects.toMatchObject({ code: 'RATE_LIMITED' });
    expect(swallows.audit.records.at(-1)).toMatchObject({ ok: false, code: 'RATE_LIMITED' });
  });
});

describe('an interceptor that refuses', () => {
  test('ends a call before anything is reserved, and its record has it', async () => {
    const { call, executor, budget, audit, counted, recorded } = intercepted([interceptor('call', denies)]);
    await expect(call()).rejects.toMatchObject({
      code: 'POLICY_DENIED',
      message: "Interceptor 'house' refuses 'adder': closed today",
      details: { interceptor: 'house', reasons: ['closed today'] },
    });
    expect([executor.calls.length, budget.held.size]).toEqual([0, 0]);
    expect(audit.records.at(-1)).toMatchObject({ ok: false, code: 'POLICY_DENIED' });
    expect(recorded()).toEqual([{ interceptor: 'house', did: 'refused' }]);
    expect(counted).toEqual(['house refused']);
  });

  test('also refuses dry runs, and calls before they are accepted for later', async () => {
    const seen: string[] = [];
    const { call } = intercepted([interceptor('call', ({ mode }) => (seen.push(mode), { deny: 'closed today' }))]);
    for (const kind of ['dry', 'admit'] as const)
      await expect(call({ mode: { kind } })).rejects.toMatchObject({ code: 'POLICY_DENIED' });
    expect(seen).toEqual(['dry', 'admit']);
  });

  test('withholds a result when it has gone on: the call ran, costs its price, and shows nothing', async () => {
    const deniesLater: Intercept = async (_, next) => (await next(), { deny: 'too much' });
    for (const at of ['call', 'result'] as const) {
      const { call, budget } = intercepted([interceptor(at, deniesLater)]);
      const result = await call();
      expect(result).toMatchObject({ ok: false, output: null, failure: { code: 'RESULT_WITHHELD', retryable: false } });
      expect(JSON.parse(result.text)).toMatchObject({ tool: 'adder', message: expect.stringContaining('withholds') });
      expect(JSON.stringify(result)).not.toContain('a secret');
      expect([budget.spent, result.usage.microUsd]).toEqual([PRICE, PRICE]);
    }
  });

  test('hides the words of a failure and not that its effect may have happened', async () => {
    const executor = new ScriptedExecutor(() => failedReply('OUTCOME_UNKNOWN', { message: 'a secret' }));
    const { call } = intercepted(
      [interceptor('result', async (_, next) => (await next(), { deny: 'no' }))],
      {},
      executor,
    );
    const result = await call();
    expect(result.failure).toMatchObject({ code: 'OUTCOME_UNKNOWN' });
    expect(JSON.stringify(result)).not.toContain('a secret');
  });

  const again: Partial<RegisteredTool> = {
    idempotent: true,
    retry_policy: { kind: 'custom', max_attempts: 3, base_delay_ms: 0, multiplier: 1 },
  };

  test('an attempt: the first like a call, a later one withholds the result', async () => {
    const first = intercepted([interceptor('attempt', denies)]);
    await expect(first.call()).rejects.toMatchObject({ code: 'POLICY_DENIED' });
    expect([first.executor.calls.length, first.budget.spent]).toEqual([0, 0]);
    const once: Intercept = ({ attempt }, next) => (attempt > 1 ? { deny: 'once is enough' } : next());
    const failing = new ScriptedExecutor(() => failedReply('NETWORK_ERROR'));
    const later = intercepted([interceptor('attempt', once)], again, failing);
    const result = await over(later.clock, 10_000, later.call());
    expect(result).toMatchObject({ ok: false, failure: { code: 'RESULT_WITHHELD' } });
    expect(failing.calls).toHaveLength(1);
  });
});

describe('an interceptor that changes arguments', () => {
  test('has the tool called with them, and result, record and dry run show it', async () => {
    const { call, executor, recorded } = intercepted([interceptor('call', adds({ b: '7' }))]);
    const changed = { interceptor: 'house', did: 'changed_arguments' };
    expect(await call()).toMatchObject({ ok: true, metadata: { interceptors: [changed] } });
    expect(executor.calls[0]?.input.arguments).toEqual({ a: 1, b: 7 });
    expect(recorded()).toEqual([changed]);
    expect(await call({ mode: { kind: 'dry' } })).toMatchObject({ output: { arguments: { a: 1, b: 7 } } });
  });

  test('has the policy asked about them: one that denies ends the call', async () => {
    const decided: JsonObject[] = [];
    const policy = {
      decide: ({ arguments: args }: PolicyRequest) => {
        decided.push(args);
        return args.b === 1 ? { allowed: true as const } : { allowed: false as const, reasons: ['b is limited'] };
      },
    };
    const { call, executor, audit } = intercepted([interceptor('call', adds({ b: 7 }))], {}, undefined, { policy });
    await expect(call()).rejects.toMatchObject({ code: 'POLICY_DENIED', message: 'b is limited' });
    expect(decided).toEqual([
      { a: 1, b: 1 },
      { a: 1, b: 7 },
    ]);
    expect([executor.calls.length, audit.records.at(-1)?.call.policy?.decision]).toEqual([0, 'denied']);
  });

  test('has people asked about them, once, and the approval is for the changed call', async () => {
    const policy = { decide: () => ({ allowed: true as const, ask: ['Delete it?'] }) };
    const asked: ApprovalRequest[] = [];
    const approvals = {
      useGrant: async () => undefined,
      ask: (request: ApprovalRequest) => (asked.push(request), Promise.reject(request.refusal)),
      askForProgram: () => Promise.reject(new Error('not a program')),
    };
    let b = 7;
    const changing = interceptor('call', (call, next) => next({ arguments: { ...call.arguments, b } }));
    const { call, executor } = intercepted([changing], { revision: 'r' }, undefined, { policy, approvals });
    await expect(call()).rejects.toMatchObject({ code: 'APPROVAL_REQUIRED' });
    expect(asked.map((request) => request.call.arguments)).toEqual([{ a: 1, b: 7 }]);
    const { fingerprint } = asked[0]!.required;
    const given = { id: 'approval', questions: ['Delete it?'], revision: 'r', fingerprint };
    expect(await call({ approval: { asks: false, given } })).toMatchObject({ ok: true });
    expect(executor.calls[0]?.arguments).toEqual({ a: 1, b: 7 });
    b = 8;
    await expect(call({ approval: { asks: false, given } })).rejects.toMatchObject({ code: 'APPROVAL_INVALIDATED' });
  });

  test('changes what the call shares: an idempotency key is for the changed arguments', async () => {
    let b = 7;
    const changing = interceptor('call', (call, next) => next({ arguments: { ...call.arguments, b } }));
    const { call } = intercepted([changing], { idempotent: false });
    const key = { idempotencyKey: 'k' };
    await call(key);
    expect((await call(key)).replayOf).toBeDefined();
    b = 8;
    await expect(call(key)).rejects.toMatchObject({ code: 'IDEMPOTENCY_MISMATCH' });
  });

  test('may set no invalid ones, none that are dangerous, and none that the toolset sets', async () => {
    const invalid = intercepted([interceptor('call', adds({ b: 'many' }))]);
    await expect(invalid.call()).rejects.toMatchObject({
      code: 'POLICY_DENIED',
      message: expect.stringMatching(/'house' refuses 'adder': it changed the arguments to invalid ones: .*b/),
    });
    const dangerous = intercepted([interceptor('call', adds({ b: 7 }))], {
      dangerous_when: [{ argument: 'b', values: [7] }],
    });
    await expect(dangerous.call()).rejects.toMatchObject({ code: 'TOOL_DANGEROUS' });
    const shown = { preset: { b: 5 }, defaults: {}, hidden: ['b'] };
    const view = { toolset: { name: 'sales', version: 1 }, shownName: 'add', arguments: shown };
    const limited = intercepted([interceptor('call', adds({ a: 2, b: 7 }))]);
    await limited.call({ view, definition: aTool() });
    expect(limited.executor.calls[0]?.arguments).toEqual({ a: 2, b: 5 });
  });

  test('does so at `call` only', async () => {
    const { call, counted } = intercepted([interceptor('attempt', adds({ b: 7 }))]);
    await expect(call()).rejects.toMatchObject({ code: 'POLICY_DENIED' });
    expect(counted).toEqual(['house failed_closed']);
  });
});

describe('an interceptor that answers', () => {
  const answers: Intercept = () => ({ output: { sum: 3 } });

  test.each(['call', 'result', 'attempt'] as const)(
    'at %s takes the place of the tool: charged, limited and recorded',
    async (at) => {
      const { call, executor, budget, audit, recorded, counted } = intercepted([interceptor(at, answers)], {
        rate_limit: 1,
      });
      const answered = { interceptor: 'house', did: 'answered' };
      expect(await call()).toMatchObject({
        ...{ ok: true, output: { sum: 3 }, text: '{"sum":3}', provenance: 'live', attempts: 1 },
        ...{ usage: { microUsd: PRICE }, metadata: { interceptors: [answered] } },
      });
      expect([executor.calls.length, budget.spent, budget.settled.length]).toEqual([0, PRICE, 1]);
      expect(audit.records.at(-1)).toMatchObject({ ok: true, microUsd: PRICE, attempts: 1 });
      expect([recorded(), counted]).toEqual([[answered], ['house answered']]);
      await expect(call({ rawArguments: { a: 2 } })).rejects.toMatchObject({ code: 'RATE_LIMITED' });
    },
  );

  test('is asked again at `call`, and at `result` its answer is cached like a result', async () => {
    const [each, once] = [intercepted([interceptor('call', answers)]), intercepted([interceptor('result', answers)])];
    for (const { call } of [each, once]) await call();
    expect((await each.call()).provenance).toBe('live');
    expect((await once.call()).provenance).toBe('cache');
  });

  test('has its answer replayed for the idempotency key, in its own place and in that of later results', async () => {
    const { call, budget } = intercepted([interceptor('call', answers)], { idempotent: false });
    const key = { idempotencyKey: 'k' };
    expect(await call(key)).toMatchObject({ output: { sum: 3 } });
    const replay = await call(key);
    expect([replay.output, replay.replayOf === undefined, budget.spent]).toEqual([{ sum: 3 }, false, PRICE]);
  });

  test('does not answer dry runs, and says nothing about the tool to its breaker', async () => {
    const { call, ports } = intercepted([interceptor('call', answers)]);
    expect(await call({ mode: { kind: 'dry' } })).toMatchObject({ output: { dry_run: true } });
    ports.breakers.run = () => Promise.reject(new Error('the breaker was asked'));
    expect(await call()).toMatchObject({ ok: true });
  });

  test('is seen by the interceptors inside, and its answer by all that inspect results', async () => {
    const inner = interceptor('call', denies, { name: 'inner' });
    const denied = intercepted([interceptor('call', answers), inner]);
    await expect(denied.call()).rejects.toMatchObject({ message: expect.stringContaining("'inner' refuses") });
    const content = interceptor('result', hides, { name: 'content', inspectsChanges: true });
    const hidden = intercepted([interceptor('call', answers), content]);
    expect(await hidden.call()).toMatchObject({ output: 'hidden' });
  });

  test.each<[string, Json, RegExp]>([
    ['breaks the output schema', { sum: 'three' }, /does not match the output schema: .*sum/],
    ['is too large', { sum: 3, more: 'x'.repeat(SIZES.toolResult) }, /bytes, and at most 5242880 are allowed/],
  ])('is refused when its answer %s', async (_, output, message) => {
    const schema = { type: 'object', properties: { sum: { type: 'number' } } };
    const { call, budget } = intercepted([interceptor('call', () => ({ output }))], { output_schema: schema });
    await expect(call()).rejects.toMatchObject({ code: 'POLICY_DENIED', message: expect.stringMatching(message) });
    expect(budget.spent).toBe(0);
  });
});

describe('an interceptor that changes the answer', () => {
  const changed = { interceptor: 'house', did: 'changed_answer' };

  test('does so before it is cached at `result`, and for each call at `call`', async () => {
    for (const [at, times] of [
      ['result', 1],
      ['call', 2],
    ] as const) {
      let asked = 0;
      const counts: Intercept = async (_, next) => ({ output: `${(await next()).output as string} ${(asked += 1)}` });
      const { call, executor, recorded } = intercepted([interceptor(at, counts)]);
      expect(await call()).toMatchObject({
        output: 'a secret 1',
        text: 'a secret',
        metadata: { interceptors: [changed] },
      });
      expect(recorded()).toEqual([changed]);
      expect(await call()).toMatchObject({ output: `a secret ${times}`, provenance: 'cache' });
      expect([executor.calls.length, asked]).toEqual([1, times]);
    }
  });

  test('is inside of those before it, which see what it made of the answer', async () => {
    const exclaims: Intercept = async (_, next) => ({ text: `${(await next()).text}!` });
    const { call } = intercepted([interceptor('result', exclaims), interceptor('result', hides, { name: 'inner' })]);
    expect(await call()).toMatchObject({
      ...{ output: 'hidden', text: 'hidden!' },
      metadata: { interceptors: [{ interceptor: 'inner', did: 'changed_answer' }, changed] },
    });
  });

  test('does so for replays too, which the journal has as the executor stored them', async () => {
    for (const at of ['result', 'attempt'] as const) {
      const { call } = intercepted([interceptor(at, hides)], { idempotent: false });
      const results: CallResult[] = [await call({ idempotencyKey: 'k' }), await call({ idempotencyKey: 'k' })];
      expect(results.map(({ output }) => output)).toEqual(['hidden', 'hidden']);
      expect(results[1]?.replayOf).toBeDefined();
    }
  });

  test('is inspected: what it adds passes the interceptor of content again', async () => {
    const masks: Intercept = async (_, next) => ({ text: (await next()).text.replaceAll('secret', '***') });
    const content = interceptor('result', masks, { name: 'content', inspectsChanges: true });
    const leaks: Intercept = async (_, next) => ({ text: `${(await next()).text}, secret again` });
    for (const at of ['call', 'result'] as const) {
      const { call } = intercepted([interceptor(at, leaks), content]);
      expect((await call()).text).toBe('a ***, *** again');
    }
  });

  test.each<[string, Json, RegExp]>([
    ['breaks the output schema', { sum: 'three' }, /does not match the output schema/],
    ['is larger than allowed', { sum: 3, more: 'x'.repeat(SIZES.toolResult) }, /at most 5242880 are allowed/],
  ])('withholds a result that %s, also when it fails open', async (_, output, message) => {
    const schema = { type: 'object', properties: { sum: { type: 'number' } } };
    const executor = new ScriptedExecutor(() => okReply({ sum: 3 }));
    const breaks: Intercept = async (_call, next) => (await next(), { output });
    const only = interceptor('result', breaks, { failsOpen: true });
    const { call, budget } = intercepted([only], { output_schema: schema }, executor);
    expect((await call()).failure).toMatchObject({
      ...{ code: 'RESULT_WITHHELD', message: expect.stringMatching(message) },
    });
    expect(budget.spent).toBe(PRICE);
  });

  test('keeps within the size that the caller takes', async () => {
    const grows: Intercept = async (_, next) => (await next(), { text: 'x'.repeat(2_000) });
    const { call } = intercepted([interceptor('call', grows)]);
    expect((await call({ inlineBytes: 1_000 })).failure?.message).toContain('at most 1000 are allowed');
  });

  test('has no way to what a call costs, how often it ran, or what the engine says about it', async () => {
    const cheats: Intercept = async (_, next) => {
      const answer = await next();
      return { ...answer, metadata: { from_cache: true, attempts: 0, cost_usd: 0, note: 'mine' } };
    };
    const told = intercepted([interceptor('call', cheats)]);
    const result = await told.call({ rawArguments: { a: 1, c: 2 } });
    expect(result).toMatchObject({ usage: { microUsd: PRICE }, attempts: 1, metadata: { note: 'mine' } });
    expect(result.metadata).toMatchObject({ dropped_arguments: ['c'] });
    expect(Object.keys(result.metadata)).not.toContain('from_cache');
    expect([told.budget.spent, told.audit.records.at(-1)?.microUsd]).toEqual([PRICE, PRICE]);
    for (const part of [
      { usage: { microUsd: 0, tokens: 0 } },
      { attempts: 0 },
      { replayOf: 'x' },
      { code: 'INTERNAL' },
    ]) {
      const { call, budget, audit } = intercepted([
        interceptor('call', async (_, next) => ({ ...(await next()), ...part })),
      ]);
      expect((await call()).failure).toMatchObject({ code: 'RESULT_WITHHELD' });
      expect([budget.spent, audit.records.at(-1)?.microUsd]).toEqual([PRICE, PRICE]);
    }
  });

  test('is asked about a call that was cancelled, so that its usage is settled', async () => {
    const stop = new AbortController();
    const executor = new ScriptedExecutor(() => {
      stop.abort();
      return failedReply('TOOL_ERROR');
    });
    const { call, budget } = intercepted([interceptor('result', goesOn)], {}, executor);
    await call({ signal: stop.signal });
    expect(budget.settled).toHaveLength(1);
  });

  test('that does not wait for the answer changes nothing about the charge', async () => {
    const hasty: Intercept = (_, next) => (void next(), { text: 'early' });
    const { call, budget } = intercepted([interceptor('attempt', hasty)]);
    expect(await call()).toMatchObject({ output: 'a secret', text: 'early', usage: { microUsd: PRICE } });
    expect(budget.spent).toBe(PRICE);
  });
});

describe('an interceptor that fails', () => {
  const failing: Record<string, () => never | Promise<never>> = {
    throws: () => {
      throw new Error('down');
    },
    'is late': forever,
  };
  const cases = Object.entries(failing).flatMap(([how, fail]) =>
    (['call', 'result', 'attempt'] as const).map((at) => [how, at, fail] as const),
  );

  test.each(cases)(
    '%s before it goes on at %s: refused when it fails closed, else the call passes',
    async (how, at, fail) => {
      const closed = intercepted([interceptor(at, fail)]);
      const message = how === 'throws' ? 'it failed' : 'it did not answer within 100 ms';
      await expect(over(closed.clock, 200, closed.call())).rejects.toMatchObject({
        ...{ code: 'POLICY_DENIED', message: expect.stringContaining(message) },
      });
      const open = intercepted([interceptor(at, fail, { failsOpen: true })]);
      expect(await over(open.clock, 200, open.call())).toMatchObject({ ok: true, output: 'a secret' });
      expect([closed.counted, open.counted]).toEqual([['house failed_closed'], ['house failed_open']]);
      expect([closed.executor.calls.length, open.executor.calls.length]).toEqual([0, 1]);
      expect(open.recorded()).toEqual([{ interceptor: 'house', did: 'failed_open' }]);
    },
  );

  test.each(cases)(
    '%s afterwards at %s: withheld when it fails closed, else the result passes',
    async (_, at, fail) => {
      const after: Intercept = async (_call, next) => {
        await next();
        return fail();
      };
      const closed = intercepted([interceptor(at, after)]);
      const result = await over(closed.clock, 200, closed.call());
      expect(result).toMatchObject({ ok: false, failure: { code: 'RESULT_WITHHELD' }, usage: { microUsd: PRICE } });
      const open = intercepted([interceptor(at, after, { failsOpen: true })]);
      expect(await over(open.clock, 200, open.call())).toMatchObject({ ok: true, output: 'a secret' });
    },
  );

  test('has its own time only: what it went on to may take longer', async () => {
    const slow = new ScriptedExecutor(async ({ signal }) => {
      await clock.sleep(5_000, signal);
      return okReply('late');
    });
    const { call, clock } = intercepted([interceptor('call', goesOn), interceptor('attempt', goesOn)], {}, slow);
    expect(await over(clock, 6_000, call())).toMatchObject({ ok: true, output: 'late' });
  });

  test('is late and then goes on: the call has ended, and its signal is aborted', async () => {
    let release = () => {};
    let late: Promise<unknown> | undefined;
    const signals: AbortSignal[] = [];
    const waits: Intercept = (_, next, signal) => {
      signals.push(signal);
      late = (async () => {
        await new Promise<void>((resolve) => (release = resolve));
        return next();
      })();
      return late as Promise<never>;
    };
    const { call, clock, executor } = intercepted([interceptor('call', waits)]);
    await expect(over(clock, 200, call())).rejects.toMatchObject({ code: 'POLICY_DENIED' });
    expect(signals[0]?.aborted).toBe(true);
    release();
    await expect(late).rejects.toThrow('not when the interceptor is late');
    expect(executor.calls).toHaveLength(0);
  });

  test.each([
    [undefined],
    [false],
    ['text'],
    [{ text: 1 }],
    [{ content: ['x'] }],
    [{ metadata: [] }],
    [{ error: 'x' }],
  ])('returns %j, not a verdict', async (given) => {
    const { call, counted } = intercepted([interceptor('call', () => given as never)]);
    await expect(call()).rejects.toMatchObject({ code: 'POLICY_DENIED' });
    expect(counted).toEqual(['house failed_closed']);
  });
});
