import type { AddressInfo } from 'node:net';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Principal } from '@toolfleet/contracts';
import Fastify, { type FastifyInstance } from 'fastify';
import { afterEach, describe, expect, it } from 'vitest';
import { EventStreams, type EventStream } from './event-streams.js';
import { sendError, toRequestError } from './error.filter.js';
import { MemoryAccount } from './memory-account.js';

/** A tenant may have 16 MiB. */
const MEMORY = new MemoryAccount({ maxBodyBytes: 1, maxBytes: 64 * 1024 * 1024 });

const caller = (tenantId: string): Principal => ({ tenantId, userId: 'u', roles: [], tools: ['*'], via: 'api_key' });

const ignored = (): void => undefined;

describe('places for streams', () => {
  const streams = new EventStreams({ maxStreams: 5, maxStreamsPerTenant: 3 }, MEMORY);

  it('are limited per tenant', () => {
    const taken = ['a', 'a', 'a'].map((tenant) => streams.enter(caller(tenant), ignored));
    expect(() => streams.enter(caller('a'), ignored)).toThrow(/Your tenant has 3/);
    taken.push(streams.enter(caller('b'), ignored), streams.enter(caller('c'), ignored));
    expect(() => streams.enter(caller('d'), ignored)).toThrow(/5 event streams are open/);
    for (const leave of taken) {
      leave();
      leave(); // twice is once
    }
    expect(streams.open).toBe(0);
    streams.enter(caller('a'), ignored)();
  });
});

let fastify: FastifyInstance | undefined;
const sockets: Socket[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await fastify?.close();
});

/** A server with one stream, and how to open it without ever reading. */
async function serving(streams: EventStreams, work: (stream: EventStream) => Promise<void>) {
  fastify = Fastify({ forceCloseConnections: true });
  fastify.get('/events', async (_request, reply) => {
    await streams
      .serve(caller('acme'), reply, work)
      .catch((error: unknown) => sendError(reply, '/', toRequestError(error)));
    return reply;
  });
  await fastify.listen({ port: 0, host: '127.0.0.1' });
  const { port } = fastify.server.address() as AddressInfo;
  return (): Socket => {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    sockets.push(socket);
    socket.pause().write('GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n');
    return socket;
  };
}

const frame = (bytes: number): string => `data: ${'x'.repeat(bytes)}\n\n`;

describe('a stream that its client does not read', () => {
  it('delays its next frame, then disconnects its client and frees its place', async () => {
    const streams = new EventStreams({ maxStreams: 5, maxStreamsPerTenant: 5, stalledMs: 300 }, MEMORY);
    let sent = 0;
    const open = await serving(streams, async (stream) => {
      while (!stream.closed) {
        await stream.send(frame(100_000));
        sent += 1;
      }
    });
    open();
    await expect.poll(() => sent).toBeGreaterThan(0);
    await expect.poll(() => streams.open).toBe(0);
    // What the kernel takes, some megabytes, and not what a second of writing would give.
    expect(sent).toBeLessThan(200);
  });

  it('is closed when the streams of its tenant have too many unread bytes', async () => {
    const streams = new EventStreams({ maxStreams: 50, maxStreamsPerTenant: 50, stalledMs: 60_000 }, MEMORY);
    const ends: boolean[] = [];
    const open = await serving(streams, async (stream) => {
      await stream.send(frame(14_000_000));
      ends.push(stream.closed);
    });
    for (let count = 0; count < 10; count += 1) open();
    await expect.poll(() => ends.length).toBe(9);
    expect(ends.every(Boolean)).toBe(true);
    expect(streams.open).toBe(1);
  });

  it('closes its connection when its work throws after the first frame', async () => {
    const streams = new EventStreams({ maxStreams: 5, maxStreamsPerTenant: 5 }, MEMORY);
    const open = await serving(streams, async (stream) => {
      await stream.send(frame(10));
      throw new Error('a fault of the spec');
    });
    const socket = open().resume();
    await new Promise((resolve) => socket.once('close', resolve));
    expect(streams.open).toBe(0);
  });
});

describe('a stream that is read', () => {
  it('delivers every frame of any size', async () => {
    const streams = new EventStreams({ maxStreams: 5, maxStreamsPerTenant: 5, stalledMs: 5_000 }, MEMORY);
    const open = await serving(streams, async (stream) => {
      for (let count = 0; count < 20; count += 1) await stream.send(frame(1_000_000));
    });
    let bytes = 0;
    const socket = open()
      .on('data', (chunk) => (bytes += chunk.length))
      .resume();
    await expect.poll(() => bytes).toBeGreaterThan(20_000_000);
    socket.destroy();
  });
});

describe('a stream whose credential is void', () => {
  /** A credential watch that the spec triggers. */
  class Watch {
    readonly open = new Set<() => void>();
    watch(_who: Principal, onVoid: () => void): () => void {
      this.open.add(onVoid);
      return () => void this.open.delete(onVoid);
    }
  }

  async function opened(frameBytes: number) {
    const watch = new Watch();
    const streams = new EventStreams({ maxStreams: 5, maxStreamsPerTenant: 5, stalledMs: 60_000 }, MEMORY, watch);
    const progress = { sent: 0 };
    const open = await serving(streams, async (stream) => {
      while (!stream.closed) {
        await stream.send(frame(frameBytes));
        progress.sent += 1;
        await sleep(1);
      }
    });
    const socket = open();
    await expect.poll(() => watch.open.size).toBe(1);
    const makeVoid = (): void => {
      for (const onVoid of watch.open) onVoid();
    };
    const left = () => expect.poll(() => [streams.open, watch.open.size]).toEqual([0, 0]);
    return { socket, progress, makeVoid, left };
  }

  it('ends in order', async () => {
    const { socket, progress, makeVoid, left } = await opened(10);
    let end = '';
    socket.on('data', (chunk) => (end = `${end}${String(chunk)}`.slice(-20))).resume();
    await expect.poll(() => progress.sent).toBeGreaterThan(3);
    makeVoid();
    await left();
    await expect.poll(() => end).toContain('0\r\n\r\n');
  });

  it('is closed when its client reads nothing', async () => {
    const { progress, makeVoid, left } = await opened(1_000_000);
    let last = -1;
    const isStuck = (): boolean => {
      const stuck = progress.sent === last;
      last = progress.sent;
      return stuck;
    };
    await expect.poll(isStuck, { interval: 300 }).toBe(true);
    makeVoid();
    await left();
  });
});
