/**
 * The fleet on Redis Cluster, three primaries with a replica each: every kind of call works there, with queues of three shards, because
 * keys of one script share a hash tag; then primaries are killed under load, the one with the queues and the one with a tenant's budget.
 */
import { eventually, startRedisCluster, type RedisCluster } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AcceptedCalls } from '../fleet/accepted-calls.js';
import { EVERY_KIND, TOOLS_OF_EVERY_KIND, type KindHost } from '../fleet/every-kind.js';
import { startSampleServices, type SampleServices } from '../fleet/sample-services.js';
import { ofEach, TestFleet } from '../fleet/test-fleet.js';
import { LoadedFleet } from './loaded-fleet.js';

let redis: RedisCluster;
beforeAll(async () => {
  redis = await startRedisCluster();
});
afterAll(() => redis?.stop());

describe('on a cluster of slots', () => {
  let samples: SampleServices;
  let host: KindHost & { fleet: TestFleet };
  beforeAll(async () => {
    samples = await startSampleServices();
    const fleet = await TestFleet.start({
      services: ofEach(1),
      tools: TOOLS_OF_EVERY_KIND,
      config: samples.config,
      env: { ...samples.env, BUILTIN_TOOLSETS: 'compute,web,files,agent', QUEUE_SHARDS: '3' },
      brokers: { redis },
    });
    const nats = await NatsClient.connect({ name: 'spec', url: fleet.nats.url });
    host = { fleet, nats, samples, subjectOf: (verb) => `tool.${verb}` };
  });
  afterAll(async () => {
    await host?.nats.close();
    await host?.fleet.stop();
    await samples?.stop();
    // The next fleet has an upstream of the same name with other tools: these would be held for approval.
    await Promise.all(redis.nodes.slice(0, 3).map((node) => node.client().flushall()));
  });

  it.each(EVERY_KIND)('%s', (_what, run) => run(host));

  it('every primary holds keys, and no script crossed slots', async () => {
    const sizes = await Promise.all(redis.nodes.slice(0, 3).map((node) => node.client().dbsize()));
    expect(sizes.filter((size) => size === 0)).toEqual([]);
    expect(host.fleet.logs()).not.toMatch(/CROSSSLOT|MOVED/);
  });
});

describe('a primary killed under load', () => {
  let loaded: LoadedFleet;
  beforeAll(async () => {
    loaded = await LoadedFleet.start({ redis });
  });
  afterAll(() => loaded?.stop());

  it.each([
    ['the queues', '{fleet}:tool-calls:wait'],
    ['the budget of the tenant', '{b:acme}:scopes'],
  ])('that holds %s: clear errors until its replica takes over, then everything goes on', async (_what, key) => {
    const load = await loaded.load();
    const accepted = new AcceptedCalls(loaded.fleet);
    await accepted.accept(40);
    const holder = await redis.findPrimary(key);
    const { port } = redis.nodes[holder]!;
    // Replication is asynchronous: what the replica has not seen when its primary dies is lost (docs/operations/backup.md).
    await redis.nodes[holder]!.replicated();
    await redis.nodes[holder]!.kill();
    await eventually('its replica is the primary', async () => (await redis.findPrimary(key)) !== holder, {
      everyMs: 100,
    });
    await redis.untilServed();
    await load.flows(200);
    await accepted.haveEnded();
    await load.judge();
    console.log(`${key} at ${port}: ${load.right()} right, ${load.failures.length} failed`);
    await redis.nodes[holder]!.restart();
    await redis.untilServed();
  });
});
