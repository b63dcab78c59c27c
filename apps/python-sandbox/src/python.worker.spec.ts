import type { JsonObject, ToolError } from '@toolfleet/contracts';
import type { ExecJob, ExecResponse } from '@toolfleet/contracts/execution';
import { closeRedis, connectRedis, JobQueue, JobWorker, openRedis, RedisTime, ReplyChannel } from '@toolfleet/queue';
import { SystemClock } from '@toolfleet/resilience';
import { eventually, startRedis, type RedisServer } from '@toolfleet/testing';
import { Sandbox, type RunReply } from '@toolfleet/wasi-python';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { bundleSandbox, type SandboxScripts } from '../../../libs/kits/wasi-python/spec/bundle.js';
import { newSandbox } from '../../../libs/kits/wasi-python/spec/sandbox.js';
import { PythonWorker } from './python.worker.js';
import { RedisSessionStore } from './redis-session-store.js';

type NewJob = Omit<ExecJob, 'reply_channel' | 'deadline_at' | 'queued_at'>;
const THREADS = 2;
const clock = new SystemClock();
let server: RedisServer;
let commands: ReturnType<typeof connectRedis>;
let blocking: ReturnType<typeof connectRedis>;
let time: RedisTime;
let queue: JobQueue<NewJob, ExecResponse>;
let replies: ReplyChannel;
let scripts: SandboxScripts;
let sandbox: Sandbox;
let python: PythonWorker;
let worker: JobWorker<ExecJob, ExecResponse>;
let count = 0;

beforeAll(async () => {
  server = await startRedis();
  commands = connectRedis(server.url, { name: 'spec', role: 'commands' });
  blocking = connectRedis(server.url, { name: 'spec-jobs', role: 'blocking' });
  await Promise.all([commands, blocking].map((client) => openRedis(client, server.url)));
  time = new RedisTime(commands, clock);
  await time.start();
  queue = new JobQueue({ name: 'python-runs', redis: commands, time, shareOf: (job) => job.tenant_id });
  replies = new ReplyChannel({ redis: blocking, queues: ['python-runs'] });
  await replies.start();
  scripts = await bundleSandbox();
  sandbox = newSandbox(scripts, THREADS);
  await sandbox.start();
  const limits = { maxTimeoutMs: 60_000, memoryLimitMb: 128 };
  python = new PythonWorker(sandbox, new RedisSessionStore(commands, 3_600, 0), limits, clock);
  worker = new JobWorker<ExecJob, ExecResponse>({
    queue: 'python-runs',
    redis: blocking,
    publisher: commands,
    time,
    concurrency: THREADS,
    handler: (run) => python.handle(run),
    clock,
  });
  await worker.start();
});
afterAll(async () => {
  await worker?.stop();
  await sandbox?.close();
  await queue?.close();
  await replies?.stop();
  time?.stop();
  await Promise.all([commands, blocking].map((client) => client && closeRedis(client)));
  scripts?.remove();
  await server?.stop();
});

interface Asked {
  tenant?: string;
  user?: string;
  signal?: AbortSignal;
  onProgress?: (progress: { message?: string }) => void;
}

function jobOf(args: JsonObject, tenant = 'acme', user = 'ann'): NewJob {
  return {
    call_id: `call-${++count}`,
    attempt: 1,
    fence: 1,
    journalled: false,
    tool: 'execute_python',
    revision: 'r',
    binding: { kind: 'python' },
    arguments: args,
    context: { tenant_id: tenant, user_id: user },
    tenant_id: tenant,
    timeout_ms: 60_000,
    python: { default_strictness: 'standard', extra_allowed_modules: { strict: [] } },
  };
}

