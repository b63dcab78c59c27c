import { SystemClock } from '@toolfleet/resilience';
import { createMetrics } from '@toolfleet/telemetry';
import { eventually, FakeClock, startRedis, type RedisServer } from '@toolfleet/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { JobQueue } from './job-queue.js';
import { queueMetrics } from './queue-metrics.js';
import { closeRedis, connectRedis, openRedis } from './redis-connection.js';
import { RedisTime } from './redis-time.js';

let server: RedisServer;
let redis: ReturnType<typeof connectRedis>;
beforeAll(async () => {
  server = await startRedis();
  redis = connectRedis(server.url, { name: 'spec', commandTimeoutMs: 200 });
  await openRedis(redis, server.url);
});
afterAll(async () => {
  await closeRedis(redis);
  await server.stop();
});

it('drops the figures of a queue that could not be read for 30 s, and shows them again after', async () => {
  const clock = new FakeClock();
  const metrics = createMetrics({ version: '0', revision: 'spec' });
  const queue = new JobQueue({
    name: 'python-runs',
    redis,
    time: new RedisTime(redis, new SystemClock()),
    maxLength: 5,
  });
  const gauges = queueMetrics([queue as never], metrics, clock);
  const shown = async () => (await metrics.scrape()).match(/^toolfleet_queue_\w+(?=\{queue="python-runs")/gm) ?? [];
  await gauges.run();
  try {
    expect(new Set(await shown())).toEqual(new Set(['toolfleet_queue_jobs', 'toolfleet_queue_oldest_job_age_seconds']));
    server.pause();
    clock.advance(30_000);
    expect(await shown(), 'a short outage').not.toEqual([]);
    clock.advance(1);
    expect(await shown()).toEqual([]);
    server.resume();
    await eventually('the figures are back', async () => {
      await gauges.run();
      return (await shown()).length > 0;
    });
  } finally {
    server.resume();
    await gauges.stop();
    await queue.close();
  }
});
