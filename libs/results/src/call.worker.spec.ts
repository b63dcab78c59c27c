import {
  succeeded,
  ToolError,
  type CallBody,
  type CallRequest,
  type CallResult,
  type Principal,
  type Succeeded,
} from '@toolfleet/contracts';
import { SIZES } from '@toolfleet/contracts/subjects';
import type { Journal, JournalRecord } from '@toolfleet/journal';
import { closeRedis, connectRedis, openRedis, RetryLater, StoreGeneration, type JobRun } from '@toolfleet/queue';
import { SystemClock } from '@toolfleet/resilience';
import { eventually, startRedis, type RedisServer } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ApiKeys, CredentialStatus, RedisKeyStore } from '@toolfleet/access';
import { OPERATOR } from '../../access/src/roles.js';
import type { AsyncCallJob } from './call-store.js';
import { callWorker } from './call.worker.js';
import { ParkedCalls } from './parked-calls.js';
import { RedisCallStore } from './redis-call-store.js';

const clock = new SystemClock();
/** Dependencies most cases do not vary: a live credential, a journal without records, tools that must not run twice. */
const quiet = {
  status: { findRefusal: async () => undefined },
  journal: { read: async () => undefined },
  isIdempotent: async () => false,
};
const PICTURE = { type: 'image', mimeType: 'image/png', data: 'iVBORw0KGgo=' };
const LINK = { type: 'resource_link', uri: 'x://doc', name: 'doc' };

let redis: RedisServer;
let store: RedisCallStore;
let generation: StoreGeneration;
beforeAll(async () => {
  redis = await startRedis();
  store = new RedisCallStore(redis.client(), 60, () => clock.now());
  generation = new StoreGeneration(redis.client());
});
afterAll(() => redis?.stop());

const done = (parts: Partial<Succeeded> = {}): Succeeded =>
  succeeded({ output: 'words', text: 'words', attempts: 1, ...parts });

/** Runs one accepted call; what the engine does is given. */
async function run(
  callId: string,
  executeCall: (request: CallRequest) => Promise<CallResult>,
  accept: (body: CallBody) => void = () => undefined,
  userId = 'nats:acme',
  entryPoint = 'nats',
) {
  const principal = { tenantId: 'acme', userId, roles: [], tools: ['*'], via: 'nats_subject' };
  await store.create({ callId, tenantId: 'acme', tool: 'x', state: 'accepted', acceptedAt: clock.now() });
  const published: CallBody[] = [];
  const work = callWorker({
    ...quiet,
    executeCall,
    store,
    generation,
    clock,
    publish: (_subject, body) => {
      accept(body);
      published.push(body);
    },
  });
  const job = {
    jobId: callId,
    data: {
      call_id: callId,
      deadline_at: 0,
      request: { callId, principal, entryPoint, toolName: 'x', rawArguments: {} },
    },
    signal: new AbortController().signal,
    deadlineAt: clock.now() + 10_000,
    queuedMs: 5,
  };
  const kept = await work(job as unknown as JobRun<AsyncCallJob>);
  return { kept, published, record: await store.get(callId), events: await store.events(callId) };
}

it('shows pictures and links of a call in its record, its last event and what is published, and stores them once', async () => {
  const content = [{ type: 'text', text: 'words' }, PICTURE, LINK];
  const { kept, published, record, events } = await run('rich', async () => done({ content }));
  expect(record).toMatchObject({ state: 'succeeded', result: { success: true, text: 'words', content } });
  expect(published).toMatchObject([{ content }]);
  expect(events.at(-1)).toMatchObject({ type: 'done', result: { text: 'words', content } });
  const stored = await redis.client().xrange('{call:rich}:events', '-', '+');
  expect(JSON.stringify([stored, kept])).not.toContain(PICTURE.data);
});

