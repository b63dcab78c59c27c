import { ToolError } from '@toolfleet/contracts';
import { QUEUE_PREFIX } from '@toolfleet/contracts/subjects';
import { SystemClock, TimedOut } from '@toolfleet/resilience';
import { eventually, FakeClock, startRedis, type RedisServer } from '@toolfleet/testing';
import { createMetrics } from '@toolfleet/telemetry';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { JobQueue } from './job-queue.js';
import { RetryLater, type JobRun } from './jobs.js';
import { JobWorker } from './job-worker.js';
import { queueMetrics } from './queue-metrics.js';
import { toJobId, jobKey, type JobData } from './jobs.js';
import { closeRedis, connectRedis, openRedis, redisComponent } from './redis-connection.js';
import { RedisTime } from './redis-time.js';
import { ReplyChannel } from './reply-channel.js';

interface SpecJob extends JobData {
  work: string;
}

const clock = new SystemClock();
let server: RedisServer;
let redis: ReturnType<typeof connectRedis>;
let blocking: ReturnType<typeof connectRedis>;
let time: RedisTime;
let queue: JobQueue<SpecJob, unknown>;
let replies: ReplyChannel;
let workers: JobWorker<SpecJob, unknown>[] = [];
let name = '';
let count = 0;

beforeAll(async () => {
  server = await startRedis();
  redis = connectRedis(server.url, { name: 'spec', role: 'commands' });
  blocking = connectRedis(server.url, { name: 'spec-blocking', role: 'blocking' });
  await openRedis(redis, server.url);
  await openRedis(blocking, server.url);
  time = new RedisTime(redis, clock);
  await time.start();
});

afterAll(async () => {
  time?.stop();
  await Promise.all([redis, blocking].map((client) => client && closeRedis(client)));
  await server?.stop();
});

beforeEach(async () => {
  name = `spec-${++count}`;
  queue = new JobQueue({ name, redis, time, maxLength: 5 });
  replies = new ReplyChannel({ redis: blocking, queues: [name, 'other'] });
  await replies.start();
});

afterEach(async () => {
  await Promise.all(workers.map((worker) => worker.stop()));
  workers = [];
  await queue.close();
  await replies.stop();
});

async function work(
  handler: (run: JobRun<SpecJob>) => Promise<unknown>,
  options: {
    concurrency?: number;
    leastMs?: number;
    draining?: AbortSignal;
    asks?: boolean;
    shareOf?: (job: SpecJob) => string;
    queue?: string;
  } = {},
) {
  const worker = new JobWorker<SpecJob, unknown>({
    queue: options.queue ?? name,
    redis: blocking,
    publisher: redis,
    time,
    concurrency: options.concurrency ?? 4,
    handler,
    draining: options.draining,
    asks: options.asks,
    shareOf: options.shareOf,
    ...(options.leastMs === undefined ? {} : { leastMs: () => options.leastMs as number }),
  });
  workers.push(worker);
  await worker.start();
  return worker;
}

const job = (callId: string, extra: Partial<SpecJob> = {}): SpecJob => ({
  call_id: callId,
  attempt: 1,
  work: 'x',
  ...extra,
});
const soon = (ms = 5_000): { deadlineAt: number } => ({ deadlineAt: clock.now() + ms });

/** How often a command ran since the statistics were reset. */
async function commandsOf(command: string): Promise<number> {
  const calls = new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(await redis.info('commandstats'))?.[1];
  return Number(calls ?? 0);
}

