import { SystemClock } from '@toolfleet/resilience';
import { startRedis } from '@toolfleet/testing';
import { describe, expect, it } from 'vitest';
import { JobQueue } from './job-queue.js';
import { JobWorker } from './job-worker.js';
import { closeRedis, connectRedis, openRedis, parseAddress, redisPart } from './redis-connection.js';
import { RedisTime } from './redis-time.js';
import { ReplyChannel } from './reply-channel.js';

describe('addresses', () => {
  it.each([
    ['redis://h', { kind: 'single', tls: false, nodes: [{ host: 'h', port: 6379 }] }],
    [
      'rediss://me:p%40ss@h:1/3',
      { kind: 'single', tls: true, username: 'me', password: 'p@ss', db: 3, nodes: [{ host: 'h', port: 1 }] },
    ],
    ['redis://:pw@[::1]:7', { kind: 'single', password: 'pw', nodes: [{ host: '::1', port: 7 }] }],
    [
      'redis+cluster://a:1,b',
      {
        kind: 'cluster',
        nodes: [
          { host: 'a', port: 1 },
          { host: 'b', port: 6379 },
        ],
      },
    ],
    [
      'rediss+cluster://u:p@a:1,rediss+cluster://u:p@b:2',
      {
        kind: 'cluster',
        tls: true,
        username: 'u',
        nodes: [
          { host: 'a', port: 1 },
          { host: 'b', port: 2 },
        ],
      },
    ],
    [
      'redis+sentinel://a,b:2/primary/4',
      {
        kind: 'sentinel',
        master: 'primary',
        db: 4,
        nodes: [
          { host: 'a', port: 26_379 },
          { host: 'b', port: 2 },
        ],
      },
    ],
    [
      'redis+sentinel://a/4?name=primary',
      { kind: 'sentinel', master: 'primary', db: 4, nodes: [{ host: 'a', port: 26_379 }] },
    ],
  ])('%s', (url, expected) => expect(parseAddress(url)).toMatchObject(expected));

  it.each(['http://h', 'redis:h', 'redis://', 'redis://h:port'])('%s is refused', (url) => {
    expect(() => parseAddress(url)).toThrow(/^not a Redis/);
  });
});

describe('a connection', () => {
  it('is a part that waits for Redis and refuses a bad password for good', async () => {
    const server = await startRedis();
    const admin = server.client();
    await admin.config('SET', 'requirepass', 'right-password');
    const part = (password: string) => {
      const client = connectRedis(server.url, { name: 'spec', password });
      return redisPart(client, server.url);
    };
    const wrong = part('wrong-password');
    await expect(wrong.start()).rejects.toThrow(/WRONGPASS/);
    expect(wrong.ready()).toBe(false);
    await wrong.stop();
    const right = part('right-password');
    await right.start();
    expect(right.ready()).toBe(true);
    await right.stop();
    await server.stop();
  });
});

describe('Redis Cluster', () => {
  it('runs a queue with replies, cancellation and time', async () => {
    const server = await startRedis({ cluster: true });
    const clock = new SystemClock();
    const redis = connectRedis(server.url, { name: 'spec' });
    const blocking = connectRedis(server.url, { name: 'spec', role: 'blocking' });
    await redisPart(redis, server.url).start();
    await openRedis(blocking, server.url);
    const time = new RedisTime(redis, clock);
    await time.start();
    const queue = new JobQueue({ name: 'on-cluster', redis, time });
    const replies = new ReplyChannel({ redis: blocking });
    await replies.start();
    let aborted = false;
    const worker = new JobWorker({
      queue: 'on-cluster',
      redis: blocking,
      publisher: redis,
      time,
      concurrency: 2,
      handler: async ({ data, signal }) => {
        if (data.call_id === 'hang') {
          await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
          aborted = true;
        }
        return { id: data.call_id };
      },
    });
    await worker.start();
    expect(await replies.submit(queue, { call_id: 'c1' }, { deadlineAt: clock.now() + 5_000 })).toEqual({ id: 'c1' });
    await expect(replies.submit(queue, { call_id: 'hang' }, { deadlineAt: clock.now() + 300 })).rejects.toMatchObject({
      code: 'DEADLINE_EXCEEDED',
    });
    await expect.poll(() => aborted).toBe(true);
    expect((await queue.counts()).active).toBe(0);
    expect(Math.abs(time.now() - clock.now())).toBeLessThan(1_000);
    await replies.stop();
    await worker.stop();
    await queue.close();
    time.stop();
    await Promise.all([closeRedis(redis), closeRedis(blocking)]);
    await server.stop();
  });
});
