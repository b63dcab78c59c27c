import { Controller, Module, type INestMicroservice } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ToolError, type CallProgress } from '@toolfleet/contracts';
import { eventually, startNats, type NatsServer } from '@toolfleet/testing';
import { connect, headers, type NatsConnection } from 'nats';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { EndpointContext } from './endpoint.js';
import { Endpoint } from './endpoint.js';
import { NatsClient } from './nats-client.js';
import { NatsStrategy } from './nats-strategy.js';

/** Resolved by a test when it has seen what it waited for. */
let release: () => void;
let seenEnough: Promise<void>;
const offered: boolean[] = [];
let report: EndpointContext['progress'];

@Controller()
class Counter {
  /** Reports `steps` steps at once, then ends when the test releases it. */
  @Endpoint('p.count', { exec: true })
  async count({ steps, fails }: { steps: number; fails?: boolean }, context: EndpointContext): Promise<string> {
    report = context.progress;
    offered.push(report !== undefined);
    for (let step = 1; step <= steps; step += 1) report?.({ progress: step, total: steps, message: `step ${step}` });
    await seenEnough;
    if (fails) throw new ToolError('REQUEST_INVALID', { message: 'lost count' });
    return 'counted';
  }

  @Endpoint('p.shout', { exec: true })
  async shout(_body: unknown, { progress }: EndpointContext): Promise<string> {
    progress?.({ message: 'x'.repeat(10_000) });
    await seenEnough;
    return 'shouted';
  }
}

@Module({ controllers: [Counter] })
class CounterModule {}

let nats: NatsServer;
let client: NatsClient;
let executor: NatsClient;
let plain: NatsConnection;
let app: INestMicroservice;

beforeAll(async () => {
  nats = await startNats();
  client = await NatsClient.connect({ url: nats.url, name: 'caller' });
  executor = await NatsClient.connect({ url: nats.url, name: 'executor' });
  plain = await connect({ servers: nats.url });
  app = await NestFactory.createMicroservice(CounterModule, {
    strategy: new NatsStrategy({ connection: executor, queue: 'p' }),
    logger: false,
  });
  await app.listen();
});
afterAll(async () => {
  await app?.close();
  await client?.close();
  await executor?.close();
  await plain?.close();
  await nats?.stop();
});
beforeEach(() => {
  offered.length = 0;
  seenEnough = new Promise((resolve) => {
    release = resolve;
  });
});

const message = (call_id: string, steps = 0) => ({ call_id, attempt: 1, fence: 1, journalled: true, steps });
const hop = { timeoutMs: 20_000, bumpFence: async () => undefined };

describe('progress over the exec hop', () => {
  it('carries the first and the newest of many reports, in order, and acknowledges the call', async () => {
    const seen: CallProgress[] = [];
    let acks = 0;
    const reply = client.requestAcked('p.count', message('many', 5_000), {
      ...hop,
      onAck: () => acks++,
      onProgress: (progress) => seen.push(progress),
    });
    await eventually('the newest report', () => seen.some(({ progress }) => progress === 5_000));
    release();
    expect(await reply).toBe('counted');
    expect([seen[0], seen.at(-1)]).toEqual([
      { progress: 1, total: 5_000, message: 'step 1' },
      { progress: 5_000, total: 5_000, message: 'step 5000' },
    ]);
    const steps = seen.map(({ progress = 0 }) => progress);
    expect(steps).toEqual(steps.toSorted((a, b) => a - b));
    expect(steps.length).toBeLessThan(20);
    expect(acks).toBe(1);
  });

  it.each([2, 3, 5_000])(
    'sends the last of %i reports at the end of a short call, and nothing after it',
    async (steps) => {
      const seen: CallProgress[] = [];
      release();
      await client.requestAcked('p.count', message(`late-${steps}`, steps), {
        ...hop,
        onProgress: (one) => seen.push(one),
      });
      const atEnd = seen.length;
      expect(seen.at(-1)).toEqual({ progress: steps, total: steps, message: `step ${steps}` });
      report?.({ message: 'too late' });
      // Round trips over the same connections carry everything that could still come.
      await executor.link.flush();
      await client.link.flush();
      expect(seen.slice(atEnd)).toEqual([]);
      expect([atEnd > 0, client.inFlight]).toEqual([true, 0]);
    },
  );

  it('sends the last report of a call that fails', async () => {
    const seen: CallProgress[] = [];
    release();
    const sent = { ...message('fails', 10), fails: true };
    await expect(client.requestAcked('p.count', sent, { ...hop, onProgress: (one) => seen.push(one) })).rejects.toThrow(
      'lost count',
    );
    expect(seen.map(({ progress }) => progress)).toEqual([1, 2, 3, 10]);
  });

  it('costs callers that want none nothing: no header, no report, no subscription', async () => {
    const onWire: string[] = [];
    plain.subscribe('exec.progress.>', { callback: (_, { subject }) => onWire.push(subject) });
    const headed: boolean[] = [];
    plain.subscribe('p.count', {
      callback: (_, received) => headed.push(received.headers?.has('Tf-Progress') === true),
    });
    await plain.flush();
    release();
    expect(await client.requestAcked('p.count', message('quiet', 100), hop)).toBe('counted');
    await plain.flush();
    expect([offered, headed, onWire]).toEqual([[false], [false], []]);
  });

  it('refuses to report to subjects that are not for progress', async () => {
    const stolen: string[] = [];
    plain.subscribe('budget.>', { callback: (_, { subject }) => stolen.push(subject) });
    await plain.flush();
    release();
    for (const subject of ['budget.settle', 'exec.progress.a.b.c', 'exec.progress.*.x', 'exec.progress..x']) {
      const head = headers();
      head.set('Tf-Progress', subject);
      await plain.request('p.count', JSON.stringify(message('forged', 3)), { timeout: 5_000, headers: head });
    }
    await plain.flush();
    expect([offered, stolen]).toEqual([[false, false, false, false], []]);
  });

  it('cuts long messages', async () => {
    const seen: CallProgress[] = [];
    const reply = client.requestAcked('p.shout', message('long'), { ...hop, onProgress: (one) => seen.push(one) });
    await eventually('the report', () => seen.length === 1);
    release();
    await reply;
    expect(seen[0]?.message).toHaveLength(2_000);
  });
});
