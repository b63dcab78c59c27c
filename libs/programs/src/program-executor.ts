import type { Clock } from '@toolfleet/resilience';
import { Executor, type Call, toExecMessage } from '@toolfleet/engine';
import type { JobQueue, ReplyChannel } from '@toolfleet/queue';
import {
  type NewExecJob,
  type ExecResponse,
  type PythonJobPolicy,
  failedResponse,
} from '@toolfleet/contracts/execution';
import { PROGRAM_LIMITS, type ProgramPorts, ProgramCalls } from './program-calls.js';
import type { CredentialWatch } from '@toolfleet/access';
import { ToolError, toToolError, type Milliseconds } from '@toolfleet/contracts';

/** When a tenant with as many programs as it may have should try again. */
const RETRY_MS = 1_000;

interface Deps {
  clock: Clock;
  issueToken: (call: Call) => string | undefined;
  /** Ends the wait for a worker when the credential of a call is revoked. */
  credentials: Pick<CredentialWatch, 'during'>;
  /** Headers of the active trace; undefined when no trace is recorded. */
  traceHeaders: () => Readonly<Record<string, string>> | undefined;
  /** Reads the policy of the next sandbox job. @throws ToolError SERVICE_UNAVAILABLE */
  python: () => Promise<PythonJobPolicy>;
  ports: ProgramPorts;
  /** Programs of a tenant in this process; 0 means no limit. Asynchronous programs have the slots of their queue. */
  maxPerTenant: number;
}

/**
 * Runs programs that call tools as jobs of their queue. The delegation of a run stays in this process: the sandbox sends
 * numbered questions, and `ProgramCalls` answers them with the rights of the caller.
 */
export class ProgramExecutor extends Executor {
  /** Programs with a caller that waits, by tenant. */
  readonly #running = new Map<string, number>();

  constructor(
    private readonly queue: JobQueue<NewExecJob, ExecResponse>,
    private readonly replies: ReplyChannel,
    private readonly deps: Deps,
  ) {
    super();
  }

  override async execute(call: Call): Promise<ExecResponse> {
    const { principal, mode } = call.request;
    if (mode.kind === 'resume') return this.#run(call);
    const { tenantId } = principal;
    const { maxPerTenant } = this.deps;
    const running = this.#running.get(tenantId) ?? 0;
    if (maxPerTenant > 0 && running >= maxPerTenant) {
      throw new ToolError('QUEUE_FULL', {
        message: `${running} programs of this tenant run; wait for one to end, or send it with mode "async"`,
        details: { limit: maxPerTenant, setting: 'GATEWAY_PROGRAMS_PER_TENANT' },
        retryAfterMs: RETRY_MS,
      });
    }
    this.#running.set(tenantId, running + 1);
    try {
      return await this.#run(call);
    } finally {
      const left = (this.#running.get(tenantId) ?? 1) - 1;
      if (left > 0) this.#running.set(tenantId, left);
      else this.#running.delete(tenantId);
    }
  }

  /** @throws ToolError ARGUMENTS_INVALID for names in `tools` that no tool of the caller has; patterns may match none */
  async #checkTools({ arguments: args, request }: Call): Promise<void> {
    const names = Array.isArray(args.tools) ? args.tools : [];
    const faults = await Promise.all(
      names.map(async (name) => {
        if (typeof name !== 'string' || name.includes('*')) return [];
        const error = await this.deps.ports.describe(request.principal, name).then(() => undefined, toToolError);
        return error?.code === 'TOOL_NOT_FOUND' ? [error.message] : [];
      }),
    );
    const unknown = faults.flat();
    if (unknown.length > 0) throw new ToolError('ARGUMENTS_INVALID', { message: `tools: ${unknown.join('; ')}` });
  }

  async #run(call: Call): Promise<ExecResponse> {
    const { clock, issueToken, traceHeaders, python, credentials, ports } = this.deps;
    await this.#checkTools(call);
    const token = issueToken(call);
    if (token === undefined) throw new ToolError('INTERNAL', { message: 'A program needs a delegation' });
    const calls = new ProgramCalls(call, token, ports);
    const { principal, mode } = call.request;
    const job: NewExecJob = {
      ...toExecMessage(call),
      tenant_id: principal.tenantId,
      timeout_ms: call.timeoutMs,
      traceparent: traceHeaders()?.traceparent,
      python: await python(),
      program: { seed: call.callId, started_at: mode.kind === 'resume' ? mode.acceptedAt : clock.now() },
    };
    try {
      const response = await credentials.during(principal, (startUntil) =>
        this.replies.submit(this.queue, job, {
          deadlineAt: clock.now() + call.deadline.remainingMs(),
          runMs: Math.min(call.timeoutMs, runMs(call)),
          startUntil,
          signal: call.signal,
          onAsk: (question, bytes) => calls.answer(question, bytes),
        }),
      );
      return calls.end(response);
    } catch (thrown) {
      const error = toToolError(thrown);
      if (error.facts?.begun === 'no') throw error;
      // A lost or late program may have made calls: they are listed with its failure.
      const isLate = error.code === 'DEADLINE_EXCEEDED';
      const message = 'The program had not ended when the time of its call was over';
      return calls.end(failedResponse(isLate ? new ToolError('ATTEMPT_TIMED_OUT', { message }) : error));
    }
  }
}

/** Time that the run of a program may take, as the sandbox reads it. */
function runMs({ arguments: args }: Call): Milliseconds {
  const { timeout_seconds: seconds } = args;
  return (typeof seconds === 'number' ? seconds : PROGRAM_LIMITS.runSeconds) * 1_000;
}
