import { succeeded, type CallBody, type CallRequest, type CallState, type Principal } from '@toolfleet/contracts';
import { RedisJournal } from '@toolfleet/journal';
import { closeRedis, connectRedis, JobQueue, JobWorker, openRedis, RedisTime, StoreGeneration } from '@toolfleet/queue';
import { SystemClock } from '@toolfleet/resilience';
import { eventually, startRedis, type RedisServer } from '@toolfleet/testing';
import { aRequest } from '@toolfleet/testing/engine-fixture';
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { CallSight } from '@toolfleet/access';
import { AsyncCalls } from './async-calls.js';
import { isFinal, type AsyncCallJob } from './call-store.js';
import { CallEnds } from './call-ends.js';
import { callWorker } from './call.worker.js';
import { LostCalls } from './lost-calls.js';
import { RedisCallStore } from './redis-call-store.js';

const ANN: Principal = { tenantId: 'acme', userId: 'ann', roles: [], tools: ['*'], via: 'api_key' };
const clock = new SystemClock();
let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis?.stop());

/** A gateway's part in asynchronous calls, on a queue of its own; all of them share one store. */
async function aGateway(name: string) {
  const client = redis.client();
  const time = new RedisTime(client, clock);
  await time.refresh();
  const queue = new JobQueue<AsyncCallJob, unknown>({ name, redis: client, time, shareOf: () => 'acme' });
  const store = new RedisCallStore(client, 60, () => clock.now());
  const journal = new RedisJournal(client, clock);
  const generation = new StoreGeneration(client);
  const published: CallBody[] = [];
  const publish = (_subject: string, body: CallBody): void => void published.push(body);
  const lost = new LostCalls({ queue, store, journal, ends: new CallEnds(store, publish), clock });
  const sight = { of: async () => 'own' } as unknown as CallSight;
  const results = { admit: async () => undefined };
  const calls = new AsyncCalls({
    queue,
    store,
    generation,
    journal,
    results,
    lost,
    sight,
    readings: { note: async () => undefined },
    clock,
    maxCallMs: 60_000,
  });
  const accept = async (timeoutMs: number, rawArguments = {}): Promise<string> => {
    const callId = randomUUID();
    await calls.accept(
      aRequest(clock, { callId, toolName: 'x', principal: ANN, entryPoint: 'nats', timeoutMs, rawArguments }),
    );
    return callId;
  };
  return { client, time, queue, store, journal, generation, published, publish, lost, calls, accept };
}

it('a call that no worker takes ends at its deadline, once, and shows why', async () => {
  const { lost, calls, accept, store, queue, published } = await aGateway('idle-runs');
  const [callId, other] = [await accept(200), await accept(60_000)];
  await eventually('it has ended', async () => {
    await Promise.all([lost.sweep(), lost.sweep(), lost.sweep()]);
    return isFinal((await store.get(callId))!.state);
  });
  const usage = { tokens: 0, cost_usd: 0 };
  const result = { success: false, metadata: { code: 'DEADLINE_EXCEEDED', retryable: true }, usage };
  expect(await calls.get(ANN, callId)).toMatchObject({ state: 'expired', result });
  expect((await calls.events(callId)).map(({ type }) => type)).toEqual(['accepted', 'done']);
  expect(published).toMatchObject([{ call_id: callId, ...result }]);
  expect(await queue.record(callId)).toMatchObject({ state: 'unknown' });
  expect(await calls.getState(ANN, other)).toMatchObject({ state: 'accepted' });
});

it('a call whose workers died leaves nothing in the queue', async () => {
  const { accept, store, queue, lost, client } = await aGateway('died-runs');
  const callId = await accept(60_000);
  const key = `{fleet}:died-runs:${callId}`;
  const failedReason = 'job stalled more than allowable limit';
  await client.hset(key, { finishedOn: String(clock.now()), failedReason });
  await lost.settle((await store.getState(callId))!);
  expect(await store.get(callId)).toMatchObject({ state: 'failed', result: { metadata: { code: 'WORKER_LOST' } } });
  expect([await queue.record(callId), await client.exists(key)]).toMatchObject([{ state: 'unknown' }, 0]);
});

