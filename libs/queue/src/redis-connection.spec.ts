import { connect, createServer, type AddressInfo } from 'node:net';
import { SystemClock } from '@toolfleet/resilience';
import { startRedis } from '@toolfleet/testing';
import { describe, expect, it } from 'vitest';
import { JobQueue } from './job-queue.js';
import { JobWorker } from './job-worker.js';
import {
  closeRedis,
  connectRedis,
  openRedis,
  redisComponent,
  toRedisOptions,
  type RedisSettings,
} from './redis-connection.js';
import { RedisTime } from './redis-time.js';
import { ReplyChannel } from './reply-channel.js';

describe('a connection', () => {
  it('is a part that waits for Redis and fails permanently on a bad password', async () => {
    const server = await startRedis();
    const admin = server.client();
    await admin.config('SET', 'requirepass', 'right-password');
    const part = (password: string) => {
      const client = connectRedis(server.url, { name: 'spec', password });
      return redisComponent(client, server.url);
    };
    const wrong = part('wrong-password');
    await expect(wrong.start()).rejects.toThrow(/WRONGPASS/);
    expect(await wrong.ready()).toBe(false);
    await wrong.stop();
    const right = part('right-password');
    await right.start();
    expect(await right.ready()).toBe(true);
    await right.stop();
    await server.stop();
  });
});

describe('a connection', () => {
  it('sends the commands of later turns while the server does not answer', async () => {
    const server = await startRedis();
    let hangs = false;
    let unanswered = '';
    const proxy = createServer((socket) => {
      const upstream = connect(server.port, '127.0.0.1').on('error', () => undefined);
      upstream.pipe(socket).on('error', () => upstream.destroy());
      socket.on('data', (data) => (hangs ? (unanswered += String(data)) : upstream.write(data)));
      socket.on('close', () => upstream.destroy());
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const url = `redis://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const client = connectRedis(url, { name: 'spec', commandTimeoutMs: 60_000 });
    await openRedis(client, url);
    await client.ping();
    hangs = true;
    for (const key of ['first', 'second']) {
      client.get(key).catch(() => undefined);
      await expect.poll(() => unanswered).toContain(key);
    }
    client.disconnect();
    proxy.close();
    await server.stop();
  });
});

describe('a connection of production', () => {
  it('refuses a Redis whose acknowledged writes may be gone after a restart', async () => {
    const server = await startRedis();
    const admin = server.client();
    const start = async (settings: RedisSettings) => {
      const options = toRedisOptions({ REDIS_REQUIRE_AOF: true, ENVIRONMENT: 'production', ...settings });
      const component = redisComponent(connectRedis(server.url, { name: 'spec', ...options }), server.url);
      try {
        await component.start();
      } finally {
        await component.stop();
      }
    };
    await expect(start({})).rejects.toMatchObject({
      startRefused: true,
      message: expect.stringContaining('no append-only file (appendonly yes); set it, or REDIS_REQUIRE_AOF=false'),
    });
    await start({ ENVIRONMENT: 'dev' });
    await start({ REDIS_REQUIRE_AOF: false });
    await admin.config('SET', 'appendonly', 'yes');
    await start({});
    await admin.config('SET', 'appendfsync', 'no');
    await expect(start({})).rejects.toMatchObject({ message: expect.stringContaining('appendfsync no') });
    await server.stop();
  });
});

describe('Sentinel over TLS', () => {
  it('is asked over TLS, and so is the server it names', async () => {
    const { promise: firstByte, resolve } = Promise.withResolvers<number | undefined>();
    const listener = createServer((socket) => {
      socket.once('data', (chunk) => {
        resolve(chunk[0]);
        socket.destroy();
      });
      socket.on('error', () => undefined);
    });
    await new Promise<void>((listening) => listener.listen(0, '127.0.0.1', listening));
    const { port } = listener.address() as AddressInfo;
    const client = connectRedis(`rediss+sentinel://127.0.0.1:${port}/fleet`, { name: 'spec', sentinelPassword: 'pw' });
    client.connect().catch(() => undefined);
    expect(await firstByte).toBe(0x16); // a TLS handshake
    expect(client.options).toMatchObject({ enableTLSForSentinelMode: true, tls: {}, sentinelPassword: 'pw' });
    expect(client.options.failoverDetector).toBe(true);
    client.disconnect();
    await new Promise((closed) => listener.close(closed));
  });
});

describe('Redis Cluster', () => {
  it('runs a queue with replies, cancellation and time', async () => {
    const server = await startRedis({ cluster: true });
    const clock = new SystemClock();
    const redis = connectRedis(server.url, { name: 'spec' });
    const blocking = connectRedis(server.url, { name: 'spec', role: 'blocking' });
    await redisComponent(redis, server.url).start();
    await openRedis(blocking, server.url);
    const time = new RedisTime(redis, clock);
    await time.start();
    const queue = new JobQueue({ name: 'on-cluster', redis, time, shareOf: () => 'acme' });
    const replies = new ReplyChannel({ redis: blocking, queues: ['on-cluster'] });
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
          throw signal.reason; // a result that is ready right after the deadline may still reach the caller
        }
        return { id: data.call_id };
      },
    });
    await worker.start();
    expect(await replies.submit(queue, { call_id: 'c1' }, { deadlineAt: clock.now() + 5_000 })).toEqual({ id: 'c1' });
    await expect(replies.submit(queue, { call_id: 'hang' }, { deadlineAt: clock.now() + 2_000 })).rejects.toMatchObject(
      {
        code: 'DEADLINE_EXCEEDED',
      },
    );
    await expect.poll(() => aborted).toBe(true);
    await expect.poll(async () => (await queue.counts()).active).toBe(0);
    expect(Math.abs(time.now() - clock.now())).toBeLessThan(1_000);
    await replies.stop();
    await worker.stop();
    await queue.close();
    time.stop();
    await Promise.all([closeRedis(redis), closeRedis(blocking)]);
    await server.stop();
  });
});
