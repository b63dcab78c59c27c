import type { ExecJob } from '@toolfleet/contracts/execution';
import { QUEUES } from '@toolfleet/contracts/subjects';

/** A Python run as the gateway queues it. */
export type PythonJob = Omit<ExecJob, 'reply_channel' | 'deadline_at' | 'queued_at'>;

/** Queue of python-sandbox. */
export const PYTHON_QUEUE = QUEUES.pythonRuns;

/** A run that occupies a slot for the given time without work for the CPU, and answers with its number. */
export function sleepingJob(callId: string, index: number, serviceMs: number): PythonJob {
  return {
    call_id: callId,
    attempt: 1,
    fence: 1,
    journalled: false,
    tool: 'execute_python',
    revision: 'autoscale',
    binding: { kind: 'python' },
    arguments: { code: `import time\ntime.sleep(${(serviceMs / 1_000).toFixed(4)})\nargs`, args: index },
    context: { tenant_id: 'autoscale' },
    tenant_id: 'autoscale',
    timeout_ms: 60_000,
  };
}
