/**
 * The fleet on Redis with a replica and three Sentinels, with the users of deploy/: the primary is killed under load, and later changed on purpose. Callers
 * get clear errors in time while there is no primary, nothing accepted is lost, no effect begins twice, nothing is restarted.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually, startRedisSentinel, type RedisSentinel } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AcceptedCalls } from '../fleet/accepted-calls.js';
import { ASKING_POLICY, KeptWork } from '../fleet/kept-work.js';
import { LOADED_SERVICES, LoadedFleet } from './loaded-fleet.js';

const SENTINEL_PASSWORD = 'pw-of-the-sentinels';

/** Asynchronous calls one gateway runs at once. */
const ASYNC_SLOTS = 4;

let redis: RedisSentinel;
let loaded: LoadedFleet;
let policies: string;
beforeAll(async () => {
  policies = await mkdtemp(join(tmpdir(), 'toolfleet-sentinel-'));
  await writeFile(join(policies, 'tools.rego'), ASKING_POLICY);
  redis = await startRedisSentinel(SENTINEL_PASSWORD);
  loaded = await LoadedFleet.start(
    { redis },
    {
      services: { ...LOADED_SERVICES, records: 1 },
      env: {
        GATEWAY_ASYNC_CONCURRENCY: String(ASYNC_SLOTS),
        REDIS_SENTINEL_PASSWORD: SENTINEL_PASSWORD,
        POLICY_DIR: policies,
      },
    },
  );
});
afterAll(async () => {
  await loaded?.stop();
  await redis?.stop();
  await rm(policies, { recursive: true, force: true });
});

describe('the primary', () => {
  it('killed under load: clear errors until the replica takes over, then everything goes on', async () => {
    const load = await loaded.load();
    const accepted = new AcceptedCalls(loaded.fleet);
    await accepted.accept(40);
    const work = await KeptWork.begin(loaded.fleet);
    // Replication is asynchronous: what the replica has not seen when the primary dies is lost (docs/operations/backup.md).
    await redis.replicated();
    const old = redis.servers[0]!;
    await old.kill();
    await redis.untilPrimaryIsNot(old.port);
    await load.flows(200);
    await accepted.haveEnded();
    await accepted.accept(20);
    await accepted.haveEnded();
    await load.judge();
    await work.isKept();
    console.log(`killed: ${load.right()} right, ${load.failures.length} failed`);
    await old.restart();
    await redis.untilWatched();
  });

  it('changed on purpose under load: everybody leaves the former one, which soon forgets what it takes', async () => {
    const load = await loaded.load();
    const accepted = new AcceptedCalls(loaded.fleet);
    await accepted.accept(20);
    const work = await KeptWork.begin(loaded.fleet);
    // What the replica has not seen is lost.
    await redis.replicated();
    const before = await redis.primaryPort();
    await redis.failOver();
    await redis.untilPrimaryIsNot(before);
    await load.flows(50);
    await accepted.accept(20);
    // Only now, seconds later, Sentinel makes the former primary a replica without later writes.
    await redis.untilWatched();
    await load.flows(100);
    await accepted.haveEnded();
    await load.judge();
    await work.isKept();
    console.log(`changed: ${load.right()} right, ${load.failures.length} failed`);
  });

  it('killed with writes its replica has not seen: no effect of an accepted call begins twice', async () => {
    const { fleet } = loaded;
    const accept = async (note: string, timeoutMs: number, gateway: number): Promise<string> => {
      const fields = { mode: 'async', timeout_ms: timeoutMs };
      const ask = { fields, gateway };
      const { status, body, text } = await fleet.call('sample_save_note', { text: note, delay_ms: 3_000 }, ask);
      expect(status, text).toBe(202);
      return String(body.call_id);
    };
    const notesOf = (name: string) => Array.from({ length: 2 * ASYNC_SLOTS }, (_, index) => `${name}-${index}`);
    const [first, victims] = [notesOf('failover-first'), notesOf('failover-victim')];
    await Promise.all(first.map((note, index) => accept(note, 20_000, index % 2)));
    await eventually('every slot is taken', () => first.every((note) => loaded.effects(note) === 1));
    const ids = await Promise.all(victims.map((note, index) => accept(note, 90_000, index % 2)));

    // The replica has the jobs and is cut off; what begins now is on the primary only.
    await redis.replicated();
    const before = await redis.primaryPort();
    const primary = redis.servers.find(({ port }) => port === before)!;
    const admin = primary.client();
    await admin.call('ACL', 'SETUSER', 'replica', 'off');
    await admin.call('CLIENT', 'KILL', 'TYPE', 'replica');
    await eventually('their effects have begun', () => victims.every((note) => loaded.effects(note) === 1));
    await Promise.all([primary.kill(), fleet.kill('gateway', 1)]);
    await redis.untilPrimaryIsNot(before);
    await fleet.launch('gateway');
    const states = async (): Promise<string[]> =>
      Promise.all(ids.map(async (id) => String((await fleet.ask({ path: `/api/v1/calls/${id}` })).body?.status)));
    const ended = async () => (await states()).every((state) => ['succeeded', 'outcome_unknown'].includes(state));
    // The first ones hold their slots until their deadline: their records are claimed, and nothing says how they ended.
    await eventually('every call has ended', ended, { everyMs: 500 });
    for (const note of [...first, ...victims]) expect(loaded.effects(note), note).toBe(1);
    // The gateway's that died with the primary; the other gateway still knows its own.
    expect(await states()).toContain('outcome_unknown');
    await primary.restart();
    await redis.untilWatched();
  });

  it('and its replica have refused nothing to the users of deploy/', async () => {
    for (const server of redis.servers) expect(await server.client().call('ACL', 'LOG')).toEqual([]);
  });
});