describe('a queued call', () => {
  it('keeps the digits of large integers, in one copy of its data', async () => {
    const large = { work: 'x', id: 9_007_199_254_740_993n };
    await queue.add('i1', { ...job('c1'), ...large } as SpecJob);
    const data = await redis.hget(jobKey(name, 'i1', 0), 'data');
    expect(data?.match(/9007199254740993/g)).toHaveLength(1);
    const { promise, resolve } = Promise.withResolvers<object>();
    await work(async (run) => resolve(run.data));
    expect(await promise).toMatchObject(large);
  });

  it('keeps the digits of large integers of its result, in its answer and in its record', async () => {
    const result = { id: 9_007_199_254_740_993n, text: '9007199254740993' };
    await work(async () => result);
    expect(await replies.submit(queue, job('c1'), soon())).toEqual(result);
    await expect.poll(() => queue.record(toJobId('c1', 1))).toMatchObject({ state: 'completed', result });
  });

  it('is answered through the reply channel and stays in the record', async () => {
    await work(async ({ data }) => ({ echo: data.work }));
    expect(await replies.submit(queue, job('c1', { work: 'hello' }), soon())).toEqual({ echo: 'hello' });
    expect(replies.inFlight).toBe(0);
    await expect
      .poll(() => queue.record(toJobId('c1', 1)))
      .toMatchObject({ state: 'completed', result: { echo: 'hello' } });
  });

  it('is answered before its record is written', async () => {
    // Without its lock a worker cannot write the record any more.
    await work(async ({ jobId }) => redis.del(`${jobKey(name, jobId)}:lock`));
    expect(await replies.submit(queue, job('c2'), soon())).toBe(1);
    expect(await queue.record(toJobId('c2', 1))).toMatchObject({ state: 'active' });
  });

  it('that its worker lost and takes again runs once, and keeps its second lock', async () => {
    let runs = 0;
    const key = jobKey(name, toJobId('c-lost-lock', 1));
    await work(async () => {
      runs += 1;
      await redis.del(`${key}:lock`);
      await eventually('it is taken again', () => redis.exists(`${key}:lock`).then(Boolean));
      // Longer than a lock that is not renewed.
      await clock.sleep(6_000);
      return 'done';
    });
    expect(await replies.submit(queue, job('c-lost-lock'), soon(40_000))).toBe('done');
    await expect
      .poll(() => queue.record(toJobId('c-lost-lock', 1)))
      .toMatchObject({ state: 'completed', result: 'done' });
    expect(runs).toBe(1);
  });

  it('that its worker lost stops there once another worker has ended it', async () => {
    let runs = 0;
    const stopped = Promise.withResolvers<unknown>();
    const handler = async ({ jobId, signal }: JobRun<SpecJob>): Promise<unknown> => {
      runs += 1;
      if (runs > 1) return 'second';
      signal.addEventListener('abort', () => stopped.resolve(signal.reason));
      await redis.del(`${jobKey(name, jobId)}:lock`);
      throw await stopped.promise;
    };
    await Promise.all([work(handler, { concurrency: 1 }), work(handler, { concurrency: 1 })]);
    expect(await replies.submit(queue, job('c-ended'), soon(60_000))).toBe('second');
    // At the deadline it would be DEADLINE_EXCEEDED.
    expect(await stopped.promise).toMatchObject({ code: 'CANCELLED' });
  });

  it('that comes alone is the only one for which its worker asks', async () => {
    const marked: number[] = [];
    await work(
      async ({ data }) => void (data.work === 'x' && marked.push(await redis.zcard(`${QUEUE_PREFIX}:${name}:marker`))),
    );
    await replies.submit(queue, job('c-first', { work: 'first' }), soon());
    await redis.config('RESETSTAT');
    for (let index = 0; index < 20; index += 1) await replies.submit(queue, job(`c-alone-${index}`), soon());
    // A script counts, one adds, one takes and one finishes each of them; two more would find nothing. The rest looks for stalled jobs.
    expect(await commandsOf('evalsha')).toBeLessThan(20 * 4 + 20);
    expect(marked).toEqual(Array.from({ length: 20 }, () => 0));
  });

  it('is taken by a free worker while another one has the job before it', async () => {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    let running = 0;
    const hold = () => {
      running += 1;
      return released.then(() => 'done');
    };
    await work(hold, { concurrency: 1 });
    await work(hold, { concurrency: 1 });
    const held = [0, 1, 2, 3].map((index) => replies.submit(queue, job(`c-held-${index}`), soon(20_000)));
    await eventually('both work', () => running === 2);
    release();
    expect(await Promise.all(held)).toEqual(held.map(() => 'done'));
  });

  it('does not start while no process waits for it', async () => {
    const handled: string[] = [];
    await work(async ({ jobId }) => void handled.push(jobId));
    const left = { reply_channel: 'gone', queued_at: time.now() - 10_000, deadline_at: time.now() + 60_000 };
    await queue.add('left', job('left', left));
    await queue.add('late', job('late', { ...left, deadline_at: time.now() - 1 }));
    await expect.poll(() => queue.record('late')).toMatchObject({ error: { code: 'DEADLINE_EXCEEDED' } });
    await eventually('it was put back', async () => (await queue.counts()).delayed === 1);
    expect(handled).toEqual([]);
    await queue.vouch(['left']);
    await expect.poll(() => queue.record('left')).toMatchObject({ state: 'completed' });
    expect(handled).toEqual(['left']);
  });

  it('starts however long it waited while a process waits for it', async () => {
    await work(async () => 'done');
    const long = job('long', { queued_at: time.now() - 10_000 });
    expect(await replies.submit(queue, long, soon(30_000))).toBe('done');
  });

  it('of one share leaves a slot to the jobs of others', async () => {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    let most = 0;
    let running = 0;
    await work(
      async ({ data }) => {
        if (data.work === 'quick') return 'quick';
        most = Math.max(most, (running += 1));
        await released;
        running -= 1;
        return 'slow';
      },
      { concurrency: 3, shareOf: ({ work: share }) => share },
    );
    const slow = Array.from({ length: 5 }, (_, index) =>
      replies.submit(queue, job(`c-slow-${index}`, { work: 'slow' }), soon(30_000)),
    );
    await eventually('two of them run', () => running === 2);
    for (let index = 0; index < 3; index += 1)
      expect(await replies.submit(queue, job(`c-quick-${index}`, { work: 'quick' }), soon())).toBe('quick');
    expect(most).toBe(2);
    release();
    expect(await Promise.all(slow)).toEqual(slow.map(() => 'slow'));
  });

  it('that one worker put back begins where another has a slot', async () => {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const calls = ['c0', 'c1', 'c2', 'c3', 'c4', 'c5'];
    // Which worker gets a job that both wait for is chance, so this is tried often.
    const rounds = Array.from({ length: 20 }, async (_, round) => {
      const own = `${name}-${round}`;
      const begun = new Set<string>();
      const begin = async ({ data }: JobRun<SpecJob>): Promise<string> => {
        begun.add(data.call_id);
        await released;
        return 'done';
      };
      for (let started = 0; started < 2; started += 1) await work(begin, { queue: own, shareOf: () => 'one' });
      const other = new JobQueue<SpecJob, unknown>({ name: own, redis, time });
      await Promise.all(calls.map((callId) => other.add(toJobId(callId, 1), job(callId))));
      // Each of the two has four slots, three of them for one share.
      await eventually('all have begun', () => begun.size === calls.length);
      await other.close();
    });
    await Promise.all(rounds);
    release();
  });

  it('of one share has the only slot of a worker', async () => {
    await work(async () => 'done', { concurrency: 1, shareOf: () => 'one' });
    expect(await replies.submit(queue, job('c-one'), soon())).toBe('done');
  });

  it('that must not start any more is removed while it waits, and goes on while it runs', async () => {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    let runs = 0;
    const run = () => {
      runs += 1;
      return released.then(() => 'done');
    };
    await work(run, { concurrency: 1 });
    const revoked = new AbortController();
    const options = { ...soon(20_000), startUntil: revoked.signal };
    const running = replies.submit(queue, job('c-running'), options);
    await eventually('it runs', () => runs === 1);
    const waiting = replies.submit(queue, job('c-waiting'), options).catch((error: unknown) => error);
    await eventually('it waits', async () => (await queue.counts()).wait === 1);
    revoked.abort(new ToolError('UNAUTHENTICATED'));
    expect(await waiting).toMatchObject({ code: 'UNAUTHENTICATED', facts: { begun: 'no' } });
    release();
    expect(await running).toBe('done');
    expect(runs).toBe(1);
  });

  it('asks with a message that is sent once, however long its answer takes', async () => {
    const listener = redis.duplicate();
    const sizes: number[] = [];
    listener.on('pmessage', (_pattern, _channel, text: string) => sizes.push(text.length));
    await listener.connect();
    await listener.psubscribe('*reply*');
    await work(({ ask }) => ask('x'.repeat(10_000)), { asks: true });
    const onAsk = () => clock.sleep(4_500).then(() => 'answered');
    expect(await replies.submit(queue, job('c-ask'), { ...soon(20_000), onAsk })).toBe('answered');
    expect(sizes.filter((size) => size > 10_000)).toHaveLength(1);
    expect(sizes.length).toBeGreaterThan(2);
    await closeRedis(listener);
  });

  it('asks again with the whole question when the waiting process missed it', async () => {
    await work(({ ask }) => ask({ a: 1 }), { asks: true });
    let asked = 0;
    const onAsk = async (question: unknown) => {
      // As if the first message had been lost.
      if ((asked += 1) === 1) throw new Error('lost');
      return question;
    };
    expect(await replies.submit(queue, job('c-lost'), { ...soon(20_000), onAsk })).toEqual({ a: 1 });
    expect(asked).toBe(2);
  });

  it('asks the process that takes it over at once', async () => {
    const asked = Promise.withResolvers<unknown>();
    await work(({ ask }) => ask('who'), { asks: true });
    const lost = new ReplyChannel({ redis: blocking, queues: [name] });
    await lost.start();
    const onLost = (question: unknown): Promise<unknown> => {
      asked.resolve(question);
      return new Promise(() => undefined);
    };
    const first = lost.submit(queue, job('c-moved'), { ...soon(20_000), onAsk: onLost }).catch(() => undefined);
    expect(await asked.promise).toBe('who');
    await lost.stop();
    // Its clock stands still, so it makes none of its checks.
    const next = new ReplyChannel({ redis: blocking, queues: [name], clock: new FakeClock(clock.now()) });
    await next.start();
    const askedNext = Promise.withResolvers<unknown>();
    const onAsk = async (question: unknown) => askedNext.resolve(question);
    const options = { ...soon(20_000), onAsk, takesOver: true };
    const second = next.submit(queue, job('c-moved'), options).catch(() => undefined);
    expect(await askedNext.promise).toBe('who');
    await Promise.all([first, next.stop(), second]);
  });

  it('is taken again after its worker postponed it', async () => {
    const taken: number[] = [];
    await work(
      async ({ isRepeated }) => {
        taken.push(clock.monotonic());
        if (taken.length < 3) throw new RetryLater(20);
        return isRepeated;
      },
      { concurrency: 1 },
    );
    expect(await replies.submit(queue, job('p1'), soon())).toBe(false);
    expect(taken).toHaveLength(3);
    await expect.poll(() => queue.record(toJobId('p1', 1))).toMatchObject({ state: 'completed' });
  });

  it('keeps many calls apart', async () => {
    await work(async ({ data }) => data.work);
    const answers = await Promise.all(
      [0, 1, 2, 3, 4].map((index) => replies.submit(queue, job(`m${index}`, { work: String(index) }), soon())),
    );
    expect(answers).toEqual(['0', '1', '2', '3', '4']);
  });

  it('fails with the code, details and message of the worker', async () => {
    await work(async () => {
      throw new ToolError('MEMORY_EXCEEDED', { message: 'too much', details: { limit_mb: 64 } });
    });
    await expect(replies.submit(queue, job('e1'), soon())).rejects.toMatchObject({
      code: 'MEMORY_EXCEEDED',
      message: 'too much',
      details: { limit_mb: 64 },
    });
    expect((await queue.record('e1-1')).error).toMatchObject({ code: 'MEMORY_EXCEEDED' });
  });

  it('passes progress on', async () => {
    const seen: unknown[] = [];
    await work(async (run) => {
      run.progress({ message: 'half', progress: 1, total: 2 });
      await clock.sleep(50);
      return 'done';
    });
    await replies.submit(queue, job('p1'), { ...soon(), onProgress: (progress) => seen.push(progress) });
    expect(seen).toEqual([{ message: 'half', progress: 1, total: 2 }]);
  });

  it('ignores messages on its channel that are not replies', async () => {
    await work(async ({ data }) => {
      const { reply_channel: channel } = data as { reply_channel?: string };
      expect(channel).toMatch(new RegExp(`^\\{fleet\\}:reply:${name}:[0-9a-f-]{36}$`));
      for (const text of ['', 'nonsense', '[]', '{"type":"result"}', '{"job_id":7}']) {
        await redis.publish(channel!, text);
        await redis.publish(`{fleet}:${name}:cancel`, text);
      }
      return 'fine';
    });
    expect(await replies.submit(queue, job('n1'), soon())).toBe('fine');
  });

  it('is not taken from the channel of another queue', async () => {
    await work(async ({ data, jobId }) => {
      const { reply_channel: channel = '' } = data as { reply_channel?: string };
      const forged = { type: 'result', job_id: jobId, call_id: data.call_id, attempt: 1, reply: 'forged' };
      const other = channel.replace(name, 'other');
      expect(await redis.publish(other, JSON.stringify(forged))).toBe(1);
      await clock.sleep(50);
      return 'its own';
    });
    expect(await replies.submit(queue, job('o1'), soon())).toBe('its own');
    const foreign = new JobQueue<SpecJob, unknown>({ name: 'foreign', redis, time });
    await expect(replies.submit(foreign, job('o2'), soon())).rejects.toMatchObject({ code: 'INTERNAL' });
    await foreign.close();
  });

  it('is found in the record when its reply was missed', async () => {
    await work(async ({ data }) => {
      // Its reply reaches no subscriber, as after a reconnect.
      (data as { reply_channel?: string }).reply_channel = undefined as never;
      return 'from the record';
    });
    expect(await replies.submit(queue, job('r1'), soon(10_000))).toBe('from the record');
  });
});

