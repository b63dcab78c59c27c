/** A Redis that lost data, or has settings with which it will, is reported by the services that use it. */
import { join } from 'node:path';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { sqliteDialect } from '@toolfleet/database';
import { connectRedis, openRedis, StoreWatch } from '@toolfleet/queue/redis';
import { FakeClock, startRedis, type RedisServer } from '@toolfleet/testing';
import type { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { StoreKeeper } from './redis-store-epoch.js';
import { UsageLedger } from './usage-ledger.js';

const ROUND_MS = 15_000;

let redis: RedisServer;
let admin: Redis;
let folder: string;
let clock: FakeClock;
let ledger: UsageLedger;
const stops: (() => Promise<unknown> | unknown)[] = [];
beforeEach(async () => {
  [redis, folder] = await Promise.all([startRedis({ appendOnly: true }), mkdtemp(join(tmpdir(), 'toolfleet-epoch-'))]);
  admin = redis.client();
  clock = new FakeClock();
  ledger = new UsageLedger(sqliteDialect(join(folder, 'budget.db')));
  await ledger.open();
});
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
  await ledger.close();
  await redis.stop();
  await rm(folder, { recursive: true });
});

/** Starts the watch of a service with the user of deploy/; the faults it has reported. */
async function watch(service: string, url = redis.urlAs(service)!): Promise<() => string[]> {
  const client = connectRedis(url, { name: service });
  await openRedis(client, url);
  const present = new Map<string, readonly string[]>();
  const faults = { set: (subject: string, messages: readonly string[]) => void present.set(subject, messages) };
  const keeper = service === 'budget' ? new StoreKeeper(client, ledger.epoch, clock) : undefined;
  const watching = new StoreWatch(client, url, { service, clock, faults }, keeper);
  await watching.start();
  stops.push(
    () => watching.stop(),
    () => client.disconnect(),
  );
  return () => [...present].flatMap(([subject, messages]) => messages.map((message) => `${subject}: ${message}`));
}

/** Lets all watches look until the faults are as expected. */
async function untilFaults(faults: () => string[], expected: RegExp | undefined): Promise<void> {
  await expect
    .poll(() => {
      clock.advance(ROUND_MS);
      return faults().join('\n');
    })
    .toEqual(expected ? expect.stringMatching(expected) : '');
}

it('a new store has no faults; keys that are gone are a fault of their service and of budget, also after a restart', async () => {
  const budget = await watch('budget');
  const registry = await watch('registry');
  await untilFaults(budget, undefined);
  expect(await admin.exists('{auth}:epoch', '{registry}:epoch', '{s:epoch}', 'rl:epoch')).toBe(4);
  await admin.del('{registry}:epoch');
  await untilFaults(
    registry,
    /^store data: Redis at redis:\/\/127\.0\.0\.1:\d+ has lost the keys of \{registry\}:epoch; restore/,
  );
  await untilFaults(budget, /has lost the keys of \{registry\}:epoch;/);
  await untilFaults(await watch('mcp-executor'), undefined);
  await untilFaults(await watch('registry'), /has lost the keys of \{registry\}:epoch/);
});

it('a Redis that was emptied is a fault of every service, until it is accepted', async () => {
  const services = ['budget', 'gateway', 'registry', 'mcp-executor', 'python-sandbox'];
  const before = [];
  for (const service of services) before.push(await watch(service));
  await untilFaults(before[0]!, undefined);
  clock.advance(ROUND_MS);
  await admin.flushall();
  for (const faults of before) await untilFaults(faults, /has lost the keys of/);
  for (const service of services) await untilFaults(await watch(service), /has lost the keys of/);
  await admin.hset('{store}:epoch', 'accept', 'yes');
  for (const faults of before) await untilFaults(faults, undefined);
  expect(await admin.call('ACL', 'LOG')).toEqual([]);
});

it('writes that are gone, as after a failover to an old replica, are a fault; those of the last seconds are none', async () => {
  const budget = await watch('budget');
  await untilFaults(budget, undefined);
  const first = await admin.hgetall('{auth}:epoch');
  const movesOn = (key: string, field: string) =>
    expect
      .poll(async () => {
        clock.advance(ROUND_MS);
        return Number(await admin.hget(key, field)) > Number(first['at']);
      })
      .toBe(true);
  await movesOn('{auth}:epoch', 'at');
  // What a crash may take.
  await admin.hset('{auth}:epoch', first);
  await untilFaults(budget, undefined);
  await movesOn('{store}:epoch', 'kept_at');
  await admin.hset('{auth}:epoch', first);
  await untilFaults(budget, /has lost the writes from 2025-\S+Z to 2025-\S+Z of \{auth\}:epoch/);
});

it('a Redis that budget does not use has no epoch', async () => {
  const other = await startRedis({ appendOnly: true });
  stops.push(() => other.stop());
  const gateway = await watch('gateway', other.urlAs('gateway'));
  expect(gateway()).toEqual([]);
  await untilFaults(gateway, /has no epoch: it is empty, or not the Redis of the budget service/);
});

it('a new database of budget takes the epoch that Redis has', async () => {
  await untilFaults(await watch('budget'), undefined);
  const { epoch } = await admin.hgetall('{store}:epoch');
  await ledger.close();
  ledger = new UsageLedger(sqliteDialect(join(folder, 'new.db')));
  await ledger.open();
  await untilFaults(await watch('budget'), undefined);
  expect(await admin.hget('{registry}:epoch', 'epoch')).toBe(epoch);
});

it('settings with which Redis loses or refuses writes are a fault until they are corrected', async () => {
  const sandbox = await watch('python-sandbox');
  const budget = await watch('budget');
  for (const [key, bad, good, fault] of [
    ['maxmemory-policy', 'allkeys-lru', 'noeviction', /has maxmemory-policy allkeys-lru; toolfleet needs noeviction/],
    ['appendonly', 'no', 'yes', /has no append-only file \(appendonly yes\)/],
    ['maxmemory', '1mb', '0', /uses \d+ of 1 MiB and refuses writes when it is full; raise maxmemory/],
  ] as const) {
    await admin.config('SET', key, bad);
    await untilFaults(sandbox, new RegExp(`^store settings: Redis at \\S+ ${fault.source}`, 'm'));
    await admin.config('SET', key, good);
    await untilFaults(sandbox, undefined);
  }
  await untilFaults(budget, undefined);
});
