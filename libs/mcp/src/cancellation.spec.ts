import type { Json, Principal } from '@toolfleet/contracts';
import { FakeClock } from '@toolfleet/testing';
import type { NatsClient } from '@toolfleet/transport';
import { AbortSource } from '@toolfleet/resilience';
import { describe, expect, it } from 'vitest';
import { CallCancellations, readCancelledIds, type ClientRequest } from './cancellation.js';

const alice: Principal = { tenantId: 'acme', userId: 'alice', roles: [], tools: ['*'], via: 'api_key', keyId: 'k1' };
const request = (fields: Partial<ClientRequest> = {}): ClientRequest => ({
  principal: alice,
  session: 's1',
  id: 1,
  ...fields,
});

/** A call that a replica tracks. */
function track(replica: CallCancellations, one: ClientRequest) {
  const call = new AbortSource();
  return { done: replica.track(one, call), signal: call.signal };
}

/** Two replicas that share a bus. */
function replicas() {
  const clock = new FakeClock();
  const listeners: ((message: { body: unknown }) => void)[] = [];
  const nats = {
    publish: (_subject: string, body: unknown) => listeners.forEach((listener) => listener({ body })),
    subscribe: (_subject: string, listener: (message: { body: unknown }) => void) => void listeners.push(listener),
  } as unknown as Pick<NatsClient, 'publish' | 'subscribe'>;
  return { clock, here: new CallCancellations(clock, nats), there: new CallCancellations(clock, nats) };
}

describe('a cancellation', () => {
  it('reaches the call of its request on any replica', () => {
    const { here, there } = replicas();
    const [one, two] = [track(here, request()), track(here, request({ id: 2 }))];
    there.cancel(request());
    here.cancel(request({ id: 2 }));
    expect([one.signal.aborted, two.signal.aborted]).toEqual([true, true]);
    expect(one.signal.reason).toMatchObject({ code: 'CANCELLED' });
  });

  it.each<[string, Partial<ClientRequest>]>([
    ['another tenant', { principal: { ...alice, tenantId: 'globex' } }],
    ['another user', { principal: { ...alice, userId: 'bob' } }],
    ['another key', { principal: { ...alice, keyId: 'k2' } }],
    ['another session', { session: 's2' }],
    ['no session', { session: undefined }],
    ['another id', { id: 2 }],
    ['the id as a string', { id: '1' }],
  ])('of %s does not', (_who, other) => {
    const { here, there } = replicas();
    const call = track(here, request());
    for (const replica of [here, there]) replica.cancel(request(other));
    expect(call.signal.aborted).toBe(false);
  });

  it('that overtakes its request cancels it for ten seconds, once', () => {
    const { clock, here, there } = replicas();
    track(here, request({ id: 'first' })).done();
    there.cancel(request());
    expect(track(here, request()).signal.aborted).toBe(true);
    expect(track(here, request()).signal.aborted).toBe(false);
    there.cancel(request({ id: 3 }));
    clock.advance(10_000);
    expect(track(here, request({ id: 3 })).signal.aborted).toBe(false);
  });

  it('without a session neither waits for a request nor chooses between two', () => {
    const { here } = replicas();
    const plain = request({ session: undefined });
    here.cancel(plain);
    const one = track(here, plain);
    const two = track(here, plain);
    here.cancel(plain);
    expect([one.signal.aborted, two.signal.aborted]).toEqual([false, false]);
    two.done();
    here.cancel(plain);
    expect(one.signal.aborted).toBe(true);
  });
});

it('reads the ids of cancellations, alone and in a batch', () => {
  const cancelled = (requestId: Json) => ({ method: 'notifications/cancelled', params: { requestId } });
  expect(readCancelledIds(cancelled(7))).toEqual([7]);
  expect(readCancelledIds([cancelled('a'), { method: 'tools/list' }, cancelled(null), null])).toEqual(['a']);
  expect(readCancelledIds(undefined)).toEqual([]);
});