it('publishes of a call over NATS with a key only how it ended, and of others nothing', async () => {
  const metadata = { code: 'secret' };
  const work = async () => done({ content: [PICTURE], metadata });
  const { published, record } = await run('own', work, undefined, 'ann');
  expect(record?.result).toMatchObject({ text: 'words', metadata });
  expect(published).toEqual([
    {
      call_id: 'own',
      success: true,
      output: null,
      text: '',
      error: null,
      execution_time_ms: expect.any(Number),
      usage: { tokens: 100, cost_usd: 0 },
      metadata: { status: 'succeeded', result_omitted: { reason: 'permission', message: expect.any(String) } },
    },
  ]);
  expect((await run('own-http', work, undefined, 'ann', 'http')).published).toEqual([]);
  const error = new ToolError('UPSTREAM_ERROR', { message: 'secret' });
  const failure = await run('own-failure', async () => Promise.reject(error), undefined, 'ann');
  expect(JSON.stringify(failure.published)).not.toContain('secret');
  expect(failure.published).toMatchObject([
    { success: false, error: 'The call ended: failed', metadata: { status: 'failed', code: 'UPSTREAM_ERROR' } },
  ]);
});

it('notes content that is larger than the limit as omitted', async () => {
  const content = [{ ...PICTURE, data: 'A'.repeat(SIZES.toolResult + 1) }];
  const { record } = await run('large', async () => done({ content }));
  expect(record?.result).toMatchObject({ text: 'words', metadata: { content_omitted: { blocks: 1 } } });
  expect(record?.result).not.toHaveProperty('content');
});

it('publishes a result that is too large for a message without its payload', async () => {
  const details = { bytes: 2_000, limit: 1_000 };
  const { kept, published, record } = await run(
    'wide',
    async () => done({ content: [PICTURE] }),
    (body) => {
      if (body.content) throw new ToolError('PAYLOAD_TOO_LARGE', { details });
    },
  );
  expect(kept).toBe('succeeded');
  expect(published).toMatchObject([
    {
      success: true,
      text: 'words',
      output: null,
      metadata: { result_omitted: { reason: 'message_size', ...details } },
    },
  ]);
  expect(published[0]!.content).toBeUndefined();
  expect(record?.result?.content).toEqual([PICTURE]);
});

it('shows progress between start and end', async () => {
  const { events } = await run('steps', async ({ onProgress }) => {
    onProgress?.({ progress: 1, total: 2, message: 'half' });
    return done();
  });
  expect(events.map(({ type }) => type)).toEqual(['accepted', 'started', 'progress', 'done']);
  expect(events[2]).toMatchObject({ progress: 1, total: 2, message: 'half' });
});

it.each([
  { code: 'DEADLINE_EXCEEDED', cancels: false },
  { code: 'CANCELLED', cancels: true },
] as const)('tells the engine of an abort with $code: $cancels', async ({ code, cancels }) => {
  const abort = new AbortController();
  let signal: AbortSignal | undefined;
  const executeCall = async (request: CallRequest) => {
    ({ signal } = request);
    abort.abort(new ToolError(code));
    return done();
  };
  const work = callWorker({ ...quiet, executeCall, store, generation, clock, publish: () => undefined });
  await store.create({ callId: code, tenantId: 'acme', tool: 'x', state: 'accepted', acceptedAt: clock.now() });
  const data = { call_id: code, deadline_at: 0, request: { callId: code, principal: { tenantId: 'acme' } } };
  await work({ data, signal: abort.signal, queuedMs: 0 } as unknown as JobRun<AsyncCallJob>);
  expect(signal?.aborted).toBe(cancels);
});

it('does not run a call again that has ended', async () => {
  await run('once', async () => done());
  let runs = 0;
  const again = callWorker({
    ...quiet,
    executeCall: async () => {
      runs += 1;
      return done();
    },
    store,
    generation,
    clock,
    publish: () => (runs += 1),
  });
  const data = { call_id: 'once', deadline_at: 0, request: { callId: 'once' } };
  expect(await again({ data, queuedMs: 0 } as unknown as JobRun<AsyncCallJob>)).toBe('ended before');
  expect(runs).toBe(0);
  expect(await store.get('once')).toMatchObject({ state: 'succeeded', result: { text: 'words' } });
});

