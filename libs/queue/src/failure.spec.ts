import { fileURLToPath } from 'node:url';
import { SystemClock } from '@toolfleet/resilience';
import { createMetrics } from '@toolfleet/telemetry';
import {
  bundleForTest,
  endChild,
  eventually,
  FakeClock,
  spawnChild,
  startRedis,
  type RedisServer,
  type TestProgram,
} from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { JobQueue } from './job-queue.js';
import { JobWorker } from './job-worker.js';
import type { JobData } from './jobs.js';
import { closeRedis, connectRedis, openRedis } from './redis-connection.js';
import { RedisTime } from './redis-time.js';
import { ReplyChannel } from './reply-channel.js';

interface SpecJob extends JobData {
  work: string;
}

const clock = new SystemClock();
const soon = (ms: number) => ({ deadlineAt: clock.now() + ms });

/** One process's side of a queue. */
async function side(server: RedisServer, name: string) {
  const log: string[] = [];
  const lines = { warn: (line: string) => void log.push(line), info: (line: string) => void log.push(line) };
  const redis = connectRedis(server.url, { name: 'spec', role: 'commands', log: lines });
  const blocking = connectRedis(server.url, { name: 'spec', role: 'blocking' });
  await openRedis(redis, server.url);
  await openRedis(blocking, server.url);
  const time = new RedisTime(redis, clock);
  await time.start();
  const queue = new JobQueue<SpecJob, { by: number; repeated: boolean }>({ name, redis, time });
  const replies = new ReplyChannel({ redis: blocking, queues: [name] });
  await replies.start();
  const metrics = createMetrics({ version: '1.2.3', revision: 'abc' });
  const worker = new JobWorker<SpecJob, unknown>({
    metrics,
    queue: name,
    redis: blocking,
    publisher: redis,
    time,
    concurrency: 2,
    handler: async ({ data, isRepeated }) => {
      if (data.work === 'slow') await clock.sleep(2_500);
      return { by: process.pid, repeated: isRepeated };
    },
  });
  return {
    redis,
    blocking,
    queue,
    replies,
    worker,
    metrics,
    log,
    stop: async () => {
      await replies.stop();
      await worker.stop();
      await queue.close();
      time.stop();
      await Promise.all([closeRedis(redis), closeRedis(blocking)]);
    },
  };
}

describe('workers that die', () => {
  let server: RedisServer;
  let program: TestProgram;
  beforeAll(async () => {
    server = await startRedis();
    program = await bundleForTest(fileURLToPath(new URL('../spec/crashing-worker.ts', import.meta.url)));
  });
  afterAll(async () => {
    await program?.remove();
    await server?.stop();
  });

  /** Starts a worker process; resolves when it takes jobs. */
  async function workerProcess(queue: string) {
    const taken: string[] = [];
    let isStarted = false;
    const child = spawnChild(process.execPath, [program.entry, server.url, queue], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    child.on('message', (message: { took?: string; started?: boolean }) => {
      if (message.took) taken.push(message.took);
      if (message.started) isStarted = true;
    });
    await eventually('the worker started', () => isStarted);
    return { child, taken };
  }

  it('a job of a killed worker runs again elsewhere, and its caller gets the answer', async () => {
    const here = await side(server, 'killed');
    const there = await workerProcess('killed');
    const answer = here.replies.submit(here.queue, { call_id: 'k1', attempt: 1, work: 'hang' }, soon(25_000));
    await eventually('the worker took it', () => there.taken.length === 1);
    await endChild(there.child, 'SIGKILL');
    await here.worker.start();
    expect(await answer).toEqual({ by: process.pid, repeated: true });
    expect(await here.metrics.scrape()).toContain('toolfleet_queue_stalled_total{queue="killed"} 1');
    await here.stop();
  });

  it('a job that kills its workers ends as WORKER_LOST instead of circling', async () => {
    const here = await side(server, 'poison');
    const first = await workerProcess('poison');
    const second = await workerProcess('poison');
    const third = await workerProcess('poison');
    const answer = here.replies
      .submit(here.queue, { call_id: 'p1', attempt: 1, work: 'die' }, soon(50_000))
      .catch((error: unknown) => error);
    expect(await answer).toMatchObject({ code: 'WORKER_LOST' });
    const alive = [first, second, third].filter(({ child }) => child.signalCode === null && child.exitCode === null);
    expect(alive).toHaveLength(1);
    await Promise.all([first, second, third].map(({ child }) => endChild(child, 'SIGKILL')));
    await here.stop();
  });
});

describe('a Redis that goes away', () => {
  it('refuses new jobs at once, answers old ones after it is back, and logs one line each way', async () => {
    const server = await startRedis({ appendOnly: true });
    const here = await side(server, 'outage');
    // Of the caller that is refused: nothing ends by time.
    const still = new FakeClock(clock.now());
    const refused = new ReplyChannel({ redis: here.blocking, queues: ['outage'], clock: still });
    await refused.start();
    await here.worker.start();
    const inWork = here.replies.submit(here.queue, { call_id: 'o1', attempt: 1, work: 'slow' }, soon(25_000));
    await eventually('it is in work', () => here.worker.inFlight === 1);
    await server.persisted();
    await server.kill();
    await eventually('the connection noticed', () => here.redis.status !== 'ready');
    await expect(
      refused.submit(here.queue, { call_id: 'o2', attempt: 1, work: 'quick' }, { deadlineAt: still.now() + 25_000 }),
    ).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
    await refused.stop();
    await server.restart();
    expect(await inWork).toMatchObject({ by: process.pid });
    await eventually('it is back', () => here.redis.status === 'ready');
    expect(
      await here.replies.submit(here.queue, { call_id: 'o3', attempt: 1, work: 'quick' }, soon(25_000)),
    ).toMatchObject({ repeated: false });
    expect(here.log).toHaveLength(2);
    expect(here.log[0]).toMatch(/^Redis at redis:\/\/127\.0\.0\.1:\d+ (is unavailable|closed)/);
    expect(here.log[1]).toMatch(/is available again$/);
    await here.stop();
    await server.stop();
  });

  it('is named in one line when it is unavailable from the start', async () => {
    const client = connectRedis('redis://me:geheim@127.0.0.1:1', { name: 'spec' });
    await expect(openRedis(client, 'redis://me:geheim@127.0.0.1:1')).rejects.toThrow(
      /^no Redis at redis:\/\/127\.0\.0\.1:1: /,
    );
    await closeRedis(client);
  });
});
