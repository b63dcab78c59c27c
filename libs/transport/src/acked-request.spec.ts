import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { Controller, Module, type INestMicroservice } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ToolError, type ErrorCode, type JsonObject } from '@toolfleet/contracts';
import { eventually, startNats, type NatsServer } from '@toolfleet/testing';
import { untilAccepted } from '@toolfleet/testing/engine-fixture';
import { createMetrics } from '@toolfleet/telemetry';
import { connect, headers, type Msg, type NatsConnection } from 'nats';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { EndpointContext } from './endpoint.js';
import { Endpoint } from './endpoint.js';
import { NatsClient } from './nats-client.js';
import { NatsStrategy } from './nats-strategy.js';

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const aborts: string[] = [];
const runs: string[] = [];

@Controller()
class Executor {
  @Endpoint('x.run', { exec: true })
  async run(body: { work_ms?: number; fails?: boolean }, { callId }: EndpointContext): Promise<unknown> {
    runs.push(String(callId));
    if (body.fails) throw new ToolError('NOT_FOUND', { message: 'not here' });
    if (body.work_ms) await sleep(body.work_ms);
    return { ok: true };
  }

  @Endpoint('x.until-aborted', { exec: true })
  untilAborted(_body: unknown, { signal, callId }: EndpointContext): Promise<never> {
    return new Promise((_, reject) => {
      signal.addEventListener('abort', () => {
        aborts.push(`${callId} ${(signal.reason as ToolError).code}`);
        reject(signal.reason);
      });
    });
  }
}

@Module({ controllers: [Executor] })
class ExecutorModule {}

let nats: NatsServer;
let client: NatsClient;
let executor: NatsClient;
let plain: NatsConnection;
let app: INestMicroservice;
const metrics = createMetrics({ version: '1', revision: 'r' });

beforeAll(async () => {
  nats = await startNats();
  client = await NatsClient.connect({ url: nats.url, name: 'caller', metrics });
  executor = await NatsClient.connect({ url: nats.url, name: 'executor', metrics });
  plain = await connect({ servers: nats.url });
  const strategy = new NatsStrategy({ connection: executor, queue: 'x' });
  app = await NestFactory.createMicroservice(ExecutorModule, { strategy, logger: false });
  await app.listen();
});

afterAll(async () => {
  await app?.close();
  await client?.close();
  await executor?.close();
  await plain?.close();
  await nats?.stop();
});

let fences: number[] = [];
beforeEach(() => {
  fences = [];
});
const message = (callId: string, extra: object = {}) => ({
  call_id: callId,
  attempt: 1,
  fence: 1,
  journalled: true,
  ...extra,
});
const bumpFence = async (fence: number): Promise<number> => {
  fences.push(fence + 1);
  return fence + 1;
};

/** A responder in the hands of the test; returns what it received. */
async function responder(subject: string, onMessage: (message: Msg, body: { fence: number }) => void, queue?: string) {
  const seen: { fence: number; header: string }[] = [];
  const subscription = plain.subscribe(subject, {
    ...(queue ? { queue } : {}),
    callback: (_error, received) => {
      const body = received.json<{ fence: number }>();
      seen.push({ fence: body.fence, header: received.headers?.get('Tf-Fence') ?? '' });
      onMessage(received, body);
    },
  });
  await plain.flush();
  return { seen, end: () => subscription.unsubscribe() };
}
const ack = (received: Msg): void => {
  const head = headers();
  head.set('Tf-Ack', 'accepted');
  received.respond('', { headers: head });
};

