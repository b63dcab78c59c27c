import { ToolError } from '@toolfleet/contracts';
import type { Call } from '@toolfleet/engine';
import type { JobQueue, ReplyChannel } from '@toolfleet/queue';
import { SystemClock } from '@toolfleet/resilience';
import { expect, it } from 'vitest';
import type { ProgramPorts } from './program-calls.js';
import { ProgramExecutor } from './program-executor.js';

const clock = new SystemClock();
const late = new ToolError('DEADLINE_EXCEEDED');

/** Runs a program whose queue answers with this error. */
function run(error: ToolError) {
  const replies = { submit: () => Promise.reject(error) } as unknown as ReplyChannel;
  const executor = new ProgramExecutor({} as JobQueue<never, never>, replies, {
    clock,
    issueToken: () => 'token',
    credentials: { during: (_principal, work) => work(new AbortController().signal) },
    traceHeaders: () => undefined,
    ports: { clock } as ProgramPorts,
    maxPerTenant: 0,
  });
  const request = { principal: { tenantId: 'acme' }, deadlineAt: clock.now() + 1_000, context: {} };
  const deadline = { remainingMs: () => 1_000 };
  const signal = new AbortController().signal;
  const call = {
    ...{ callId: 'c', arguments: {}, timeoutMs: 1_000, tool: {}, plan: {}, input: { context: {} } },
    request,
    deadline,
    signal,
  };
  return executor.execute(call as unknown as Call);
}

it('a program that has begun and is late has timed out, and its calls are listed', async () => {
  expect(await run(late)).toMatchObject({ ok: false, failure: { code: 'ATTEMPT_TIMED_OUT' }, metadata: { calls: [] } });
});

it('a program that never began is refused', async () => {
  await expect(run(late.withFacts({ begun: 'no' }))).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED' });
});