it.each([
  { job: 'first run', repeated: false, restarted: false, mayHaveBegun: false },
  { job: 'a run whose worker was lost', repeated: true, restarted: false, mayHaveBegun: true },
  { job: 'a run on a store that restarted since', repeated: false, restarted: true, mayHaveBegun: true },
])(
  'tells the engine whether an earlier run may have begun: $job',
  async ({ job, repeated, restarted, mayHaveBegun }) => {
    const own = await startRedis({ appendOnly: true });
    const client = own.client();
    const now = new StoreGeneration(client);
    const calls = new RedisCallStore(client, 60, () => clock.now());
    await calls.create({ callId: job, tenantId: 'acme', tool: 'x', state: 'accepted', acceptedAt: clock.now() });
    const data = { generation: await now.read(), request: { callId: job, principal: { tenantId: 'acme' } } };
    if (restarted) {
      await own.kill();
      await own.restart();
    }
    let told: boolean | undefined;
    const work = callWorker({
      ...quiet,
      executeCall: async (request) => {
        told = request.mode.kind === 'resume' && request.mode.mayHaveBegun;
        return done();
      },
      store: calls,
      generation: now,
      clock,
      publish: () => undefined,
    });
    await work({
      data,
      isRepeated: repeated,
      signal: new AbortController().signal,
      queuedMs: 0,
    } as unknown as JobRun<AsyncCallJob>);
    expect(told).toBe(mayHaveBegun);
    await own.stop();
  },
);

it('stores the outcome of a call that ran during an outage of its store', async () => {
  const away = await startRedis({ appendOnly: true });
  const client = connectRedis(away.url, { name: 'spec', role: 'commands' });
  await openRedis(client, away.url);
  const calls = new RedisCallStore(client, 60, () => clock.now());
  await calls.create({ callId: 'kept', tenantId: 'acme', tool: 'x', state: 'accepted', acceptedAt: clock.now() });
  const work = callWorker({
    ...quiet,
    executeCall: async () => {
      await away.kill();
      return done();
    },
    store: calls,
    generation,
    clock,
    publish: () => undefined,
  });
  const request = { callId: 'kept', principal: { tenantId: 'acme' }, toolName: 'x', rawArguments: {} };
  const job = { jobId: 'kept', data: { request }, signal: new AbortController().signal, queuedMs: 0 };
  const worked = work(job as unknown as JobRun<AsyncCallJob>);
  await eventually('Redis is down', () => client.status !== 'ready');
  await away.restart();
  expect(await worked).toBe('succeeded');
  expect(await calls.get('kept')).toMatchObject({ state: 'succeeded' });
  await closeRedis(client);
  await away.stop();
});

it('gives a call that waited for people its whole time from its start on, and no more', async () => {
  const ends: number[] = [];
  for (const timeoutMs of [2_000, undefined]) {
    const request = { callId: `parked-${timeoutMs}`, principal: { tenantId: 'acme' }, toolName: 'x', rawArguments: {} };
    const work = callWorker({
      ...quiet,
      executeCall: async ({ limits: { deadlineAt } }) => {
        ends.push(deadlineAt - clock.now());
        return done();
      },
      store,
      generation,
      clock,
      publish: () => undefined,
      parked: { begin: async () => ({ request: { ...request, timeoutMs } as never }), end: async () => undefined },
    });
    await store.enter({ callId: request.callId, tenantId: 'acme', tool: 'x', state: 'accepted', acceptedAt: 0 });
    const data = { call_id: request.callId, tenant_id: 'acme', parked: true, request: {} };
    const job = { data, deadlineAt: clock.now() + 600_000, signal: new AbortController().signal, queuedMs: 0 };
    expect(await work(job as unknown as JobRun<AsyncCallJob>)).toBe('succeeded');
  }
  expect(ends[0]).toBeLessThanOrEqual(2_000);
  expect(ends[1]).toBeGreaterThan(500_000);
});

