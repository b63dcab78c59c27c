/**
 * What happens to sandbox jobs when the processes that run them die: each of 200 jobs ends exactly once, with its own
 * result or a clear error. The services are the built ones, as users run them.
 */
import type { ChildProcess } from 'node:child_process';
import { isToolError, type JsonObject } from '@toolfleet/contracts';
import type { ExecJob, ExecResponse } from '@toolfleet/contracts/execution';
import { closeRedis, connectRedis, JobQueue, openRedis, RedisTime, ReplyChannel } from '@toolfleet/queue';
import { SystemClock } from '@toolfleet/resilience';
import { endChild, eventually, spawnChild, startRedis, type RedisServer } from '@toolfleet/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { programOf } from '../fleet/service-programs.js';

type NewJob = Omit<ExecJob, 'reply_channel' | 'deadline_at' | 'queued_at'>;
const MAIN = programOf('python-sandbox');
const JOBS = 200;
const clock = new SystemClock();
let server: RedisServer;
let redis: ReturnType<typeof connectRedis>;
let blocking: ReturnType<typeof connectRedis>;
let time: RedisTime;
let queue: JobQueue<NewJob, ExecResponse>;
let replies: ReplyChannel;
const services: ChildProcess[] = [];

beforeAll(async () => {
  server = await startRedis({ appendOnly: true });
  redis = connectRedis(server.url, { name: 'spec', role: 'commands' });
  blocking = connectRedis(server.url, { name: 'spec-replies', role: 'blocking' });
  await Promise.all([redis, blocking].map((client) => openRedis(client, server.url)));
  time = new RedisTime(redis, clock);
  await time.start();
  queue = new JobQueue({ name: 'python-runs', redis, time, shareOf: (job) => job.tenant_id });
  replies = new ReplyChannel({ redis: blocking, queues: ['python-runs'] });
  await replies.start();
});
afterEach(async () => {
  await Promise.all(services.splice(0).map((service) => endChild(service)));
});
afterAll(async () => {
  await replies?.stop();
  await queue?.close();
  time?.stop();
  await Promise.all([redis, blocking].map((client) => client && closeRedis(client)));
  await server?.stop();
});

/** Starts a sandbox service and waits until it has taken up its work. */
async function startService(): Promise<ChildProcess> {
  const service = spawnChild(process.execPath, [MAIN], {
    env: {
      REDIS_URL: server.url,
      PYTHON_SANDBOX_THREADS: '2',
      PYTHON_SANDBOX_WARM_UP_MS: '0',
      PYTHON_SANDBOX_GRACE_MS: '10000',
      WASI_MEMORY_LIMIT_MB: '128',
      LOG_LEVEL: 'info',
    },
  });
  services.push(service);
  let log = '';
  for (const stream of [service.stdout, service.stderr]) stream?.on('data', (chunk) => (log += chunk));
  await eventually('the sandbox serves', () => log.includes('"message":"started"')).catch(() => {
    throw new Error(`the sandbox did not start:\n${log}`);
  });
  return service;
}

let round = 0;
interface Ended {
  index: number;
  outcome: string;
}

/** Submits jobs that each return their own number; how each of them ended, in the order of ending. */
function submitAll(): { ended: Ended[]; all: Promise<unknown> } {
  round += 1;
  const ended: Ended[] = [];
  const one = async (index: number) => {
    const job: NewJob = {
      call_id: `r${round}-${index}`,
      attempt: 1,
      fence: 1,
      journalled: false,
      tool: 'execute_python',
      revision: 'r',
      binding: { kind: 'python' },
      arguments: { code: 'import time\ntime.sleep(0.05)\nargs', args: index },
      context: { tenant_id: 't' },
      tenant_id: `t${index % 4}`,
      timeout_ms: 60_000,
    };
    const reply = replies.submit<NewJob, ExecResponse>(queue, job, { deadlineAt: clock.now() + 90_000 });
    ended.push({ index, outcome: await reply.then((answer) => outcomeOf(answer, index), errorOf) });
  };
  return { ended, all: Promise.all(Array.from({ length: JOBS }, (_, index) => one(index))) };
}

function outcomeOf(reply: ExecResponse, index: number): string {
  if (!reply.ok) return reply.failure?.code ?? 'no code';
  return (reply.output as JsonObject)['value'] === index ? 'ok' : 'the result of another job';
}
function errorOf(error: unknown): string {
  return isToolError(error) ? error.code : String(error);
}
function tally(ended: readonly Ended[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { outcome } of ended) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
}
function expectEachOnce(ended: readonly Ended[]): void {
  expect(ended.map(({ index }) => index).toSorted((a, b) => a - b)).toEqual(Array.from({ length: JOBS }, (_, i) => i));
}

describe('200 sandbox jobs', () => {
  it('survive kill -9 of one of two workers', async () => {
    const [victim] = await Promise.all([startService(), startService()]);
    const { ended, all } = submitAll();
    await eventually('some have ended', () => ended.length > 20);
    victim!.kill('SIGKILL');
    await all;
    expectEachOnce(ended);
    expect(tally(ended)).toEqual({ ok: JOBS });
  });

  it('survive kill -9 of the only worker, and the start of another', async () => {
    const victim = await startService();
    const { ended, all } = submitAll();
    await eventually('some have ended', () => ended.length > 20);
    victim.kill('SIGKILL');
    await startService();
    await all;
    expectEachOnce(ended);
    expect(tally(ended)).toEqual({ ok: JOBS });
  });

  it('survive the loss of every connection to Redis', async () => {
    await startService();
    const { ended, all } = submitAll();
    await eventually('some have ended', () => ended.length > 20);
    const operator = server.client();
    for (let i = 0; i < 3; i++) {
      await operator.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await operator.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
      await clock.sleep(200);
    }
    await all;
    expectEachOnce(ended);
    const { ok = 0, ...errors } = tally(ended);
    // A submission that met the cut is refused with a code; whatever was queued is run.
    expect(Object.keys(errors).filter((code) => code !== 'SERVICE_UNAVAILABLE')).toEqual([]);
    expect(ok).toBeGreaterThan(JOBS / 2);
  });

  it('end before the service that works on them, on SIGTERM', async () => {
    const service = await startService();
    const { ended, all } = submitAll();
    await eventually('some have ended', () => ended.length > 20);
    const stopped = endChild(service, 'SIGTERM', 30_000);
    await startService();
    await all;
    expect(await stopped).toBe(0);
    expectEachOnce(ended);
    expect(tally(ended)).toEqual({ ok: JOBS });
  });
});