function execute(args: JsonObject, { tenant, user, signal, onProgress }: Asked = {}) {
  return replies.submit<NewJob, ExecResponse>(queue, jobOf(args, tenant, user), {
    deadlineAt: clock.now() + 100_000, // a host that is started twice on a busy machine takes its time
    ...(signal ? { signal } : {}),
    ...(onProgress ? { onProgress } : {}),
  });
}
const code = (source: string, more: JsonObject = {}): JsonObject => ({ code: source, ...more });
const valueOf = (reply: ExecResponse) => (reply.output as JsonObject)['value'];

describe('the warm-up', () => {
  it('runs twenty programs on each thread', async () => {
    const run = vi.spyOn(sandbox, 'run');
    await python.warmUp(1);
    const ended = await Promise.all(run.mock.results.map(({ value }) => value as Promise<RunReply>));
    run.mockRestore();
    expect(ended.map(({ stdout }) => stdout)).toEqual(Array.from({ length: 20 }, (_, i) => `${i}\n`));
  });
});

describe('a job of python-runs', () => {
  it('returns value, output and usage', async () => {
    const reply = await execute(code('print("hi")\nargs["a"] + int(stdin)', { args: { a: 40 }, stdin: '2' }));
    expect(reply).toMatchObject({
      ok: true,
      output: {
        value: 42,
        stdout: 'hi\n',
        usage: { queue_ms: expect.any(Number), peak_memory_mb: expect.any(Number) },
      },
      metadata: { interpreter: expect.stringMatching(/^CPython 3\.\d+\.\d+ on WASI$/), strictness: 'standard' },
    });
  });

  it('reports the line that failed', async () => {
    expect(await execute(code('x = 1\n1 / 0'))).toMatchObject({
      ok: false,
      failure: { code: 'SANDBOX_ERROR', message: 'ZeroDivisionError: division by zero', details: { line: 2 } },
    });
    expect(await execute(code('import os', { strictness: 'strict' }))).toMatchObject({
      failure: { code: 'SANDBOX_POLICY' },
    });
  });

  it('is refused if its arguments do not describe a program', async () => {
    await expect(execute(code('print(1)\0'))).rejects.toMatchObject({ code: 'ARGUMENTS_INVALID' });
    await expect(execute({})).rejects.toMatchObject({ code: 'ARGUMENTS_INVALID' });
  });

  it('times out and keeps what it printed', async () => {
    const reply = await execute(code('print("so far")\nwhile True: pass', { timeout_seconds: 1 }));
    expect(reply).toMatchObject({ ok: false, output: { stdout: 'so far\n' }, failure: { code: 'ATTEMPT_TIMED_OUT' } });
  });

  it('ends before the deadline of its call', async () => {
    // Without the queue, because the caller's own timer would race the response in the last milliseconds.
    const { signal } = new AbortController();
    const reply = await python.handle({
      jobId: 'late',
      data: jobOf(code('while True: pass')) as ExecJob,
      signal,
      deadlineAt: clock.now() + 1_000,
      queuedMs: 0,
      isRepeated: false,
      progress: () => undefined,
      ask: () => Promise.reject(new Error('plain runs do not ask')),
    });
    expect(reply.failure?.code).toBe('ATTEMPT_TIMED_OUT');
    const { timeout_ms: limitMs } = reply.failure?.details ?? {};
    expect(limitMs).toBeLessThanOrEqual(1_000);
  });

  it('is stopped when its caller disconnects', async () => {
    const abort = new AbortController();
    const running = execute(code('while True: pass'), { signal: abort.signal });
    await eventually('it runs', () => worker.inFlight > 0);
    abort.abort();
    // Usually the reply of the run; a caller gets no response if it is late.
    const how = await running.then(
      ({ failure }) => failure?.code,
      (error: unknown) => (error as ToolError).code,
    );
    expect(how).toBe('CANCELLED');
    await eventually('its thread is free', () => worker.inFlight === 0);
  });

  it('reports what it prints while it runs', async () => {
    const seen: string[] = [];
    const source = 'import time\nfor i in range(8):\n  print("step", i)\n  time.sleep(0.1)';
    await execute(code(source), { onProgress: ({ message }) => seen.push(message ?? '') });
    expect(seen.join('\n')).toContain('step 4');
  });
});

