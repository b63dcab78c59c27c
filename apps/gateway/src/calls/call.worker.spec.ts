import { SIZES, type CallBody, type CallRequest, type CallResult } from '@toolfleet/contracts';
import { closeRedis, connectRedis, openRedis, Postponed, type JobRun } from '@toolfleet/queue';
import { SystemClock } from '@toolfleet/resilience';
import { eventually, startRedis, type RedisServer } from '@toolfleet/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { AsyncCallJob } from './async-calls.js';
import { callWorker } from './call.worker.js';
import { RedisCallStore } from './redis-call-store.js';

const clock = new SystemClock();
const PICTURE = { type: 'image', mimeType: 'image/png', data: 'iVBORw0KGgo=' };
const LINK = { type: 'resource_link', uri: 'x://doc', name: 'doc' };

let redis: RedisServer;
let store: RedisCallStore;
beforeAll(async () => {
  redis = await startRedis();
  store = new RedisCallStore(redis.client(), 60, () => clock.now());
});
afterAll(() => redis?.stop());

const done = (parts: Partial<CallResult> = {}): CallResult => ({
  ok: true,
  output: 'words',
  text: 'words',
  provenance: 'live',
  usage: { tokens: 0, microUsd: 0 },
  metadata: {},
  timing: { queue_ms: 0, wait_ms: 0, execute_ms: 1 },
  attempts: 1,
  ...parts,
});

/** Runs one accepted call; what the engine does is given. */
async function run(callId: string, executeCall: (request: CallRequest) => Promise<CallResult>) {
  const principal = { tenantId: 'acme', userId: 'ann', roles: [], tools: ['*'], via: 'api_key' };
  await store.create({ callId, tenantId: 'acme', tool: 'x', state: 'accepted', acceptedAt: clock.now() });
  const published: CallBody[] = [];
  const work = callWorker({ executeCall, store, clock, publish: (_subject, body) => published.push(body) });
  const job = {
    jobId: callId,
    data: { call_id: callId, deadline_at: 0, request: { callId, principal, toolName: 'x', rawArguments: {} } },
    signal: new AbortController().signal,
    deadlineAt: clock.now() + 10_000,
    queuedMs: 5,
  };
  const kept = await work(job as unknown as JobRun<AsyncCallJob>);
  return { kept, published, record: await store.get(callId), events: await store.events(callId) };
}

it('keeps pictures and links of a call in its record and in what is published, once each', async () => {
  const content = [{ type: 'text', text: 'words' }, PICTURE, LINK];
  const { kept, published, record, events } = await run('rich', async () => done({ content }));
  expect(record).toMatchObject({ state: 'succeeded', result: { success: true, text: 'words', content } });
  expect(published).toMatchObject([{ content }]);
  expect(events.at(-1)).toMatchObject({ type: 'done', result: { text: 'words', metadata: { content_blocks: 3 } } });
  expect(JSON.stringify([events, kept])).not.toContain(PICTURE.data);
});

it('says so when content is larger than what is kept', async () => {
  const content = [{ ...PICTURE, data: 'A'.repeat(SIZES.toolResult + 1) }];
  const { record } = await run('large', async () => done({ content }));
  expect(record?.result).toMatchObject({ text: 'words', metadata: { content_omitted: { blocks: 1 } } });
  expect(record?.result).not.toHaveProperty('content');
});

it('shows progress between start and end', async () => {
  const { events } = await run('steps', async ({ onProgress }) => {
    onProgress?.({ progress: 1, total: 2, message: 'half' });
    return done();
  });
  expect(events.map(({ type }) => type)).toEqual(['accepted', 'started', 'progress', 'done']);
  expect(events[2]).toMatchObject({ progress: 1, total: 2, message: 'half' });
});

it('runs a call that has ended no second time, whatever the queue thinks', async () => {
  await run('once', async () => done());
  let runs = 0;
  const again = callWorker({
    executeCall: async () => {
      runs += 1;
      return done({ ok: false });
    },
    store,
    clock,
    publish: () => (runs += 1),
  });
  const data = { call_id: 'once', deadline_at: 0, request: { callId: 'once' } };
  expect(await again({ data, queuedMs: 0 } as unknown as JobRun<AsyncCallJob>)).toBe('ended before');
  expect(runs).toBe(0);
  expect(await store.get('once')).toMatchObject({ state: 'succeeded', result: { text: 'words' } });
});

it('keeps the outcome of a call that ran while its store was away', async () => {
  const away = await startRedis({ appendOnly: true });
  const client = connectRedis(away.url, { name: 'spec', role: 'commands' });
  await openRedis(client, away.url);
  const calls = new RedisCallStore(client, 60, () => clock.now());
  await calls.create({ callId: 'kept', tenantId: 'acme', tool: 'x', state: 'accepted', acceptedAt: clock.now() });
  const work = callWorker({
    executeCall: async () => {
      await away.kill();
      return done();
    },
    store: calls,
    clock,
    publish: () => undefined,
  });
  const request = { callId: 'kept', principal: { tenantId: 'acme' }, toolName: 'x', rawArguments: {} };
  const job = { jobId: 'kept', data: { request }, signal: new AbortController().signal, queuedMs: 0 };
  const worked = work(job as unknown as JobRun<AsyncCallJob>);
  await eventually('it is away', () => client.status !== 'ready');
  await away.restart();
  expect(await worked).toBe('succeeded');
  expect(await calls.get('kept')).toMatchObject({ state: 'succeeded' });
  await closeRedis(client);
  await away.stop();
});

it('gives a job back whose record cannot be reached', async () => {
  const gone = { begin: () => Promise.reject(new Error('away')) } as unknown as RedisCallStore;
  const work = callWorker({ executeCall: async () => done(), store: gone, clock, publish: () => undefined });
  const job = { data: { request: { callId: 'later' } }, queuedMs: 0 } as unknown as JobRun<AsyncCallJob>;
  await expect(work(job)).rejects.toThrow(Postponed);
});
