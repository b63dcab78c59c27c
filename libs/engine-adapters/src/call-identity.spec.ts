import * as fc from 'fast-check';
import { isToolError, type ExchangeSession, type JsonObject } from '@toolfleet/contracts';
import type { ExecResponse } from '@toolfleet/contracts/execution';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import {
  Executor,
  makeExecuteCall,
  MemorySessionResults,
  ResultCache,
  toExecMessage,
  type Call,
  type ExecuteCall,
} from '@toolfleet/engine';
import { RedisJournal } from '@toolfleet/journal';
import { SystemClock } from '@toolfleet/resilience';
import { startRedis, type RedisServer } from '@toolfleet/testing';
import { aRequest, aTool, okReply, type RequestFields } from '@toolfleet/testing/engine-fixture';
import { memoryPorts } from '@toolfleet/testing/memory-ports';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SignedTokens, delegationIssuer } from '@toolfleet/access';
import { RedisResultCache } from './redis-result-cache.js';

const clock = new SystemClock();
const delegate = delegationIssuer(new SignedTokens('x'.repeat(32), clock), clock);

/** Fields of one attempt: its number, fence and time. Everything else of the message may decide what a tool answers. */
const OF_THE_ATTEMPT = ['call_id', 'attempt', 'fence', 'journalled', 'entry', 'deadlineShortened'];

/** A tool that answers with everything it can observe: the message as executors receive it. */
class Mirror extends Executor {
  runs = 0;

  override async execute(call: Call): Promise<ExecResponse> {
    this.runs += 1;
    const message = JSON.parse(JSON.stringify(toExecMessage(call, delegate(call)))) as JsonObject;
    await clock.sleep(1); // long enough for concurrent calls to meet
    return okReply(Object.fromEntries(Object.entries(message).filter(([field]) => !OF_THE_ATTEMPT.includes(field))));
  }
}

class NoCache extends ResultCache {
  override get = () => ({ version: undefined });
  override version = () => undefined;
  override getStale = () => undefined;
  override set = () => {};
  override drop = () => {};
}

const ARGUMENTS = { type: 'object', properties: { a: {}, session_id: {} } };
/** Every kind of declaration that decides what a tool receives, as a definition with effects and as one without. */
const TOOLS: readonly RegisteredTool[] = [
  { name: 'blind' },
  { name: 'session', session_aware: true },
  { name: 'user', context_keys: ['user_id' as const] },
  { name: 'project', context_keys: ['project_id' as const] },
  { name: 'model', context_keys: ['model' as const, 'prompt_params' as const] },
  {
    name: 'all',
    session_aware: true,
    context_keys: ['project_id' as const, 'model' as const, 'prompt_params' as const],
  },
].flatMap((tool) => [
  aTool({ ...tool, input_schema: ARGUMENTS, revision: tool.name }),
  aTool({ ...tool, name: `${tool.name}_uncached`, input_schema: ARGUMENTS, cache_ttl_seconds: 0 }),
  aTool({ ...tool, name: `${tool.name}_plugin`, input_schema: ARGUMENTS, source: { kind: 'plugin', name: 'plugin' } }),
  // Effects drop the cached results of their own source, so these have another one.
  aTool({
    ...tool,
    name: `${tool.name}_effect`,
    input_schema: ARGUMENTS,
    idempotent: false,
    source: { kind: 'plugin', name: 'effects' },
  }),
]);
const AGENT = aTool({ name: 'agent', binding: { kind: 'builtin', toolset: 'agent', handler: 'agent' } });

let redis: RedisServer;
let shared: { execute: ExecuteCall; mirror: Mirror };
/** Runs a call on its own: what its tool answers when nothing is shared. */
let alone: ExecuteCall;

beforeAll(async () => {
  redis = await startRedis();
  const client = redis.client();
  await client.ping();
  const mirror = new Mirror();
  shared = {
    mirror,
    execute: makeExecuteCall(
      memoryPorts([...TOOLS, AGENT], mirror, {
        clock,
        cache: new RedisResultCache(client, clock),
        journal: new RedisJournal(client, clock),
        sessionResults: new MemorySessionResults(clock),
      }),
    ),
  };
  alone = makeExecuteCall(
    memoryPorts([...TOOLS, AGENT], new Mirror(), {
      clock,
      cache: new NoCache(),
      sessionResults: { get: () => undefined, put: () => {} },
    }),
  );
});
afterAll(() => redis.stop());

const maybe = <T>(...values: T[]) => fc.constantFrom(undefined, ...values);
const dropUndefined = (value: object) => JSON.parse(JSON.stringify(value)) as JsonObject;