describe('the ack-first hop', () => {
  it('treats a fast result as its own acknowledgement', async () => {
    let acks = 0;
    const options = { bumpFence, onAck: () => acks++, timeoutMs: 2_000 };
    const reply = await untilAccepted(() => client.requestAcked('x.run', message('q1'), options));
    expect(reply).toEqual({ ok: true });
    expect([acks, fences]).toEqual([0, []]);
  });

  it('is acknowledged by the strategy when the work takes long, and sent once', async () => {
    let acks = 0;
    const options = { bumpFence, onAck: () => acks++, timeoutMs: 5_000 };
    const reply = await untilAccepted(() => client.requestAcked('x.run', message('q2', { work_ms: 700 }), options));
    expect(reply).toEqual({ ok: true });
    expect(acks).toBe(1);
    expect(await metrics.scrape()).toMatch(/toolfleet_worker_slots\{executor="x",state="total"\} 1000/);
  });

  it('sends no acknowledgement to callers that send no fence', async () => {
    const reply = await untilAccepted(async () => {
      const first = await plain.request('x.run', JSON.stringify({ work_ms: 400 }), { timeout: 30_000 });
      const body = first.json<{ code?: ErrorCode; details?: JsonObject }>();
      if (body.code) throw new ToolError(body.code, { details: body.details });
      return body;
    });
    expect(reply).toEqual({ ok: true });
  });

  it('goes to another member with a raised fence when one is silent', async () => {
    let missed = 0;
    const silent = await responder('x.group', () => undefined, 'g');
    const awake = await responder('x.group', (received, body) => void received.respond(JSON.stringify(body)), 'g');
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        client.requestAcked<{ fence: number }>('x.group', message(`s${index}`), {
          bumpFence,
          onAckMissed: () => (missed += 1),
          timeoutMs: 8_000,
        }),
      ),
    );
    expect(silent.seen.length).toBeGreaterThan(0);
    // Also where a busy machine acknowledges late.
    expect(missed).toBeGreaterThanOrEqual(silent.seen.length);
    expect(replies).toHaveLength(20);
    expect(replies.filter((reply) => reply.fence > 1).length).toBeGreaterThan(0);
    for (const seen of [...silent.seen, ...awake.seen]) expect(seen.header).toBe(String(seen.fence));
    expect(await metrics.registry.metrics()).toMatch(
      /toolfleet_nats_ack_missed_total\{subject_class="x.group"\} [1-9]/,
    );
    silent.end();
    awake.end();
  });

  it('waits longer for the acknowledgement of a large message', async () => {
    const sentAt: number[] = [];
    const silent = await responder('y.large', (received) => {
      sentAt.push(performance.now());
      if (sentAt.length === 2) received.respond('{"ok":true}');
    });
    const large = message('large', { text: 'x'.repeat(500_000) });
    expect(await client.requestAcked('y.large', large, { bumpFence, timeoutMs: 30_000 })).toEqual({ ok: true });
    expect(sentAt[1]! - sentAt[0]!).toBeGreaterThan(500);
    silent.end();
  });

  it('goes to another member when the one that accepted it stops reporting', async () => {
    const gone = await responder('x.follow', (received) => {
      ack(received);
      plain.publish(received.headers!.get('Tf-Progress')!, JSON.stringify({ message: 'half' }));
    });
    const seen: unknown[] = [];
    const reply = client.requestAcked('x.follow', message('f1'), {
      bumpFence,
      silentMs: 400,
      onProgress: (one) => seen.push(one),
      timeoutMs: 60_000,
    });
    await eventually('it is accepted', () => seen.length > 0);
    gone.end();
    const next = await responder('x.follow', (received) => void received.respond('{}'));
    expect(await reply).toEqual({});
    expect([gone.seen.length, next.seen[0]?.fence, fences[0]]).toEqual([1, 2, 2]);
    next.end();
  });

  it('drops the reply of an older fence when the call is journalled, accepts it when it is idempotent', async () => {
    const held: Msg[] = [];
    const late = await responder('x.late', (received, body) => {
      if (body.fence === 1) held.push(received);
      else {
        held[0]?.respond('{"from":"old"}');
        setTimeout(() => received.respond('{"from":"new"}'), 60);
      }
    });
    expect(await client.requestAcked('x.late', message('l1'), { bumpFence, timeoutMs: 5_000 })).toEqual({
      from: 'new',
    });
    held.length = 0;
    const idempotent = message('l2', { journalled: false });
    expect(await client.requestAcked('x.late', idempotent, { bumpFence, timeoutMs: 5_000 })).toEqual({ from: 'old' });
    late.end();
  });

  it('only waits when the fence may not be raised, and accepts the late result', async () => {
    const slow = await responder('x.slow', (received) => void setTimeout(() => received.respond('{"late":true}'), 700));
    const refuse = async (): Promise<undefined> => undefined;
    expect(await client.requestAcked('x.slow', message('w1'), { bumpFence: refuse, timeoutMs: 5_000 })).toEqual({
      late: true,
    });
    expect(slow.seen).toHaveLength(1);
    slow.end();
  });

  it('sends again when the acknowledgement crossed with the raising of the fence', async () => {
    const held: Msg[] = [];
    const crossing = await responder('x.cross', (received, body) => {
      if (body.fence === 1) held.push(received);
      else received.respond(JSON.stringify(body));
    });
    const slowBump = async (fence: number): Promise<number> => {
      for (const received of held) ack(received);
      await plain.flush();
      await client.link.flush(); // the acknowledgement is here before the fence is
      return fence + 1;
    };
    expect(
      await client.requestAcked('x.cross', message('k1'), { bumpFence: slowBump, timeoutMs: 5_000 }),
    ).toMatchObject({ fence: 2 });
    crossing.end();
  });

  it('does not mistake its own stall for a silent executor', async () => {
    const worker = new Worker(
      `const { connect } = require('nats');
       connect({ servers: require('node:worker_threads').workerData }).then(async (nats) => {
         nats.subscribe('x.elsewhere', { callback: (_error, message) => message.respond('{"ok":true}') });
         await nats.flush();
         require('node:worker_threads').parentPort.postMessage('ready');
       });`,
      { eval: true, workerData: nats.url },
    );
    await once(worker, 'message');
    const waiting = client.requestAcked('x.elsewhere', message('st1'), { bumpFence, timeoutMs: 8_000 });
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    const until = performance.now() + 600;
    while (performance.now() < until);
    expect(await waiting).toEqual({ ok: true });
    expect(fences).toEqual([]);
    await worker.terminate();
  });

  it('retries raising the fence while the journal is unavailable, without a second send', async () => {
    const held: Msg[] = [];
    const slow = await responder('x.journal', (received) => void held.push(received));
    let asked = 0;
    const broken = async (): Promise<number> => {
      asked++;
      if (asked === 3) held[0]?.respond('{}');
      throw new Error('Redis is unavailable');
    };
    expect(await client.requestAcked('x.journal', message('j1'), { bumpFence: broken, timeoutMs: 5_000 })).toEqual({});
    expect(slow.seen).toHaveLength(1);
    slow.end();
  });

  it('stops the work at the executor when the caller gives up', async () => {
    const abort = new AbortController();
    const waiting = client.requestAcked('x.until-aborted', message('a1'), {
      bumpFence,
      signal: abort.signal,
      timeoutMs: 60_000,
    });
    setTimeout(() => abort.abort(), 50);
    await expect(waiting).rejects.toMatchObject({ code: 'CANCELLED' });
    await eventually('the executor heard', () => aborts.includes('a1 CANCELLED'));
    await expect(
      client.requestAcked('x.until-aborted', message('a2'), { bumpFence, timeoutMs: 120 }),
    ).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    await eventually('the deadline stopped it', () => aborts.some((line) => line.startsWith('a2 ')));
  });

  it('fails at once when no service listens', async () => {
    await expect(client.requestAcked('x.nobody', message('n1'), { bumpFence, timeoutMs: 5_000 })).rejects.toMatchObject(
      {
        code: 'EXECUTOR_UNAVAILABLE',
      },
    );
    expect(client.inFlight).toBe(0);
  });
});

