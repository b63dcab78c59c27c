/** A queue over several hash tags, and the change of their number: no job is lost, and no id runs twice. */
import { SystemClock } from '@toolfleet/resilience';
import { eventually, startRedis, type RedisServer } from '@toolfleet/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { JobQueue } from './job-queue.js';
import { JobWorker } from './job-worker.js';
import { jobKey, type JobData, type JobRun } from './jobs.js';
import { jobKeyPattern, MAX_SHARDS, shardOf, shardPrefix } from './shard-numbers.js';
import { RedisTime } from './redis-time.js';

interface TenantJob extends JobData {
  tenant_id: string;
}

const clock = new SystemClock();
let server: RedisServer;
let redis: ReturnType<RedisServer['client']>;
let time: RedisTime;
let name = '';
let count = 0;
let open: { close(): Promise<void> }[] = [];
let workers: JobWorker<TenantJob, unknown>[] = [];

beforeAll(async () => {
  server = await startRedis();
  redis = server.client();
  time = new RedisTime(redis, clock);
  await time.start();
});
afterAll(async () => {
  time?.stop();
  await server?.stop();
});
beforeEach(() => {
  name = `sharded-${++count}`;
});
afterEach(async () => {
  await Promise.all(workers.map((worker) => worker.stop()));
  await Promise.all(open.map((queue) => queue.close()));
  [workers, open] = [[], []];
});

/** The queue as a process uses it that is configured with this number of shards. */
function queueOf(shards: number, options: { maxLength?: number; completedSeconds?: number } = {}): JobQueue<TenantJob> {
  const shareOf = (job: TenantJob) => job.tenant_id;
  const queue = new JobQueue<TenantJob>({ name, redis, time, shards, shareOf, maxLength: 10_000, ...options });
  open.push(queue);
  return queue;
}

async function work(handler: (run: JobRun<TenantJob>) => Promise<unknown>, concurrency: number): Promise<void> {
  const worker = new JobWorker<TenantJob, unknown>({
    queue: name,
    redis,
    publisher: redis,
    time,
    concurrency,
    handler,
  });
  workers.push(worker);
  await worker.start();
}

const add = (queue: JobQueue<TenantJob>, id: string, tenant = 'acme') =>
  queue.add(id, { call_id: id, tenant_id: tenant, deadline_at: time.now() + 300_000 });

const idsOf = (prefix: string, jobs: number): string[] =>
  Array.from({ length: jobs }, (_, index) => `${prefix}-${index}`);

/** Runs of each id, until all ids have run and no job is left. */
async function runsOf(queue: JobQueue<TenantJob>, ids: readonly string[]): Promise<Map<string, number>> {
  const runs = new Map<string, number>();
  await work(async ({ jobId }) => void runs.set(jobId, (runs.get(jobId) ?? 0) + 1), 4);
  await eventually('all jobs have ended', async () => {
    const { wait, prioritized, active, delayed } = await queue.counts();
    return ids.every((id) => runs.has(id)) && wait + prioritized + active + delayed === 0;
  });
  return runs;
}

const once = (ids: readonly string[]): Map<string, number> => new Map(ids.toSorted().map((id) => [id, 1]));
const sorted = (runs: Map<string, number>): Map<string, number> =>
  new Map([...runs].toSorted(([a], [b]) => (a < b ? -1 : 1)));

describe('names of shards', () => {
  it('begin with that of a queue without shards', () => {
    expect([0, 1, MAX_SHARDS - 1].map(shardPrefix)).toEqual(['{fleet}', '{fleet-01}', '{fleet-63}']);
    expect(jobKey('python-runs', 'c1-1')).toBe('{fleet}:python-runs:c1-1');
    expect(jobKeyPattern('python-runs').exec('{fleet}:python-runs:c1-1')?.[1]).toBe('c1-1');
    expect(jobKeyPattern('python-runs').exec('{fleet-07}:python-runs:c1-1')?.[1]).toBe('c1-1');
    expect(jobKeyPattern('python-runs').exec('{fleet-07}:python-runs:c1-1:lock')).toBeNull();
    expect(jobKeyPattern('python-runs').exec('{fleet-07}:program-runs:c1-1')).toBeNull();
  });

  it('get an even part of the ids', () => {
    for (const shards of [1, 2, 3, 6, 64]) {
      const jobs = Array.from({ length: shards }, () => 0);
      for (let index = 0; index < 6_400; index += 1) jobs[shardOf(`0199aad4-9f5a-7${index}-1`, shards)]! += 1;
      expect(Math.min(...jobs) / (6_400 / shards)).toBeGreaterThan(0.6);
      expect(Math.max(...jobs) / (6_400 / shards)).toBeLessThan(1.5);
    }
  });
});