it('ends a call whose sealed arguments no key opens, and says which setting changed', async () => {
  const callId = 'sealed';
  const asked: unknown[] = [];
  const approval = { call_id: callId, tool: 'send_email' };
  const ask = async (subject: string, message: object) => {
    asked.push([subject, message]);
    return subject === 'records.approval.begin' ? { approval, request: undefined } : {};
  };
  const work = callWorker({
    ...quiet,
    executeCall: async () => expect.fail('is not run'),
    store,
    generation,
    clock,
    publish: () => undefined,
    parked: new ParkedCalls({ records: { ask } } as never),
  });
  await store.enter({ callId, tenantId: 'acme', tool: 'send_email', state: 'accepted', acceptedAt: 0 });
  const data = { call_id: callId, tenant_id: 'acme', parked: true };
  const job = { data, signal: new AbortController().signal, queuedMs: 0 };
  expect(await work(job as unknown as JobRun<AsyncCallJob>)).toBe('failed');
  expect(await store.get(callId)).toMatchObject({
    state: 'failed',
    result: {
      success: false,
      error: expect.stringContaining('another RECORDS_SECRET_KEY') as string,
      metadata: { code: 'APPROVAL_INVALIDATED' },
    },
  });
  const end = { call_id: callId, event: 'invalidate', code: 'APPROVAL_INVALIDATED' };
  expect(asked.at(-1)).toEqual(['records.approval.end', end]);
});

it('returns a job whose record is unavailable to the queue', async () => {
  const gone = { begin: () => Promise.reject(new Error('away')) } as unknown as RedisCallStore;
  const work = callWorker({
    ...quiet,
    executeCall: async () => done(),
    store: gone,
    generation,
    clock,
    publish: () => undefined,
  });
  const job = { data: { request: { callId: 'later' } }, queuedMs: 0 } as unknown as JobRun<AsyncCallJob>;
  await expect(work(job)).rejects.toThrow(RetryLater);
});