/** Requests that differ in everything a caller, a credential or an entry point can vary. */
const request: fc.Arbitrary<RequestFields> = fc
  .record({
    toolName: fc.constantFrom(...TOOLS.map(({ name }) => name)),
    rawArguments: fc.constantFrom<JsonObject>({ a: 1 }, { a: '1' }),
    principal: fc.record({
      tenantId: fc.constantFrom('acme', 'list'),
      userId: fc.constantFrom('ann', 'bob'),
      roles: fc.constantFrom<string[]>([], ['admin']),
      tools: fc.constant(['*']),
      via: fc.constantFrom('api_key' as const, 'delegation' as const),
      keyId: fc.constantFrom('key1', 'key2'),
    }),
    origin: fc.constantFrom('public' as const, 'internal' as const),
    entryPoint: fc.constantFrom('http' as const, 'nats' as const),
    context: fc
      .record({
        session_id: maybe('s'),
        user_id: maybe('ann', 'cid'),
        project_id: maybe('p', 'q'),
        model: maybe('m'),
        prompt_params: maybe({ x: 1 }),
        create_project: maybe(true, false),
      })
      .map(dropUndefined),
    exchangeSession: maybe<ExchangeSession>({ id: 's', scope: 'connection' }, { id: 'm', scope: 'principal' }),
    idempotencyKey: maybe(undefined, undefined, 'k'),
    requestId: maybe('r'),
    agentId: maybe('g'),
  })
  .map(({ idempotencyKey, requestId, agentId, ...rest }) => ({
    ...rest,
    ...(idempotencyKey ? { idempotencyKey } : {}),
    ...(requestId ? { requestId } : {}),
    ...(agentId ? { agentId } : {}),
  }));

describe('calls that share a result', () => {
  test('property: two calls that differ in anything their tool observes never share one', async () => {
    let answered = 0;
    let refused = 0;
    const before = shared.mirror.runs;
    await fc.assert(
      fc.asyncProperty(fc.array(request, { minLength: 6, maxLength: 12 }), async (requests) => {
        const outcomes = await Promise.all(
          requests.map((parts) =>
            shared.execute(aRequest(clock, { idempotencyWaitMs: 1_000, ...parts })).catch((error: unknown) => error),
          ),
        );
        for (const [index, outcome] of outcomes.entries()) {
          const { idempotencyKey: _key, ...parts } = requests[index]!;
          if (isToolError(outcome)) {
            // A key that was used for another call: no answer at all.
            expect(outcome.code).toBe('IDEMPOTENCY_MISMATCH');
            refused += 1;
            continue;
          }
          const own = await alone(aRequest(clock, parts));
          expect(outcome).toMatchObject({ ok: true, output: own.output });
          answered += 1;
        }
      }),
      { numRuns: 150 },
    );
    // The property would also hold for an engine that shares nothing. How much is shared depends on how soon Redis answers.
    expect(shared.mirror.runs - before).toBeLessThan(answered);
    expect(refused).toBeGreaterThan(0);
  });

  test('property: an idempotency key never returns the call of another user', async () => {
    await fc.assert(
      fc.asyncProperty(request, request, fc.uuid(), async (one, other, idempotencyKey) => {
        const userOf = ({ principal, origin, context }: RequestFields) => [
          principal?.tenantId,
          principal?.userId,
          origin === 'internal' ? (context?.user_id ?? principal?.userId) : principal?.userId,
        ];
        fc.pre(String(userOf(one)) !== String(userOf(other)));
        await shared.execute(aRequest(clock, { ...one, idempotencyKey }));
        const runs = shared.mirror.runs;
        await shared.execute(aRequest(clock, { ...one, ...other, idempotencyKey }));
        expect(shared.mirror.runs).toBe(runs + 1);
      }),
      { numRuns: 100 },
    );
  });

  test('calls that differ in what their tool cannot observe share one', async () => {
    const parts = { toolName: 'project', rawArguments: { a: 'shared' }, origin: 'internal' as const };
    const context = { project_id: 'p' };
    await shared.execute(aRequest(clock, { ...parts, context }));
    const again = await shared.execute(
      aRequest(clock, { ...parts, context: { ...context, model: 'm', user_id: 'x' } }),
    );
    expect(again.provenance).toBe('cache');
  });

  test('a tool that acts with a token of its caller never shares a result', async () => {
    const runs = shared.mirror.runs;
    const call = () => shared.execute(aRequest(clock, { toolName: 'agent', context: { session_id: 's' } }));
    await Promise.all([call(), call()]);
    await call();
    expect(shared.mirror.runs - runs).toBe(3);
  });
});