describe('sessions', () => {
  it('keep the variables of a user between runs', async () => {
    const session = { session_id: 'analysis' };
    await execute(code('total = 1\nrows = [1, 2]', session));
    expect(await execute(code('total += 41\n[total, rows]', session))).toMatchObject({
      output: { value: [42, [1, 2]] },
      metadata: { session_id: 'analysis', session_kept: true },
    });
    for (const stranger of [{ tenant: 'other' }, { user: 'bob' }]) {
      expect(await execute(code('total', session), stranger)).toMatchObject({
        failure: { message: expect.stringContaining('NameError') },
      });
    }
  });

  it('serialize their runs, so that no assignment is lost', async () => {
    const session = { session_id: 'counter' };
    await execute(code('n = 0', session));
    const step = 'import time\nm = n\ntime.sleep(0.05)\nn = m + 1';
    await Promise.all(Array.from({ length: 8 }, () => execute(code(step, session))));
    expect(valueOf(await execute(code('n', session)))).toBe(8);
  });

  it('do not occupy threads while they wait', async () => {
    const session = { session_id: 'slow' };
    let ended = 0;
    const slow = Array.from({ length: 4 }, () =>
      execute(code('import time\ntime.sleep(0.7)\n"slow"', session)).finally(() => (ended += 1)),
    );
    await eventually('one runs', () => worker.inFlight > 0);
    const quick = await execute(code('"quick"'), { tenant: 'other' });
    expect(valueOf(quick)).toBe('quick');
    expect(ended).toBeLessThan(4);
    expect((await Promise.all(slow)).map(valueOf)).toEqual(Array.from({ length: 4 }, () => 'slow'));
  });
});

describe('tenants', () => {
  it('are not delayed by a flood from another tenant', async () => {
    const order: string[] = [];
    const watch = (tenant: string, i: number) =>
      execute(code('import time\ntime.sleep(0.05)'), { tenant }).then(() => order.push(`${tenant}${i}`));
    const flood = Array.from({ length: 60 }, (_, i) => watch('flood', i));
    await eventually('the flood waits', async () => (await queue.counts()).prioritized > 30);
    const small = Array.from({ length: 3 }, (_, i) => watch('small', i));
    await Promise.all(small);
    const before = order.filter((id) => id.startsWith('flood')).length;
    await Promise.all(flood);
    // Those that had run when the small jobs arrived, one for each of them, and those that ran concurrently.
    expect(before).toBeLessThan(45);
    expect(order).toHaveLength(63);
  });
});

describe('kill -9 of the sandbox host with jobs in flight', () => {
  it('loses no job and replies to none twice', { timeout: 120_000 }, async () => {
    const source = 'import time\ntime.sleep(0.03)\nargs';
    let ended = 0;
    const answers = Array.from({ length: 60 }, (_, i) =>
      execute(code(source, { args: i }), { tenant: `t${i % 3}` }).finally(() => (ended += 1)),
    );
    for (let kills = 0; kills < 2; kills++) {
      // Those that run again after the first kill have then ended: none is hit by the second one as well.
      const before = ended;
      await eventually('a host works', () => sandbox.isReady && ended > before + 2 * THREADS);
      process.kill(sandbox.hostPid!, 'SIGKILL');
      await eventually('it is gone', () => !sandbox.isReady);
    }
    const replied = await Promise.all(answers);
    expect(replied.filter((reply) => reply.ok).map(valueOf)).toEqual(
      replied.flatMap((reply, i) => (reply.ok ? [i] : [])),
    );
    for (const reply of replied) if (!reply.ok) expect(reply.failure?.code).toBe('SANDBOX_CRASHED');
    expect(replied.filter((reply) => reply.ok).length).toBeGreaterThanOrEqual(58);
  });
});
