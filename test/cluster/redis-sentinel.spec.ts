/**
 * The fleet on Redis with a replica and three Sentinels: the primary is killed under load, and later changed on purpose. Callers
 * get clear errors in time while nobody is primary, nothing accepted is lost, no effect begins twice, nothing is restarted.
 */
import { eventually, startRedisSentinel, type RedisSentinel } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AcceptedCalls } from '../fleet/accepted-calls.js';
import { LoadedFleet } from './loaded-fleet.js';

let redis: RedisSentinel;
let loaded: LoadedFleet;
beforeAll(async () => {
  redis = await startRedisSentinel();
  loaded = await LoadedFleet.start({ redis });
});
afterAll(async () => {
  await loaded?.stop();
  await redis?.stop();
});

const primaryIsNot = (port: number): Promise<void> =>
  eventually('the other server is the primary', async () => (await redis.primaryPort()) !== port, {
    timeoutMs: 60_000,
    everyMs: 100,
  });

describe('the primary', () => {
  it('killed under load: clear errors until the replica takes over, then everything goes on', async () => {
    const load = await loaded.load();
    const accepted = new AcceptedCalls(loaded.fleet);
    await accepted.accept(40);
    // Replication is asynchronous: what the replica has not seen when the primary dies is lost (docs/operations.md).
    expect(await redis.client().wait(1, 10_000)).toBe(1);
    const old = redis.servers[0]!;
    await old.kill();
    await primaryIsNot(old.port);
    await load.flows(200);
    await accepted.haveEnded();
    await accepted.accept(20);
    await accepted.haveEnded();
    await load.judge();
    console.log(`killed: ${load.right()} right, ${load.failures.length} failed`);
    await old.restart();
    await redis.untilWatched();
  });

  it('changed on purpose under load: the demoted server refuses writes, and everybody leaves it', async () => {
    const load = await loaded.load();
    const accepted = new AcceptedCalls(loaded.fleet);
    await accepted.accept(20);
    const before = await redis.primaryPort();
    await redis.failOver();
    await primaryIsNot(before);
    await load.flows(200);
    await accepted.haveEnded();
    await load.judge();
    console.log(`changed: ${load.right()} right, ${load.failures.length} failed`);
  });
});
