/**
 * A queue of several shards on a Redis Cluster of three primaries: how the work of Redis is divided, and that a change of the number of
 * shards under load answers each job, once.
 */
import { closeRedis, connectRedis, JobQueue, JobWorker, openRedis, RedisTime, ReplyChannel } from '@toolfleet/queue';
import { SystemClock } from '@toolfleet/resilience';
import { startRedisCluster, type RedisCluster } from '@toolfleet/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

interface SpecJob {
  call_id: string;
  tenant_id: string;
}

const JOBS = 3_000;
const IN_FLIGHT = 64;
const clock = new SystemClock();
const stops: (() => Promise<unknown>)[] = [];
let cluster: RedisCluster;
beforeAll(async () => {
  cluster = await startRedisCluster();
});
afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop();
});
afterAll(() => cluster?.stop());

async function connect(role: 'commands' | 'blocking') {
  const redis = connectRedis(cluster.url, { name: 'spec', role });
  await openRedis(redis, cluster.url);
  stops.push(() => closeRedis(redis));
  return redis;
}

/** A gateway's side of the queue. */
async function submitter(name: string, shards: number) {
  const [redis, blocking] = [await connect('commands'), await connect('blocking')];
  const time = new RedisTime(redis, clock);
  await time.start();
  stops.push(async () => time.stop());
  const queue = new JobQueue<SpecJob, string>({
    name,
    redis,
    time,
    shards,
    shareOf: (job) => job.tenant_id,
    maxLength: 100_000,
    retentionCount: 100_000,
  });
  stops.push(() => queue.close());
  const replies = new ReplyChannel({ redis: blocking, queues: [name] });
  await replies.start();
  stops.push(() => replies.stop());
  const submit = (id: string): Promise<string> =>
    replies.submit(
      queue,
      { call_id: id, tenant_id: `tenant-${id.length}` },
      { deadlineAt: clock.now() + 120_000, jobId: id },
    );
  return { queue, submit };
}

/** A worker that answers with the id, and how often it ran each. */
async function worker(name: string): Promise<Map<string, number>> {
  const [redis, publisher] = [await connect('blocking'), await connect('commands')];
  const time = new RedisTime(publisher, clock);
  await time.start();
  stops.push(async () => time.stop());
  const runs = new Map<string, number>();
  const jobs = new JobWorker<SpecJob, string>({
    queue: name,
    redis,
    publisher,
    time,
    concurrency: 32,
    handler: async ({ jobId }) => {
      runs.set(jobId, (runs.get(jobId) ?? 0) + 1);
      return jobId;
    },
  });
  await jobs.start();
  stops.push(() => jobs.stop());
  return runs;
}

/** Does the work for all items, a number of them at a time. */
async function each<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  const left = items.values();
  await Promise.all(
    Array.from({ length: IN_FLIGHT }, async () => {
      for (const item of left) await work(item);
    }),
  );
}

/** CPU seconds of each primary. */
async function cpuOfPrimaries(): Promise<number[]> {
  const infos = await Promise.all(cluster.nodes.slice(0, 3).map((node) => node.client().info('cpu')));
  return infos.map((info) =>
    ['used_cpu_user', 'used_cpu_sys'].reduce(
      (sum, field) => sum + Number(new RegExp(`^${field}:([\\d.]+)`, 'm').exec(info)![1]),
      0,
    ),
  );
}

const idsOf = (jobs: number): string[] => Array.from({ length: jobs }, (_, index) => `job-${index}`);

describe('a queue on three primaries', () => {
  it.each([1, 3, 6])('of %i shards', async (shards) => {
    const name = `shards-${shards}`;
    const { queue, submit } = await submitter(name, shards);
    const runs = await worker(name);
    await each(
      idsOf(300).map((id) => `warm-${id}`),
      submit,
    );
    const [before, startedAt] = [await cpuOfPrimaries(), clock.monotonic()];
    await each(idsOf(JOBS), async (id) => expect(await submit(id)).toBe(id));
    const seconds = (clock.monotonic() - startedAt) / 1_000;
    const after = await cpuOfPrimaries();
    const perJob = after.map((cpu, index) => Math.round(((cpu - before[index]!) / JOBS) * 1e6));
    console.log(
      `${shards} shards: ${Math.round(JOBS / seconds)} jobs/s; CPU of the primaries in µs per job: ${perJob.join(', ')}; ` +
        `by the busiest one at most ${Math.round(1e6 / Math.max(...perJob))} jobs/s`,
    );
    expect([...runs.values()].filter((count) => count !== 1)).toEqual([]);
    expect(runs.size).toBe(JOBS + 300);
    const records = await Promise.all(
      cluster.nodes.slice(0, 3).map(async (node) => {
        const keys = await node.client().keys(`{fleet*}:${name}:job-*`);
        return keys.filter((key) => !key.endsWith(':lock')).length;
      }),
    );
    if (shards === 1) expect(records.toSorted((a, b) => a - b)).toEqual([0, 0, JOBS]);
    else expect(Math.max(...records)).toBeLessThan(JOBS / 2);
    expect((await queue.counts()).prioritized).toBe(0);
  });

  it('answers each job once while the number of shards changes under load', async () => {
    const name = 'resharded';
    const former = await submitter(name, 1);
    const runs = await worker(name);
    await each(idsOf(200), former.submit);
    const next = await submitter(name, 3);
    // As gateways that take a call over: both submit each id, and one of them runs it.
    await each(idsOf(400), async (id) =>
      expect(await Promise.all([next.submit(id), former.submit(id)])).toEqual([id, id]),
    );
    expect(runs.size).toBe(400);
    expect([...runs.values()].filter((count) => count !== 1)).toEqual([]);
  });
});
