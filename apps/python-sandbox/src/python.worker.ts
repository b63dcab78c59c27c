import type { ExecJob, ExecResponse } from '@toolfleet/contracts/execution';
import { RetryLater, type JobRun } from '@toolfleet/queue';
import type { Clock } from '@toolfleet/resilience';
import {
  packageCheck,
  PackageError,
  type PythonPackage,
  type RunReply,
  type RunRequest,
  type Sandbox,
} from '@toolfleet/wasi-python';
import { endOfRun, toExecResponse, type RunContext } from './exec-response.js';
import type { RedisSessionStore, SessionLease } from './redis-session-store.js';
import { planRun, type RunLimits } from './run-arguments.js';

/** Subtracted from the call's deadline, so that the response arrives in time. */
const REPLY_RESERVE_MS = 50;
/** How long a session lease outlasts its run. The session of a worker that died is free after that. */
const LEASE_RESERVE_MS = 10_000;
/** Runs of a warm-up per thread, and the longest time for all. After about twenty runs a thread no longer gets faster. */
const WARM_UP_RUNS = 20;
const WARM_UP_MS = 2_000;
/** A busy machine needs seconds for its first run. */
const CHECK_MS = 60_000;
const OVER_QUOTA =
  'The variables were not kept: the Python sessions of this tenant fill their quota. Keep less, use fewer sessions or wait until they expire; the operator sets PYTHON_SESSION_QUOTA_MB.';
/** Delay before a job retries a busy session, randomized so that waiting jobs do not retry in step. */
const SESSION_RETRY_MS = { least: 40, spread: 120 };

/**
 * Handles the jobs of the queue `python-runs`. A run has no effects besides its reply, so a job that is delivered twice
 * simply runs again. A job with a busy session goes back to the queue instead of occupying a thread.
 */
export class PythonWorker {
  constructor(
    private readonly sandbox: Sandbox,
    private readonly sessions: RedisSessionStore,
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
    const leftMs = run.deadlineAt === undefined ? Number.POSITIVE_INFINITY : run.deadlineAt - this.clock.now();
    const timeoutMs = Math.max(1, Math.min(request.timeoutMs, leftMs - REPLY_RESERVE_MS));
    const lease = sessionId === null ? null : await this.takeSession(run, sessionId, timeoutMs);
    const planned = { ...request, timeoutMs, session: lease?.variables ?? null, reportsProgress: true };
    const onProgress = (lines: string) => run.progress({ message: lines });
    const reply = endOfRun(await this.sandbox.run(planned, { onProgress }, run.signal), run.signal);
    const isKept = (await lease?.release(reply.session)) ?? true;
    const kept = isKept ? reply : { ...reply, session: undefined, sessionNote: OVER_QUOTA };
    return this.toResponse(kept, request, { queueMs: run.queuedMs, sessionId, tool: job.tool, timeoutMs });
  }

  /**
   * Runs small programs on each of `threads` threads, so that the first calls do not wait for code that V8 has not compiled yet: the code of
   * this process, of the sandbox host and of every thread.
   */
  async warmUp(threads: number): Promise<void> {
    const until = this.clock.monotonic() + WARM_UP_MS;
    const job = { context: { tenant_id: '' }, timeout_ms: WARM_UP_MS };
    for (let i = 0; i < WARM_UP_RUNS * threads && this.clock.monotonic() < until; i += 1) {
      const { request } = planRun({ ...job, arguments: { code: `print(${i})` } }, this.limits);
      const reply = await this.sandbox.run({ ...request, reportsProgress: true });
      this.toResponse(reply, request, { queueMs: 0, sessionId: null, tool: '', timeoutMs: WARM_UP_MS });
    }
  }

  /** Checks the requirements of packages with the interpreter. @throws PackageError */
  async check(packages: readonly PythonPackage[]): Promise<void> {
    if (packages.length === 0) return;
    const job = { context: { tenant_id: '' }, timeout_ms: CHECK_MS };
    const { request } = planRun({ ...job, arguments: { ...packageCheck(packages) } }, this.limits);
    const { value, error } = await this.sandbox.run({ ...request, packages: [] });
    if (!Array.isArray(value)) throw new Error(`the packages cannot be checked: ${JSON.stringify(error)}`);
    if (value.length > 0) throw new PackageError(value.join('; '));
  }

  private async takeSession(run: JobRun<ExecJob>, sessionId: string, timeoutMs: number): Promise<SessionLease> {
    const { tenant_id: tenantId, context } = run.data;
    const key = { tenantId, userId: typeof context.user_id === 'string' ? context.user_id : '', sessionId };
    const lease = await this.sessions.take(key, run.jobId, timeoutMs + LEASE_RESERVE_MS);
    if (lease) return lease;
    throw new RetryLater(SESSION_RETRY_MS.least + Math.random() * SESSION_RETRY_MS.spread);
  }

  private toResponse(
    reply: RunReply,
    { strictness }: RunRequest,
    context: Omit<RunContext, 'strictness' | 'interpreter'>,
  ): ExecResponse {
    return toExecResponse(reply, { ...context, strictness, interpreter: this.sandbox.interpreter });
  }
}
