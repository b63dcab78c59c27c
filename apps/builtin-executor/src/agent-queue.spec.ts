import { describe, expect, it } from 'vitest';
import { defineTool, ok, ToolRunner } from '@toolfleet/builtin-tools';
import type { ExecJob } from '@toolfleet/contracts/execution';
import { JournalGuard } from '@toolfleet/journal';
import { MemoryJournal } from '@toolfleet/testing/memory-journal';
import type { JobRun } from '@toolfleet/queue';
import { SystemClock } from '@toolfleet/resilience';
import { agentJobHandler } from './agent-queue.js';

const clock = new SystemClock();

/** A worker with a tool that counts its effects. */
function worker() {
  const journal = new MemoryJournal(clock);
  let effects = 0;
  const tool = defineTool({
    name: 'send',
    description: 'd',
    category: 'c',
    toolset: 'agent',
    inputSchema: { type: 'object' },
    handler: (_args, run) => {
      effects += 1;
      run.progress({ message: 'sent' });
      return ok({ left_ms: run.deadlineAt - clock.now() }, 'sent');
    },
  });
  return {
    journal,
    handle: agentJobHandler(new ToolRunner([tool], {}, clock), new JournalGuard(journal, clock), clock),
    effects: () => effects,
  };
}

function jobRun(over: Partial<ExecJob> = {}, more: Partial<JobRun<ExecJob>> = {}): JobRun<ExecJob> {
  const data: ExecJob = {
    call_id: 'call_1',
    attempt: 1,
    fence: 1,
    journalled: true,
    tool: 'send',
    revision: 'r',
    binding: { kind: 'builtin', toolset: 'agent', handler: 'send' },
    arguments: {},
    context: { tenant_id: 'acme' },
    reply_channel: 'c',
    deadline_at: clock.now() + 60_000,
    queued_at: clock.now(),
    tenant_id: 'acme',
    timeout_ms: 5_000,
    ...over,
  };
  return {
    jobId: 'call_1-1',
    data,
    signal: new AbortController().signal,
    deadlineAt: clock.now() + 60_000,
    queuedMs: 7,
    isRepeated: false,
    progress: () => {},
    ask: () => Promise.reject(new Error('agents do not ask')),
    ...more,
  };
}

describe('worker of agent-runs', () => {
  it('runs a job once, also when a second worker gets it after the first was lost', async () => {
    const { journal, handle, effects } = worker();
    const { call_id: callId } = jobRun().data;
    const entered = await journal.accept({
      callId,
      tenantId: 'acme',
      tool: 'send',
      deadlineAt: clock.now() + 60_000,
      repeatable: false,
    });
    expect(entered).toEqual({ kind: 'accepted', fence: 1 });
    expect(await handle(jobRun())).toMatchObject({ ok: true, text: 'sent', queue_ms: 7 });
    await expect(handle(jobRun({}, { isRepeated: true }))).rejects.toMatchObject({
      code: 'EXECUTOR_UNAVAILABLE',
      details: { reason: 'claim_refused' },
    });
    expect(effects()).toBe(1);
  });

  it('runs nothing that the journal does not know', async () => {
    const { handle, effects } = worker();
    await expect(handle(jobRun())).rejects.toMatchObject({ code: 'EXECUTOR_UNAVAILABLE' });
    expect(effects()).toBe(0);
  });

  it('gives the tool the sooner of attempt time-out and deadline, and passes progress on', async () => {
    const { handle } = worker();
    const told: unknown[] = [];
    const progress = { progress: (one: unknown) => void told.push(one) };
    const long = await handle(jobRun({ journalled: false, timeout_ms: 5_000 }, progress));
    const short = await handle(jobRun({ journalled: false, timeout_ms: 5_000 }, { deadlineAt: clock.now() + 1_000 }));
    const left = (reply: typeof long) => (reply.output as { left_ms: number }).left_ms;
    expect(left(long)).toBeGreaterThan(left(short));
    expect(left(short)).toBeLessThan(1_000);
    expect(left(long)).toBeLessThan(5_000);
    expect(told).toEqual([{ message: 'sent' }]);
  });
});