describe('copies of a call', () => {
  /** Sends copies of one call by hand and collects what each is answered. */
  async function copies(callId: string, inbox: string, body: object = {}) {
    const answers: [reply: string, what: string][] = [];
    const subscription = plain.subscribe(`${inbox}.*`, {
      callback: (_error, received) => {
        const what = received.headers?.get('Tf-Ack') === 'accepted' ? 'ack' : received.string();
        answers.push([received.subject.slice(inbox.length + 1), what]);
      },
    });
    const send = async (fence: number, token = `r${fence}`): Promise<void> => {
      const head = headers();
      for (const [name, value] of [
        ['Tf-Call-Id', callId],
        ['Tf-Attempt', '1'],
        ['Tf-Fence', String(fence)],
      ] as const)
        head.set(name, value);
      const data = JSON.stringify({ ...message(callId, { fence, journalled: false }), ...body });
      plain.publish('x.run', data, { reply: `${inbox}.${token}`, headers: head });
      await plain.flush();
    };
    return { answers, send, end: () => subscription.unsubscribe() };
  }
  const ran = (callId: string): number => runs.filter((one) => one === callId).length;

  it('do not run again: the newest gets the reply of the first, later ones get the same reply', async () => {
    const sent = await copies('c1', '_INBOX.c1', { work_ms: 1_000 });
    for (const fence of [1, 2, 3]) await sent.send(fence);
    await eventually('the newest copy is answered', () => sent.answers.some(([to]) => to === 'r3') && ran('c1') === 1);
    await eventually('with the result', () => sent.answers.some(([to, what]) => to === 'r3' && what === '{"ok":true}'));
    expect(sent.answers.filter(([, what]) => what === 'ack').map(([to]) => to)).toEqual(
      expect.arrayContaining(['r2', 'r3']),
    );
    await sent.send(4);
    await eventually('a late copy is answered', () => sent.answers.some(([to]) => to === 'r4'));
    expect(sent.answers.at(-1)).toEqual(['r4', '{"ok":true}']);
    expect(ran('c1')).toBe(1);
    sent.end();
  });

  it('share an error reply too', async () => {
    const sent = await copies('c2', '_INBOX.c2', { fails: true });
    await sent.send(1);
    // A copy that arrives before this reply is acknowledged and gets it instead.
    await eventually('the first is answered', () => sent.answers.length === 1);
    await sent.send(2);
    await eventually('both are answered', () => sent.answers.length === 2);
    expect(sent.answers.map(([, what]) => (JSON.parse(what) as { code: string }).code)).toEqual([
      'NOT_FOUND',
      'NOT_FOUND',
    ]);
    expect(ran('c2')).toBe(1);
    sent.end();
  });

  it('do not run again after a broker that stood still', async () => {
    const options = { bumpFence, timeoutMs: 60_000 };
    const body = message('c4', { journalled: false, work_ms: 100 });
    const replied = client.requestAcked('x.run', body, options);
    await eventually('it runs', () => ran('c4') === 1);
    nats.pause();
    await sleep(2_000);
    nats.resume();
    expect(await replied).toEqual({ ok: true });
    // Copies were sent meanwhile, and the executor has received them before this.
    await untilAccepted(() => client.requestAcked('x.run', message('c5', { journalled: false }), options));
    expect([fences.length > 0, ran('c4')]).toEqual([true, 1]);
  });

  it('of another caller, and calls that start again, run', async () => {
    const one = await copies('c3', '_INBOX.c3a');
    const other = await copies('c3', '_INBOX.c3b');
    await one.send(1);
    await other.send(2);
    await one.send(1, 'again');
    await eventually('all are answered', () => one.answers.length === 2 && other.answers.length === 1);
    expect(ran('c3')).toBe(3);
    one.end();
    other.end();
  });
});

