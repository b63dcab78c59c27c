import type { ExecJob, ExecResponse, PythonJobPolicy } from '@toolfleet/contracts/execution';
import { execMessageOf, Executor, type Call } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import type { JobQueue, ReplyChannel } from '@toolfleet/queue';
import type { Delegate } from './delegate.js';

/** A job as the gateway adds it; the reply channel, the instants in Redis TIME and the id are the queue's. */
export type NewExecJob = Omit<ExecJob, 'reply_channel' | 'deadline_at' | 'queued_at'>;

/** What a queue executor needs beside its queue. */
export interface QueueExecutorOptions {
  clock: Clock;
  delegate: Delegate;
  /** Headers of the active trace. */
  traceHeaders: () => Readonly<Record<string, string>> | undefined;
  /** Policy of sandbox jobs, from section `code_execution` of the configuration file. */
  python?: PythonJobPolicy;
}

/** Runs attempts as jobs of one queue and waits for the reply on this gateway's channel. */
export class QueueExecutor extends Executor {
  constructor(
    private readonly queue: JobQueue<NewExecJob, ExecResponse>,
    private readonly replies: ReplyChannel,
    private readonly options: QueueExecutorOptions,
  ) {
    super();
  }

  override execute(call: Call): Promise<ExecResponse> {
    const { python } = this.options;
    const traceparent = this.options.traceHeaders()?.traceparent;
    const job: NewExecJob = {
      ...execMessageOf(call, this.options.delegate(call)),
      tenant_id: call.request.principal.tenantId,
      timeout_ms: call.timeoutMs,
      ...(traceparent === undefined ? {} : { traceparent }),
      ...(python && call.tool.binding.kind === 'python' ? { python: pythonPolicyOf(python, call) } : {}),
    };
    return this.replies.submit(this.queue, job, {
      deadlineAt: this.options.clock.now() + call.deadline.remainingMs(),
      signal: call.signal,
      ...(call.request.onProgress ? { onProgress: call.request.onProgress } : {}),
    });
  }
}

function pythonPolicyOf(policy: PythonJobPolicy, call: Call): PythonJobPolicy {
  const limit = call.tool.memory_limit_mb;
  return limit === undefined ? policy : { ...policy, memory_limit_mb: limit };
}