it('a call with large arguments leaves nothing in the queue once it is done', async () => {
  const { accept, queue, client, time } = await aGateway('large-runs');
  const small = await accept(60_000, { text: 'x'.repeat(10) });
  const large = await accept(60_000, { text: 'x'.repeat(20_000) });
  const blocking = connectRedis(redis.url, { name: 'spec-large', role: 'blocking' });
  await openRedis(blocking, redis.url);
  const handler = async () => 'succeeded';
  const worker = new JobWorker({
    queue: 'large-runs',
    redis: blocking,
    publisher: client,
    time,
    concurrency: 1,
    handler,
  });
  await worker.start();
  await eventually('both are done', async () => {
    const [ofSmall, ofLarge] = await Promise.all([queue.record(small), queue.record(large)]);
    return ofSmall.state === 'completed' && ofLarge.state === 'unknown';
  });
  await worker.drain();
  await worker.stop();
  await closeRedis(blocking);
});

it('a reader does not wait for the next look', async () => {
  const { calls, accept } = await aGateway('read-runs');
  const callId = await accept(100);
  await eventually('it has ended', async () => (await calls.getState(ANN, callId)).state === 'expired');
});

it('a call that a worker takes at its deadline ends there or here, and once', async () => {
  const gateway = await aGateway('raced-runs');
  const { time, store, generation, journal, lost, published } = gateway;
  const blocking = connectRedis(redis.url, { name: 'spec-blocking', role: 'blocking' });
  await openRedis(blocking, redis.url);
  const begun: string[] = [];
  const executeCall = async ({ callId }: CallRequest) => {
    begun.push(callId);
    return succeeded({ output: 1, text: '1', attempts: 1 });
  };
  const worker = new JobWorker<AsyncCallJob, unknown>({
    queue: 'raced-runs',
    redis: blocking,
    publisher: gateway.client,
    time,
    concurrency: 4,
    handler: callWorker({
      ...{ executeCall, store, journal, generation, clock, publish: gateway.publish },
      ...{ status: { findRefusal: async () => undefined }, isIdempotent: async () => false },
    }),
  });
  const ids = await Promise.all(Array.from({ length: 60 }, (_, index) => gateway.accept(150 + index * 5)));
  await worker.start();
  await eventually(
    'all have ended',
    async () => {
      await lost.sweep();
      const states = await Promise.all(ids.map(async (id) => (await store.getState(id))!.state));
      return states.every(isFinal);
    },
    { everyMs: 1 },
  );
  await worker.drain();
  await worker.stop();
  await closeRedis(blocking);
  const succeededIds = (await Promise.all(ids.map((id) => store.get(id)))).flatMap((call) =>
    call!.state === 'succeeded' ? [call!.callId] : [],
  );
  expect(begun.toSorted()).toEqual(succeededIds.toSorted());
  expect(published.map(({ call_id }) => call_id).toSorted()).toEqual(ids.toSorted());
});

it.each<{ what: string; entered?: 'accepted' | 'claimed' | 'ended'; begun?: true; state: CallState; code?: string }>([
  { what: 'no executor has claimed it', entered: 'accepted', begun: true, state: 'expired', code: 'DEADLINE_EXCEEDED' },
  { what: 'its executor may still end it', entered: 'claimed', begun: true, state: 'claimed' },
  { what: 'its executor has ended it', entered: 'ended', begun: true, state: 'succeeded' },
  { what: 'it may run twice', begun: true, state: 'failed', code: 'ATTEMPT_TIMED_OUT' },
])('a call without its gateway is $state at its deadline if $what', async ({ entered, begun, state, code }) => {
  const { accept, store, queue, journal, lost } = await aGateway('left-runs');
  const callId = await accept(50);
  if (begun) await store.begin(callId);
  const entry = { callId, tenantId: 'acme', tool: 'x', deadlineAt: clock.now() + 1_000, repeatable: false };
  if (entered) await journal.accept(entry);
  if (entered === 'claimed' || entered === 'ended') await journal.claim(callId, 1);
  if (entered === 'ended') await journal.finish(callId, 1, succeeded({ output: 'left', text: 'left', attempts: 1 }));
  await eventually('it is due', async () => (await store.getState(callId))!.deadlineAt! < queue.time.now());
  await lost.sweep();
  const call = await store.get(callId);
  expect(call).toMatchObject({ state });
  expect(call!.result?.metadata['code']).toBe(code);
  if (entered === 'accepted') expect(await journal.claim(callId, 1)).toBe(false);
});