describe('an executor whose event loop was blocked', () => {
  it('refuses the calls that waited meanwhile and accepts later ones', async () => {
    const flag = new Int32Array(new SharedArrayBuffer(4));
    const worker = new Worker(
      `const { connect, headers } = require('nats');
       const { parentPort, workerData } = require('node:worker_threads');
       const sent = new Int32Array(workerData.sent);
       connect({ servers: workerData.url }).then(async (nats) => {
         const call = (id) => {
           const head = headers();
           head.set('Tf-Call-Id', id); head.set('Tf-Attempt', '1'); head.set('Tf-Fence', '1');
           const body = { call_id: id, attempt: 1, fence: 1, journalled: false };
           return nats.request('x.run', JSON.stringify(body), { headers: head, timeout: 15_000 });
         };
         parentPort.on('message', async ({ ids }) => {
           const replies = ids.map(call);
           await nats.flush();
           Atomics.store(sent, 0, 1);
           Atomics.notify(sent, 0);
           parentPort.postMessage({ replies: (await Promise.all(replies)).map((reply) => reply.json()) });
         });
         parentPort.postMessage({ ready: true });
       });`,
      { eval: true, workerData: { url: nats.url, sent: flag.buffer } },
    );
    const heard: { replies?: Record<string, unknown>[] }[] = [];
    worker.on('message', (event: (typeof heard)[number]) => heard.push(event));
    await once(worker, 'message');
    const ask = async (ids: string[], holdMs: number): Promise<Record<string, unknown>[]> => {
      const before = heard.filter(({ replies }) => replies).length;
      worker.postMessage({ ids });
      if (holdMs > 0) {
        Atomics.wait(flag, 0, 0, 20_000); // the calls are on their way while this thread is held
        const until = performance.now() + holdMs;
        while (performance.now() < until);
      }
      await eventually('all are answered', () => heard.filter(({ replies }) => replies).length > before);
      return heard.filter(({ replies }) => replies).at(-1)?.replies ?? [];
    };
    const refused = await ask(['late1', 'late2', 'late3'], 800);
    expect(refused).toEqual(
      Array.from({ length: 3 }, () =>
        expect.objectContaining({ code: 'QUEUE_FULL', details: { reason: 'executor_late' }, facts: { begun: 'no' } }),
      ),
    );
    expect(runs.filter((id) => id.startsWith('late'))).toEqual([]);
    await eventually('calls run again', async () => (await ask(['soon1', 'soon2'], 0)).every(({ ok }) => ok === true));
    await worker.terminate();
  });
});