describe('a call whose credential is invalid by the time it would start', () => {
  const KEY = 'a pepper of the spec';
  const seen: CallRequest[] = [];
  const engine = async (request: CallRequest): Promise<CallResult> => {
    seen.push(request);
    if (request.mode.kind === 'refused') throw request.mode.reason;
    return done();
  };

  async function work(
    callId: string,
    principal: Principal,
    {
      journal = quiet.journal,
      isIdempotent = false,
      isRepeated = false,
      generation: addedIn,
    }: {
      journal?: Pick<Journal, 'read'>;
      isIdempotent?: boolean;
      isRepeated?: boolean;
      generation?: string;
    } = {},
  ) {
    const keys = new ApiKeys(new RedisKeyStore(redis.client()), { pepper: KEY, environment: 'test' }, clock);
    const status = new CredentialStatus({ keys, hasAdminKey: false, clock });
    await store.create({ callId, tenantId: 'acme', tool: 'x', state: 'accepted', acceptedAt: clock.now() });
    const data = { generation: addedIn, request: { callId, principal, toolName: 'x', rawArguments: {} } };
    const signal = new AbortController().signal;
    const job = { data, signal, deadlineAt: clock.now() + 10_000, queuedMs: 0, isRepeated };
    const worker = callWorker({
      executeCall: engine,
      store,
      generation,
      status,
      journal,
      isIdempotent: async () => isIdempotent,
      clock,
      publish: () => undefined,
    });
    await worker(job as unknown as JobRun<AsyncCallJob>);
    return { record: await store.get(callId), events: (await store.events(callId)).map(({ type }) => type) };
  }

  async function keyed(more: Partial<Principal> = {}): Promise<{ principal: Principal; revoke(): Promise<unknown> }> {
    const keys = new ApiKeys(new RedisKeyStore(redis.client()), { pepper: KEY, environment: 'test' }, clock);
    const { token, key } = await keys.issue({ tenantId: 'acme', client: `c${Math.random()}`.replace('.', '') }, 'spec');
    const { principal } = await keys.verify(token);
    return { principal: { ...principal, ...more }, revoke: () => keys.revoke(key.id) };
  }

  it('starts with a live key', async () => {
    const { principal } = await keyed();
    expect((await work('live', principal)).record).toMatchObject({ state: 'succeeded' });
  });

  it.each<[string, () => Promise<Principal>]>([
    [
      'a revoked key',
      async () => {
        const { principal, revoke } = await keyed();
        await revoke();
        return principal;
      },
    ],
    [
      'a call that a tool made for a revoked key',
      async () => {
        const { principal, revoke } = await keyed({ via: 'delegation' });
        await revoke();
        return principal;
      },
    ],
    ['an expired key', async () => (await keyed({ expiresAt: clock.now() - 1 })).principal],
    ['a key of another tenant', async () => (await keyed({ tenantId: 'globex' })).principal],
    [
      'an expired JWT',
      async () => ({
        tenantId: 'acme',
        userId: 'ann',
        roles: [],
        tools: ['*'],
        via: 'jwt',
        expiresAt: clock.now() - 1,
      }),
    ],
    ['the operator key that is no longer configured', async () => OPERATOR],
  ])('does not start: %s', async (name, principalOf) => {
    seen.length = 0;
    const { record, events } = await work(name, await principalOf());
    expect(record).toMatchObject({
      state: 'failed',
      result: { success: false, metadata: { code: 'UNAUTHENTICATED' }, usage: { tokens: 0, cost_usd: 0 } },
    });
    expect(events).toEqual(['accepted', 'done']);
    // The engine is asked, so that the refusal is in the log and the metrics like every other call.
    expect(seen).toMatchObject([{ mode: { kind: 'refused', reason: { code: 'UNAUTHENTICATED' } } }]);
  });

  it('is left to the journal when its effect may have begun before', async () => {
    const { principal, revoke } = await keyed();
    await revoke();
    seen.length = 0;
    const journal = { read: async () => ({ state: 'claimed' }) as JournalRecord };
    await work('began', principal, { journal });
    expect(seen.map(({ mode }) => mode.kind)).toEqual(['resume']);
  });

  it.each([
    { job: 'a lost worker', isRepeated: true, isIdempotent: false, state: 'outcome_unknown', code: 'OUTCOME_UNKNOWN' },
    { job: 'a lost store', generation: 'old', isIdempotent: false, state: 'outcome_unknown', code: 'OUTCOME_UNKNOWN' },
    { job: 'a tool that may repeat', isRepeated: true, isIdempotent: true, state: 'failed', code: 'UNAUTHENTICATED' },
  ])('ends as $code when it may have begun and has no record: $job', async ({ job, state, code, ...retried }) => {
    const { principal, revoke } = await keyed();
    await revoke();
    seen.length = 0;
    const { record } = await work(`lost: ${job}`, principal, retried);
    expect(record).toMatchObject({ state, result: { success: false, metadata: { code } } });
    expect(seen).toMatchObject([{ mode: { kind: 'refused', reason: { code } } }]);
  });

  it('is refused when it may have begun and the journal shows that no run claimed it', async () => {
    const { principal, revoke } = await keyed();
    await revoke();
    const journal = { read: async () => ({ state: 'accepted' }) as JournalRecord };
    const { record } = await work('unclaimed', principal, { journal, isRepeated: true });
    expect(record).toMatchObject({ state: 'failed', result: { metadata: { code: 'UNAUTHENTICATED' } } });
  });

  it('waits while keys cannot be looked up', async () => {
    const status = new CredentialStatus({
      keys: { isLive: () => Promise.reject(new ToolError('SERVICE_UNAVAILABLE')) },
      hasAdminKey: false,
      clock,
    });
    const { principal } = await keyed();
    const worker = callWorker({
      executeCall: engine,
      store,
      generation,
      ...quiet,
      status,
      clock,
      publish: () => undefined,
    });
    const data = { request: { callId: 'unknown', principal } };
    await expect(worker({ data, queuedMs: 0 } as unknown as JobRun<AsyncCallJob>)).rejects.toThrow(RetryLater);
  });
});
