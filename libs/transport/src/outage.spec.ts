import { Controller, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { eventually, FakeClock, startNats, type NatsServer } from '@toolfleet/testing';
import { connect } from 'nats';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Endpoint } from './endpoint.js';
import { NatsClient } from './nats-client.js';
import { NatsStrategy } from './nats-strategy.js';

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

@Controller()
class SlowEndpoint {
  @Endpoint('o.echo')
  echo(body: unknown): unknown {
    return body;
  }

  @Endpoint('o.slow')
  async slow(body: { ms: number }): Promise<string> {
    await sleep(body.ms);
    return 'done';
  }

  @Endpoint('o.narrow', { concurrency: 2 })
  async narrow(): Promise<string> {
    await sleep(150);
    return 'done';
  }
}

@Module({ controllers: [SlowEndpoint] })
class SlowModule {}

async function serve(url: string, concurrency?: number) {
  const connection = await NatsClient.connect({ url, name: 'server' });
  const strategy = new NatsStrategy({ connection, queue: 'o', ...(concurrency === undefined ? {} : { concurrency }) });
  const app = await NestFactory.createMicroservice(SlowModule, { strategy, logger: false });
  await app.listen();
  return {
    strategy,
    stop: async () => {
      await app.close();
      await connection.close();
    },
  };
}

describe('load and shutdown', () => {
  let nats: NatsServer;
  let client: NatsClient;
  beforeAll(async () => {
    nats = await startNats();
    client = await NatsClient.connect({ url: nats.url, name: 'caller' });
  });
  afterAll(async () => {
    await client?.close();
    await nats?.stop();
  });

  it('drain finishes messages in flight and accepts no more', async () => {
    const server = await serve(nats.url);
    const inWork = client.request('o.slow', { ms: 400 }, { timeoutMs: 5_000 });
    await eventually('it is in work', () => server.strategy.inFlight === 1);
    const drained = server.strategy.drain(5_000);
    await eventually('it takes nothing more', () =>
      client.request('o.echo', 1).then(
        () => false,
        (error: { code: string }) => error.code === 'EXECUTOR_UNAVAILABLE',
      ),
    );
    await drained;
    expect(await inWork).toBe('done');
    expect(server.strategy.inFlight).toBe(0);
    await server.stop();
  });

  it('drain is bounded', async () => {
    const server = await serve(nats.url);
    const inWork = client.request('o.slow', { ms: 3_000 }, { timeoutMs: 4_000 }).catch(() => undefined);
    await eventually('it is in work', () => server.strategy.inFlight === 1);
    await server.strategy.drain(100);
    expect(server.strategy.inFlight).toBe(1);
    await server.stop();
    void inWork;
  });

  it('refuses messages beyond its concurrency, per process and per endpoint', async () => {
    const server = await serve(nats.url, 3);
    const ask = (subject: string, count: number) =>
      Promise.all(
        Array.from({ length: count }, () =>
          client.request(subject, { ms: 150 }, { timeoutMs: 5_000 }).catch((error: { code: string }) => error.code),
        ),
      );
    expect((await ask('o.slow', 5)).map(String).toSorted()).toEqual([
      'QUEUE_FULL',
      'QUEUE_FULL',
      'done',
      'done',
      'done',
    ]);
    expect((await ask('o.narrow', 3)).map(String).toSorted()).toEqual(['QUEUE_FULL', 'done', 'done']);
    await server.stop();
  });

  it('answers every one of many concurrent requests while servers come and go', async () => {
    const first = await serve(nats.url);
    const second = await serve(nats.url);
    const outcomes = Promise.all(
      Array.from({ length: 300 }, async (_, index) => {
        await sleep(index);
        return client.request('o.slow', { ms: 20 }, { timeoutMs: 5_000 });
      }),
    );
    await sleep(100);
    await first.strategy.drain(5_000);
    await first.stop();
    expect(new Set(await outcomes)).toEqual(new Set(['done']));
    await second.stop();
  });
});

describe('an outage of NATS', () => {
  it('fails new requests at once, keeps deadlines of old ones, and recovers afterwards', async () => {
    const nats = await startNats();
    const client = await NatsClient.connect({ url: nats.url, name: 'caller' });
    // Nothing of this one ends by time.
    const still = await NatsClient.connect({ url: nats.url, name: 'caller', clock: new FakeClock() });
    const server = await serve(nats.url);
    expect(await client.request('o.echo', { a: 1 })).toEqual({ a: 1 });

    const inFlight = client.request('o.slow', { ms: 60_000 }, { timeoutMs: 1_500 }).catch((error: unknown) => error);
    // Messages keep their order: the server has both.
    await client.request('o.echo', 1);
    await nats.kill();
    await eventually('the clients noticed', () => !client.connected && !still.connected);
    await expect(still.request('o.echo', 1, { timeoutMs: 10_000 })).rejects.toMatchObject({
      code: 'EXECUTOR_UNAVAILABLE',
      details: { reason: 'disconnected' },
    });
    expect(() => client.publish('o.echo', 1)).toThrow(/NATS is unavailable/);
    expect(await inFlight).toMatchObject({ code: 'DEADLINE_EXCEEDED' });

    await nats.restart();
    await eventually('both are back', async () => {
      if (!client.connected) return false;
      return client.request('o.echo', 2, { timeoutMs: 500 }).then(
        (reply) => reply === 2,
        () => false,
      );
    });
    await server.stop();
    await still.close();
    await client.close();
    await nats.stop();
  });

  it('is reported in one line when it exists at start', async () => {
    await expect(NatsClient.connect({ url: 'nats://user:pw@127.0.0.1:1', name: 'x' })).rejects.toThrow(
      /^no NATS server at nats:\/\/127\.0\.0\.1:1: /,
    );
  });

  it('allows a client that failed to connect to try again', async () => {
    const nats = await startNats();
    await nats.kill();
    const client = NatsClient.create({ url: nats.url, name: 'x' });
    await expect(client.request('o.echo', 1)).rejects.toMatchObject({ code: 'EXECUTOR_UNAVAILABLE' });
    await expect(client.connect()).rejects.toThrow();
    await nats.restart();
    await client.connect();
    const plain = await connect({ servers: nats.url });
    plain.subscribe('p.echo', { callback: (_error, message) => void message.respond(message.data) });
    await plain.flush();
    expect(await client.request('p.echo', [1])).toEqual([1]);
    await plain.close();
    await client.close();
    await nats.stop();
  });
});
