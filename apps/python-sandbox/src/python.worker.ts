import { Injectable } from '@nestjs/common';
import { ToolError } from '@toolfleet/contracts';
import type { ExecJob, ExecResponse } from '@toolfleet/contracts/execution';
import { RetryLater, type JobRun } from '@toolfleet/queue';
import { Clock } from '@toolfleet/resilience';
import { toExecResponse } from './exec-response.js';
import type { RunReply, RunRequest } from './python/guest-protocol.js';
import { SessionStore, type SessionLease } from './redis-session-store.js';
import { planRun, RunLimits } from './run-arguments.js';
import { Sandbox } from './sandbox.js';

/** Subtracted from the call's deadline, so that the response arrives in time. */
const REPLY_RESERVE_MS = 50;
/** How long a session lease outlasts its run. The session of a worker that died is free after that. */
const LEASE_RESERVE_MS = 10_000;
/** Delay before a job retries a busy session, randomized so that waiting jobs do not retry in step. */
const SESSION_RETRY_MS = { least: 40, spread: 120 };

/**
 * Handles the jobs of the queue `python-runs`. A run has no effects besides its reply, so a job that is delivered twice
 * simply runs again. A job whose session is busy goes back to the queue instead of occupying a thread.
 */
@Injectable()
export class PythonWorker {
  constructor(
    private readonly sandbox: Sandbox,
    private readonly sessions: SessionStore,
    private readonly limits: RunLimits,
    private readonly clock: Clock,
  ) {}

  /**
   * Runs one attempt. Whatever the program does, the result is a response.
   * @throws ToolError ARGUMENTS_INVALID for arguments that do not describe a run, or SERVICE_UNAVAILABLE at shutdown
   * @throws RetryLater while the session is busy
   */
  async handle(run: JobRun<ExecJob>): Promise<ExecResponse> {
    const job = run.data;
    const { request, sessionId } = planRun(job, this.limits);
    const timeoutMs = Math.max(1, Math.min(request.timeoutMs, this.msLeft(run) - REPLY_RESERVE_MS));
    const lease = sessionId === null ? null : await this.takeSession(run, sessionId, timeoutMs);
    const reply = await this.runProgram(run, { ...request, timeoutMs, session: lease?.variables ?? null });
    await lease?.release(reply.session);
    return toExecResponse(reply, {
      queueMs: run.queuedMs,
      strictness: request.strictness,
      interpreter: this.sandbox.interpreter,
      sessionId,
    });
  }

  private async takeSession(run: JobRun<ExecJob>, sessionId: string, timeoutMs: number): Promise<SessionLease> {
    const { tenant_id: tenantId, context } = run.data;
    const key = { tenantId, userId: typeof context.user_id === 'string' ? context.user_id : '', sessionId };
    const lease = await this.sessions.take(key, run.jobId, timeoutMs + LEASE_RESERVE_MS);
    if (lease) return lease;
    throw new RetryLater(SESSION_RETRY_MS.least + Math.random() * SESSION_RETRY_MS.spread);
  }

  private async runProgram(run: JobRun<ExecJob>, request: RunRequest): Promise<RunReply> {
    const onProgress = (lines: string) => run.progress({ message: lines });
    const reply = await this.sandbox.run({ ...request, reportsProgress: true }, { onProgress }, run.signal);
    if (reply.status !== 'cancelled') return reply;
    const { reason } = run.signal as { reason: unknown };
    if (reason instanceof ToolError && reason.code === 'SERVICE_UNAVAILABLE') throw reason;
    // A call deadline that passes during the attempt counts as the attempt's time-out.
    const isLate = reason instanceof ToolError && reason.code === 'DEADLINE_EXCEEDED';
    return isLate ? { ...reply, status: 'timeout', error: { ...reply.error!, type: 'Timeout' } } : reply;
  }

  private msLeft(run: JobRun<ExecJob>): number {
    return run.deadlineAt === undefined ? Number.POSITIVE_INFINITY : run.deadlineAt - this.clock.now();
  }
}