describe('a queue of three shards', () => {
  it('runs all jobs, and no more at a time than the worker has slots', async () => {
    const queue = queueOf(3);
    const ids = idsOf('job', 60);
    for (const id of ids) await add(queue, id);
    expect((await queue.counts()).prioritized).toBe(60);
    expect(await queue.oldestAgeMs()).toBeGreaterThanOrEqual(0);
    for (const shard of [0, 1, 2])
      expect(await redis.zcard(`${shardPrefix(shard)}:${name}:prioritized`)).toBeGreaterThan(9);
    const both = Promise.withResolvers<void>();
    let running = 0;
    let most = 0;
    let ended = 0;
    await work(async () => {
      most = Math.max(most, (running += 1));
      if (running === 2) both.resolve();
      await both.promise;
      await redis.ping();
      running -= 1;
      ended += 1;
    }, 2);
    await eventually('all have run', () => ended === 60);
    expect(most).toBe(2);
  });

  it('finds, cancels, withdraws and discards jobs by their ids, and counts all shards', async () => {
    const queue = queueOf(3);
    const ids = idsOf('job', 12);
    for (const id of ids) await add(queue, id);
    for (const id of ids) expect(await queue.record(id)).toMatchObject({ state: 'waiting' });
    for (const id of ids.slice(0, 4)) expect(await queue.cancel(id)).toBe('removed');
    for (const id of ids.slice(4, 8)) expect(await queue.withdraw(id)).toBe(true);
    for (const id of ids.slice(8)) await queue.discard(id);
    for (const id of ids) expect(await queue.record(id)).toMatchObject({ state: 'unknown' });
    expect(await queue.counts()).toMatchObject({ prioritized: 0 });
    await queue.forgetShare('acme');
    for (const shard of [0, 1, 2])
      expect(await redis.hget(`${shardPrefix(shard)}:${name}:places`, 's:acme')).toBeNull();
  });

  it('is full when a shard is', async () => {
    const queue = queueOf(3, { maxLength: 30 });
    const results = await Promise.allSettled(idsOf('job', 60).map((id) => add(queue, id)));
    const refused = results.filter(({ status }) => status === 'rejected');
    expect(refused.length).toBeGreaterThanOrEqual(30);
    for (const result of refused)
      expect(result).toMatchObject({ reason: { code: 'QUEUE_FULL', details: { queue: name, limit: 30 } } });
  });

  it('lets the jobs of a tenant pass the flood of another one', async () => {
    const queue = queueOf(3);
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const order: string[] = [];
    await add(queue, 'first');
    await work(async ({ jobId }) => {
      if (jobId === 'first') await released;
      await redis.ping();
      order.push(jobId);
    }, 1);
    for (const id of idsOf('flood', 300)) await add(queue, id, 'flood');
    for (const id of idsOf('small', 3)) await add(queue, id, 'small');
    release();
    await eventually('all have run', () => order.length === 304);
    expect(Math.max(...idsOf('small', 3).map((id) => order.indexOf(id)))).toBeLessThan(150);
  });
});

