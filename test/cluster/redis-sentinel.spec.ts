/**
 * The fleet on Redis with a replica and three Sentinels, with the users of deploy/: the primary is killed under load, and later changed on purpose. Callers
 * get clear errors in time while nobody is primary, nothing accepted is lost, no effect begins twice, nothing is restarted.
 */
import { eventually, startRedisSentinel, type RedisSentinel } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AcceptedCalls } from '../fleet/accepted-calls.js';
import { deployedUsers, passwordOf } from '../fleet/deployed-brokers.js';
import type { ServiceName } from '../fleet/test-fleet.js';
import { LoadedFleet } from './loaded-fleet.js';

const SENTINEL_PASSWORD = 'pw-of-the-sentinels';
/** Services that have a user of their own name. */
const SERVICES: readonly ServiceName[] = ['gateway', 'registry', 'budget', 'mcp-executor', 'python-sandbox'];

let redis: RedisSentinel;
let loaded: LoadedFleet;
beforeAll(async () => {
  const users = [
    ...(await deployedUsers('redis.acl.template')),
    ...(await deployedUsers('redis-failover.acl.template')),
  ];
  redis = await startRedisSentinel({ users, passwordOf, sentinelPassword: SENTINEL_PASSWORD });
  loaded = await LoadedFleet.start(
    { redis },
    {
      envOf: {
        ...Object.fromEntries(SERVICES.map((name) => [name, loginOf(name)])),
        'builtin-executor': { REDIS_URL: '' },
      },
    },
  );
});
afterAll(async () => {
  await loaded?.stop();
  await redis?.stop();
});

const loginOf = (user: string): Record<string, string> => ({
  REDIS_URL: redis.url.replace('//', `//${user}@`),
  REDIS_PASSWORD: passwordOf(user),
  REDIS_SENTINEL_PASSWORD: SENTINEL_PASSWORD,
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

  it('and its replica have refused nothing to the users of deploy/', async () => {
    for (const server of redis.servers) expect(await server.client().call('ACL', 'LOG')).toEqual([]);
  });
});
