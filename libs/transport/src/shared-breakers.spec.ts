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
  watcher.subscribe('breaker.changed', ({ body }) => onWire.push(body));
  await watcher.link.flush();
});
afterEach(async () => {
  onWire.length = 0;
  for (const { client, breakers } of open.splice(0)) {
    await breakers.asPart().stop();
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
    onTransition: ({ key, state }) => seen.push(`${key} ${state}`),
  });
  await breakers.asPart().start();
  await client.link.flush();
  open.push({ client, breakers });
  return { client, breakers, map: breakers.map, seen };
}

const fails = (map: SharedBreakers['map'], key: string) =>
  map.get(key).run(
    async () => 'x',
    () => 'failure',
  );

it('an opening reaches the replicas of the same service, once, and nobody else', async () => {
  const [first, second, other] = [await replica('a'), await replica('a'), await replica('b')];
  await fails(first.map, 'http://down');
  await fails(first.map, 'http://down');
  await eventually('the peer opens', () => second.map.stateOf('http://down') === 'open');
  expect(second.map.get('http://down').retryAfterMs).toBeGreaterThan(50_000);
  expect([first.seen, second.seen]).toEqual([['http://down open'], ['http://down open']]);
  expect(second.map.stateOf('http://up')).toBe('closed');
  // What the peer might have passed on would have come by now.
  await second.client.link.flush();
  await watcher.link.flush();
  expect(onWire).toEqual([{ scope: 'a', key: 'http://down', open_for_ms: expect.any(Number) }]);
  expect([other.map.stateOf('http://down'), other.seen]).toEqual(['closed', []]);
});

it('a peer cannot hold a breaker open for longer than the own rule, nor with nonsense', async () => {
  const { map, client } = await replica('c');
  for (const body of [
    { scope: 'c', key: 7, open_for_ms: 1_000 },
    { scope: 'c', key: 'x' },
    { scope: 'c', key: 'x', open_for_ms: -5 },
    'text',
    { scope: 'c', key: 'last', open_for_ms: 10 ** 12 },
  ])
    watcher.publish('breaker.changed', body);
  await eventually('the last one is heard', () => map.stateOf('last') === 'open');
  await client.link.flush();
  expect(map.stateOf('x')).toBe('closed');
  expect(map.get('last').retryAfterMs).toBeLessThanOrEqual(RULE.recoveryMs);
});