describe('stopping', () => {
  it('the deadline stops the work, waiting or running', async () => {
    const reasons: string[] = [];
    const worker = await work(
      ({ signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            reasons.push((signal.reason as ToolError).code);
            reject(signal.reason);
          });
        }),
      { concurrency: 1 },
    );
    const running = replies.submit(queue, job('d1'), soon(1_500));
    await eventually('one is in work', () => worker.inFlight === 1);
    const waiting = replies.submit(queue, job('d2'), soon(150));
    await expect(waiting).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    await expect(running).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    await eventually('the handler heard', () => reasons.length === 1);
    await expect.poll(async () => (await queue.record('d2-1')).state).toBe('unknown');
  });

  it('the deadline of a job names workers that are gone as the reason', async () => {
    const worker = await work(() => new Promise(() => undefined));
    const deaf = replies.submit(queue, job('g1'), soon(400)).catch((error: unknown) => error);
    await eventually('it is in work', () => worker.inFlight === 1);
    expect(await deaf).toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    expect((await deaf) as ToolError).not.toHaveProperty('details.reason');
    const orphaned = replies.submit(queue, job('g2'), soon(400)).catch((error: unknown) => error);
    await eventually('it is in work', () => worker.inFlight === 2);
    await redis.del(`{fleet}:${name}:slots`); // as it expires after a kill
    expect(await orphaned).toMatchObject({
      code: 'DEADLINE_EXCEEDED',
      facts: { blame: 'executor' },
      details: { reason: 'no_workers' },
    });
  });

  it('aborting cancels the running job at its worker', async () => {
    const abort = new AbortController();
    let reason: unknown;
    await work(
      ({ signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            reason = signal.reason;
            reject(signal.reason);
          });
          abort.abort();
        }),
    );
    await expect(replies.submit(queue, job('a1'), { ...soon(), signal: abort.signal })).rejects.toMatchObject({
      code: 'CANCELLED',
    });
    await eventually('the worker heard', () => reason !== undefined);
    expect(reason).toMatchObject({ code: 'CANCELLED' });
  });

  it('a signal whose time is over is a deadline, not a cancellation', async () => {
    const abort = new AbortController();
    const late = replies.submit(queue, job('a3'), { ...soon(), signal: abort.signal });
    abort.abort(new TimedOut(1));
    await expect(late).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED' });
  });

  it('a job that is called off while it runs answers with what it has', async () => {
    const abort = new AbortController();
    await work(
      ({ signal }) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => resolve(7));
          abort.abort(new ToolError('CANCELLED'));
        }),
    );
    expect(await replies.submit(queue, job('a2'), { ...soon(), signal: abort.signal })).toBe(7);
  });

  it('a job that cannot finish in time is dropped when taken', async () => {
    let runs = 0;
    await work(async () => void runs++, { leastMs: 10_000 });
    await expect(replies.submit(queue, job('s1'), soon(3_000))).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    expect(runs).toBe(0);
  });

  it.each(['its own drain', 'the drain of the service'])(
    '%s finishes the jobs in progress and takes no more',
    async (by) => {
      let finished = 0;
      let release = (): void => undefined;
      const released = new Promise<void>((resolve) => (release = resolve));
      const draining = new AbortController();
      const worker = await work(() => released.then(() => (finished += 1)), { draining: draining.signal });
      const first = replies.submit(queue, job('w1'), soon());
      await eventually('the job is in work', () => worker.inFlight === 1);
      // A job that a worker already asked for it still takes; one that it only waits for it does not.
      const isWaiting = async () => String(await redis.client('LIST')).includes('cmd=bzpopmin');
      await eventually('the worker waits for the next job', isWaiting);
      if (by === 'the drain of the service') draining.abort();
      const drained = by === 'its own drain' ? worker.drain() : first;
      await queue.add('w2-1', job('w2'));
      release();
      await drained;
      expect(await first).toBe(1);
      await clock.sleep(100);
      expect(finished).toBe(1);
      expect((await queue.record('w2-1')).state).toBe('waiting');
    },
  );
});