describe('a change of the number of shards', () => {
  it('reaches workers that run already', async () => {
    const ran = new Set<string>();
    await work(async ({ jobId }) => void ran.add(jobId), 2);
    const ids = idsOf('job', 12);
    const queue = queueOf(4);
    for (const id of ids) await add(queue, id);
    await eventually('all have run', () => ran.size === 12);
  });

  it.each([
    [1, 4],
    [4, 1],
    [4, 3],
    [2, 6],
  ])('from %i to %i keeps jobs that wait, and takes each id once', async (before, after) => {
    const former = queueOf(before);
    const ids = idsOf('job', 30);
    for (const id of ids.slice(0, 20)) await add(former, id);
    const next = queueOf(after);
    for (const id of ids) await add(next, id);
    // The process with the former number goes on for a while.
    for (const id of ids) await add(former, id);
    for (const queue of [former, next]) {
      for (const id of ids) expect(await queue.record(id), id).toMatchObject({ state: 'waiting' });
    }
    expect((await next.counts()).prioritized).toBe(30);
    expect(sorted(await runsOf(next, ids))).toEqual(once(ids));
    for (const queue of [former, next])
      for (const id of ids) await expect.poll(() => queue.record(id)).toMatchObject({ state: 'completed' });
  });

  it('takes each id once from processes with three numbers that add at the same time', async () => {
    const ids = idsOf('job', 60);
    // Each learns of those that are older than itself only.
    const queues = [queueOf(1), queueOf(4), queueOf(3)];
    for (const queue of queues) await queue.counts();
    await Promise.all(ids.flatMap((id, index) => [0, 1, 2].map((turn) => add(queues[(index + turn) % 3]!, id))));
    expect(sorted(await runsOf(queues[2]!, ids))).toEqual(once(ids));
    for (const queue of queues)
      for (const id of ids) expect(await queue.record(id), id).toMatchObject({ state: 'completed' });
  });

  it('lets a process with the former number cancel and follow jobs of the new one', async () => {
    const former = queueOf(1);
    await former.counts();
    const next = queueOf(4);
    const ids = idsOf('job', 8);
    for (const id of ids) await add(next, id);
    for (const id of ids) expect(await former.cancel(id)).toBe('removed');
    expect((await next.counts()).prioritized).toBe(0);
  });

  it('removes the records of finished jobs in shards that are left', async () => {
    const former = queueOf(4);
    const id = idsOf('job', 20).find((each) => shardOf(each, 4) === 3)!;
    await add(former, id);
    await runsOf(former, [id]);
    await eventually('its record is written', async () => (await former.record(id)).state === 'completed');
    const next = queueOf(1, { completedSeconds: 0 });
    await eventually('it is removed', async () => {
      // It is tried again when the number is noted again.
      await next.counts();
      return (await redis.exists(jobKey(name, id, 3))) === 0;
    });
  });

  it('goes on where a process died after it had reserved an id', async () => {
    const former = queueOf(1);
    await former.counts();
    const lost = queueOf(4);
    const id = idsOf('job', 20).find((each) => shardOf(each, 4) === 3)!;
    await redis.hset(jobKey(name, id), 'moved', 3);
    await add(former, id);
    expect(await redis.exists(jobKey(name, id, 3))).toBe(1);
    await add(lost, id);
    expect(sorted(await runsOf(lost, [id]))).toEqual(once([id]));
  });

  it('forgets numbers that nothing has used for days, when one is left', async () => {
    const key = `{fleet}:${name}:shards`;
    const numbers = async () => Object.keys(await redis.hgetall(key)).toSorted();
    await queueOf(1).counts();
    await queueOf(4).counts();
    await queueOf(3).counts();
    await redis.hset(key, '1', '1:1000');
    await queueOf(3).counts();
    expect(await numbers()).toEqual(['1', '3', '4']);
    await redis.hset(key, '4', '2:1000');
    await queueOf(3).counts();
    expect(await numbers()).toEqual(['3']);
    await queueOf(1).counts();
    expect(await redis.hget(key, '1')).toMatch(/^4:/);
  });

  it('is safe next to a release that knows no shards', async () => {
    await redis.set(`{fleet}:${name}:id`, '1');
    const next = queueOf(4);
    const id = idsOf('job', 20).find((each) => shardOf(each, 4) !== 0)!;
    await add(next, id);
    // What such a release adds under the same id meets the reservation.
    expect(await redis.hget(jobKey(name, id), 'moved')).toBe(String(shardOf(id, 4)));
    expect(await redis.pttl(jobKey(name, id))).toBeGreaterThan(300_000);
  });
});
