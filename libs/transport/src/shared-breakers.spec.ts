import { SystemClock } from '@toolfleet/resilience';
import { eventually, startNats, type NatsServer } from '@toolfleet/testing';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { NatsClient } from './nats-client.js';
import { SharedBreakers } from './shared-breakers.js';

const clock = new SystemClock();
const RULE = { consecutiveFailures: 2, recoveryMs: 60_000 };

let nats: NatsServer;
let watcher: NatsClient;
const onWire: unknown[] = [];
const open: { client: NatsClient; breakers: SharedBreakers }[] = [];

beforeAll(async () => {
  nats = await startNats();
  watcher = await NatsClient.connect({ url: nats.url, name: 'watcher' });
  watcher.subscribe('breaker.changed.*', ({ body, subject }) => onWire.push([subject, body]));
  await watcher.link.flush();
});
afterEach(async () => {
  onWire.length = 0;
  for (const { client, breakers } of open.splice(0)) {
    await breakers.asComponent().stop();
    await client.close();
  }
});
afterAll(async () => {
  await watcher?.close();
  await nats?.stop();
});

async function replica(scope: string) {
  const client = await NatsClient.connect({ url: nats.url, name: scope });
  const seen: string[] = [];
  const breakers = new SharedBreakers({
    scope,
    rule: RULE,
    clock,
    nats: client,
    onTransition: ({ key, tenantId, state }) => seen.push(`${key} ${tenantId ?? 'all'} ${state}`),
  });
  await breakers.asComponent().start();
  await client.link.flush();
  open.push({ client, breakers });
  return { client, breakers, map: breakers.map, seen };
}

const fails = (map: SharedBreakers['map'], key: string, tenantId = 't') =>
  map.run(
    { key, tenantId },
    async () => 'x',
    () => 'failure',
  );
const succeeds = (map: SharedBreakers['map'], key: string, tenantId = 't') =>
  map.run(
    { key, tenantId },
    async () => 'x',
    () => 'success',
  );

it('sends an opening once, to the replicas of the same service only', async () => {
  const [first, second, other] = [await replica('a'), await replica('a'), await replica('b')];
  for (const { map } of [second, other]) await succeeds(map, 'http://down');
  await fails(first.map, 'http://down');
  await fails(first.map, 'http://down');
  await eventually('the peer opens', () => second.map.getState('http://down') === 'open');
  expect(second.map.retryAfterMs({ key: 'http://down', tenantId: 't' })).toBeGreaterThan(50_000);
  expect([first.seen, second.seen]).toEqual([['http://down t open'], ['http://down t open']]);
  expect(second.map.getState('http://up')).toBe('closed');
  expect(second.map.getState('http://down', 'another')).toBe('closed');
  // What the peer might have passed on would have come by now.
  await second.client.link.flush();
  await watcher.link.flush();
  expect(onWire).toEqual([
    ['breaker.changed.a', { key: 'http://down', tenant_id: 't', open_for_ms: expect.any(Number) }],
  ]);
  expect([other.map.getState('http://down'), other.seen]).toEqual(['closed', []]);
});

it('opens for all tenants when tenants of different replicas fail', async () => {
  const [first, second] = [await replica('d'), await replica('d')];
  for (const { map } of [first, second]) await succeeds(map, 'x', 'third');
  for (const _ of [1, 2]) await fails(first.map, 'x', 'one');
  for (const _ of [1, 2]) await fails(second.map, 'x', 'two');
  for (const { map } of [first, second]) {
    await eventually('it is open for all', () => map.getState('x', 'third') === 'open');
    expect(await succeeds(map, 'x', 'third')).toMatchObject({ refused: true });
  }
});

it('bounds what a peer can open by the own rule, and ignores malformed messages and unknown keys', async () => {
  const { map, client } = await replica('c');
  const known = ['x', 'last', 'y'.repeat(600)];
  for (const key of known) await succeeds(map, key);
  for (const body of [
    { key: 7, open_for_ms: 1_000 },
    { key: 'x' },
    { key: 'x', open_for_ms: -5 },
    { key: 'x', open_for_ms: '1000' },
    { key: 'x', open_for_ms: 1_000, tenant_id: '' },
    { key: 'x', open_for_ms: 1_000, tenant_id: 't'.repeat(300) },
    { key: 'x', open_for_ms: 1_000, tenant_id: ['t'] },
    { key: 'y'.repeat(600), open_for_ms: 1_000 },
    { key: 'unknown', open_for_ms: 1_000 },
    'text',
    { key: 'last', open_for_ms: 10 ** 12 },
  ])
    watcher.publish('breaker.changed.c', body);
  await eventually('the last one is heard', () => map.getState('last') === 'open');
  await client.link.flush();
  for (const key of ['x', 'unknown', 'y'.repeat(600)]) expect(map.getState(key)).toBe('closed');
  expect(map.knows('unknown')).toBe(false);
  expect(map.retryAfterMs({ key: 'last', tenantId: 't' })).toBeLessThanOrEqual(RULE.recoveryMs);
});

it('lets peers open a bounded number of breakers per recovery time', async () => {
  const { map, client } = await replica('e');
  const keys = Array.from({ length: 600 }, (_, index) => `k${index}`);
  for (const key of keys) await succeeds(map, key);
  for (const key of keys) watcher.publish('breaker.changed.e', { key, open_for_ms: 1_000 });
  await eventually('they are heard', () => map.troubled().length >= 500);
  await watcher.link.flush();
  await client.link.flush();
  expect(map.troubled()).toHaveLength(500);
});