describe('bounds', () => {
  it('refuses more jobs than may wait', async () => {
    for (let index = 0; index < 5; index++) await queue.add(`q${index}-1`, job(`q${index}`));
    await expect(queue.add('q5-1', job('q5'))).rejects.toMatchObject({ code: 'QUEUE_FULL', retryAfterMs: 1_000 });
    expect((await queue.counts()).wait).toBe(5);
  });

  it('the same id twice is one job', async () => {
    await queue.add('same-1', job('same'));
    await queue.add('same-1', job('same'));
    expect((await queue.counts()).wait).toBe(1);
  });

  it('shows length and oldest age as metrics', async () => {
    const metrics = createMetrics({ version: '1', revision: 'r' });
    await queue.add('g1-1', { ...job('g1'), queued_at: time.now() - 5_000 });
    await queueMetrics([queue as never], metrics, clock).run();
    const text = await metrics.registry.metrics();
    expect(text).toContain(`toolfleet_queue_jobs{queue="${name}",state="wait"} 1`);
    expect(Number(/toolfleet_queue_oldest_job_age_seconds\{[^}]*\} ([\d.]+)/.exec(text)?.[1])).toBeGreaterThanOrEqual(
      5,
    );
  });

  it('refuses a Redis that may evict keys', async () => {
    const evicting = await startRedis({ maxmemoryPolicy: 'allkeys-lru' });
    const client = connectRedis(evicting.url, { name: 'spec' });
    await expect(redisComponent(client, evicting.url).start()).rejects.toMatchObject({ startRefused: true });
    await closeRedis(client);
    await evicting.stop();
  });
});
