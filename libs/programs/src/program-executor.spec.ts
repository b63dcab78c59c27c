import { ToolError } from '@toolfleet/contracts';
import type { Call } from '@toolfleet/engine';
import type { JobQueue, ReplyChannel } from '@toolfleet/queue';
import { SystemClock } from '@toolfleet/resilience';
import { expect, it } from 'vitest';
import type { ProgramPorts } from './program-calls.js';
import { ProgramExecutor } from './program-executor.js';

const clock = new SystemClock();
const late = new ToolError('DEADLINE_EXCEEDED');

/** An executor with a queue that answers as `submit` does. */
function executorOf(submit: () => Promise<unknown>, maxPerTenant = 0): ProgramExecutor {
  const replies = { submit } as unknown as ReplyChannel;
  return new ProgramExecutor({} as JobQueue<never, never>, replies, {
    clock,
    issueToken: () => 'token',
    credentials: { during: (_principal, work) => work(new AbortController().signal) },
    traceHeaders: () => undefined,
    python: { default_strictness: 'standard', extra_allowed_modules: { strict: [] } },
    ports: { clock } as ProgramPorts,
    maxPerTenant,
  });
}

/** A call of run_program. */
function callOf(tenantId: string, more: object = {}): Call {
  const request = {
    principal: { tenantId },
    deadlineAt: clock.now() + 1_000,
    context: {},
    mode: { kind: 'run' },
    ...more,
  };
  const deadline = { remainingMs: () => 1_000 };
  const signal = new AbortController().signal;
  const call = {
    ...{ callId: 'c', arguments: {}, timeoutMs: 1_000, tool: {}, plan: {}, input: { context: {} } },
    request,
    deadline,
    signal,
  };
  return call as unknown as Call;
}

/** Runs a program with a queue that answers with this error. */
const run = (error: ToolError) => executorOf(() => Promise.reject(error)).execute(callOf('acme'));

it('a program that has begun and is late has timed out, and its calls are listed', async () => {
  expect(await run(late)).toMatchObject({ ok: false, failure: { code: 'ATTEMPT_TIMED_OUT' }, metadata: { calls: [] } });
});

it('a program that never began is refused', async () => {
  await expect(run(late.withFacts({ begun: 'no' }))).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED' });
});

it('a tenant runs as many programs as its limit, and others and accepted programs run meanwhile', async () => {
  const ends: (() => void)[] = [];
  const executor = executorOf(() => new Promise((_, reject) => ends.push(() => reject(late))), 2);
  const running = [callOf('acme'), callOf('acme')].map((call) => executor.execute(call));
  await expect(executor.execute(callOf('acme'))).rejects.toMatchObject({ code: 'QUEUE_FULL', details: { limit: 2 } });
  running.push(
    executor.execute(callOf('globex')),
    executor.execute(callOf('acme', { mode: { kind: 'resume', acceptedAt: clock.now(), mayHaveBegun: false } })),
  );
  await expect.poll(() => ends.length).toBe(4);
  ends[0]!();
  await running[0];
  running.push(executor.execute(callOf('acme')));
  await expect.poll(() => ends.length).toBe(5);
  for (const end of ends) end();
  await Promise.all(running);
});
