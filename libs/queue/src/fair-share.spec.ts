import { QUEUE_PREFIX } from '@toolfleet/contracts/subjects';
import { SystemClock } from '@toolfleet/resilience';
import { startRedis, type RedisServer } from '@toolfleet/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { JobQueue } from './job-queue.js';
import { JobWorker } from './job-worker.js';
import type { JobData } from './jobs.js';
import { RedisTime } from './redis-time.js';

interface TenantJob extends JobData {
  tenant_id: string;
}

const clock = new SystemClock();
let server: RedisServer;
let redis: ReturnType<RedisServer['client']>;
let queue: JobQueue<TenantJob, null>;
let count = 0;

beforeAll(async () => {
  server = await startRedis();
  redis = server.client();
});
afterAll(() => server?.stop());
beforeEach(() => {
  const shareOf = (job: TenantJob) => job.tenant_id;
  queue = new JobQueue({ name: `fair-${++count}`, redis, time: new RedisTime(redis, clock), shareOf });
});

const add = (tenant: string, id: string) => queue.add(id, { call_id: id, tenant_id: tenant });

/** Ids in the order in which one worker takes them. */
async function orderOf(jobs: number): Promise<string[]> {
  const order: string[] = [];
  const worker = new JobWorker<TenantJob, null>({
    queue: queue.name,
    redis,
    publisher: redis,
    time: queue.time,
    concurrency: 1,
    handler: async (run) => {
      order.push(run.jobId);
      return null;
    },
  });
  await worker.start();
  while (order.length < jobs) await clock.sleep(10);
  await worker.drain();
  await worker.stop();
  await queue.close();
  return order;
}

describe('a full queue', () => {
  beforeEach(() => {
    const shareOf = (job: TenantJob) => job.tenant_id;
    queue = new JobQueue({
      name: `full-${++count}`,
      redis,
      time: new RedisTime(redis, clock),
      shareOf,
      maxLength: 100,
    });
  });

  it('refuses the tenant that filled it, and takes the first jobs of others', async () => {
    for (let i = 0; i < 100; i++) await add('flood', `f${i}`);
    await expect(add('flood', 'one more')).rejects.toMatchObject({ code: 'QUEUE_FULL', retryAfterMs: 1_000 });
    for (let i = 0; i < 9; i++) await add('small', `s${i}`);
    expect((await queue.counts()).prioritized).toBe(109);
    await expect(add('flood', 'still')).rejects.toMatchObject({ code: 'QUEUE_FULL' });
    const order = await orderOf(109);
    expect(order.indexOf('s8')).toBeLessThan(20);
  });

  it('also ends for others', async () => {
    for (let i = 0; i < 100; i++) await add('flood', `f${i}`);
    for (let i = 0; i < 10; i++) await add(`tenant ${i}`, `t${i}`);
    await expect(add('tenant 11', 't11')).rejects.toMatchObject({ code: 'QUEUE_FULL' });
  });
});

describe('large jobs', () => {
  const newQueue = () => {
    const shareOf = (job: TenantJob) => job.tenant_id;
    const time = new RedisTime(redis, clock);
    return new JobQueue<TenantJob, null>({ name: `large-${count}`, redis, time, shareOf, maxShareBytes: 300_000 });
  };
  const addLarge = (tenant: string, id: string, bytes: number) =>
    queue.add(id, { call_id: id, tenant_id: tenant, text: 'x'.repeat(bytes) } as TenantJob);
  const refusal = { code: 'QUEUE_FULL', message: expect.stringContaining('300000 bytes') };

  it('of one tenant are bounded in bytes until they have ended', async () => {
    queue = newQueue();
    for (let i = 0; i < 3; i++) await addLarge('flood', `f${i}`, 90_000);
    await expect(addLarge('flood', 'one more', 90_000)).rejects.toMatchObject(refusal);
    await addLarge('flood', 'small', 60_000);
    await addLarge('other', 'o', 90_000);
    await queue.cancel('f1');
    await addLarge('flood', 'in its place', 90_000);
    await expect(addLarge('flood', 'still', 90_000)).rejects.toMatchObject(refusal);
    await orderOf(5);
    queue = newQueue();
    // A single one may be larger.
    await addLarge('flood', 'alone', 400_000);
    await expect(addLarge('flood', 'and another', 70_000)).rejects.toMatchObject(refusal);
    await queue.close();
  });
});

describe('fair share', () => {
  it('lets the next job of another tenant pass a flood', async () => {
    for (let i = 0; i < 50; i++) await add('flood', `f${i}`);
    await add('small', 's0');
    await add('small', 's1');
    const order = await orderOf(52);
    expect(order.indexOf('s0')).toBeLessThanOrEqual(1);
    expect(order.indexOf('s1')).toBeLessThanOrEqual(3);
    expect(order.filter((id) => id.startsWith('f'))).toEqual(Array.from({ length: 50 }, (_, i) => `f${i}`));
  });

  it('shares out evenly between tenants that all flood', async () => {
    for (const tenant of ['a', 'b', 'c']) for (let i = 0; i < 20; i++) await add(tenant, `${tenant}${i}`);
    const order = await orderOf(60);
    const first = order.slice(0, 30).map((id) => id[0]);
    for (const tenant of ['a', 'b', 'c']) expect(first.filter((each) => each === tenant)).toHaveLength(10);
  });

  it('does not make up for the time before a tenant came', async () => {
    for (let i = 0; i < 30; i++) await add('old', `o${i}`);
    await orderOf(30);
    queue = new JobQueue({
      name: `fair-${count}`,
      redis,
      time: queue.time,
      shareOf: (job: TenantJob) => job.tenant_id,
    });
    for (let i = 0; i < 10; i++) await add('new', `n${i}`);
    for (let i = 0; i < 10; i++) await add('old', `p${i}`);
    const first = (await orderOf(20)).slice(0, 10);
    expect(first.filter((id) => id.startsWith('p')).length).toBeGreaterThanOrEqual(4);
  });

  it('starts to count again after an idle second', async () => {
    const places = `${QUEUE_PREFIX}:${queue.name}:places`;
    for (let i = 0; i < 5; i++) await add('a', `a${i}`);
    expect(await redis.hget(places, 's:a')).toBe('5');
    for (let i = 0; i < 5; i++) await queue.cancel(`a${i}`);
    await redis.hset(places, 'at', '0');
    await add('a', 'again');
    expect(await redis.hget(places, 's:a')).toBe('1');
    await queue.close();
  });

  it('gives other places to processes that add at once', async () => {
    await Promise.all(Array.from({ length: 20 }, (_, i) => add('a', `a${i}`)));
    expect(await redis.hget(`${QUEUE_PREFIX}:${queue.name}:places`, 's:a')).toBe('20');
    await queue.close();
  });
});
