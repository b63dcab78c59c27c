/** Calls that wait for people, on a real Redis. */
import { startRedis, type RedisServer } from '@toolfleet/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { AcceptedCall } from './call-store.js';
import { RedisCallStore } from './redis-call-store.js';

let server: RedisServer;
let store: RedisCallStore;
beforeAll(async () => {
  server = await startRedis();
  store = new RedisCallStore(server.client(), 60, Date.now);
});
afterAll(() => server.stop());

it('a program waits for one approval at a time, and only that one wakes it', async () => {
  const call = (state: AcceptedCall['state'], jobId?: string): AcceptedCall => ({
    callId: 'p1',
    tenantId: 'acme',
    tool: 'run_program',
    state,
    acceptedAt: jobId === undefined ? 1 : 2,
    ...(jobId !== undefined && { jobId }),
    ...(state === 'accepted' && { deadlineAt: 1_000 }),
  });
  await store.create(call('accepted'));
  expect(await store.begin('p1')).toBe(true);
  expect(await store.enter(call('accepted', 'a1'))).toBe(false); // its run has not ended
  expect(await store.enter(call('awaiting_approval', 'a1'))).toBe(true);
  expect(await store.enter(call('awaiting_approval', 'a1'))).toBe(false);
  expect(await store.overdue(2_000, 10)).toEqual([]);
  expect(await store.enter(call('accepted', 'a1'))).toBe(true);
  expect(await store.begin('p1')).toBe(true);
  expect(await store.enter(call('awaiting_approval', 'a1'))).toBe(false); // a late note
  expect(await store.enter(call('awaiting_approval', 'a2'))).toBe(true);
  expect(await store.enter(call('accepted', 'a1'))).toBe(false); // an earlier approval
  expect(await store.getState('p1')).toMatchObject({ state: 'awaiting_approval', jobId: 'a2', acceptedAt: 1 });
  expect(await store.enter(call('accepted', 'a2'))).toBe(true);
  expect((await store.overdue(2_000, 10)).map(({ callId }) => callId)).toEqual(['p1']);
  await store.finish('p1', 'succeeded');
  expect(await store.enter(call('awaiting_approval', 'a3'))).toBe(false);
});
