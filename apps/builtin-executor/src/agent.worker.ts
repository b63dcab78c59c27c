import type { ToolRunner } from '@toolfleet/builtin-tools';
import type { ExecJob, ExecResponse } from '@toolfleet/contracts/execution';
import type { ExecutionGuard } from '@toolfleet/journal';
import type { JobRun } from '@toolfleet/queue';
import type { Clock } from '@toolfleet/resilience';

/** Kept back from the deadline of the call, so that the answer is there in time. */
const REPLY_RESERVE_MS = 50;

/**
 * Runs one job of `agent-runs`. A job whose worker died comes again; its claim is then refused, so tools that an agent called
 * are never called twice by a second run (the gateway ends the call as OUTCOME_UNKNOWN).
 */
export function agentWorker(
  toolbox: ToolRunner,
  gate: ExecutionGuard,
  clock: Clock,
): (run: JobRun<ExecJob>) => Promise<ExecResponse> {
  return async (run) => {
    const { data } = run;
    const leftMs = run.deadlineAt === undefined ? data.timeout_ms : run.deadlineAt - clock.now();
    const deadlineAt = clock.now() + Math.max(0, Math.min(data.timeout_ms, leftMs) - REPLY_RESERVE_MS);
    const reply = await gate.run(data, async (begin) => {
      await begin();
      return toolbox.run(data, { signal: run.signal, deadlineAt, progress: (progress) => run.progress(progress) });
    });
    return { ...reply, queue_ms: run.queuedMs };
  };
}
