import { randomUUID } from 'node:crypto';
import { FairSlots, type Clock } from '@toolfleet/resilience';
import { Executor, type Call, toExecMessage } from '@toolfleet/engine';
import { toJobId, type JobQueue, type ReplyChannel } from '@toolfleet/queue';
import {
  type NewExecJob,
  type ExecResponse,
  type PythonJobPolicy,
  failedResponse,
} from '@toolfleet/contracts/execution';
import { PlanCheck, PlanDraft, showPlan } from './effect-plan.js';
import { type ProgramPorts, ProgramCalls } from './program-calls.js';
import { PROGRAM_LIMITS } from './program-ledger.js';
import type { CredentialWatch } from '@toolfleet/access';
import {
  isJsonObject,
  jsonObject,
  ToolError,
  toToolError,
  type Milliseconds,
  type ProgramPlan,
} from '@toolfleet/contracts';

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
  python: PythonJobPolicy;
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
  readonly #slots: FairSlots;

  constructor(
    private readonly queue: JobQueue<NewExecJob, ExecResponse>,
    private readonly replies: ReplyChannel,
    private readonly deps: Deps,
  ) {
    super();
    this.#slots = new FairSlots('programs', Infinity, deps.maxPerTenant || Infinity);
  }

  override async execute(call: Call): Promise<ExecResponse> {
    const { principal, mode } = call.request;
    if (mode.kind === 'resume') return this.#run(call);
    const { tenantId } = principal;
    const { maxPerTenant } = this.deps;
    const release = this.#slots.take(tenantId);
    if (!release) {
      throw new ToolError('QUEUE_FULL', {
        message: `${maxPerTenant} programs of this tenant run; wait for one to end, or send it with mode "async"`,
        details: { limit: maxPerTenant },
        retryAfterMs: RETRY_MS,
      });
    }
    try {
      return await this.#run(call);
    } finally {
      release();
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
    await this.#checkTools(call);
    const { plan: isPlan, plan_digest: digest } = call.arguments;
    if (isPlan === true && digest !== undefined)
      throw new ToolError('ARGUMENTS_INVALID', { message: 'plan and plan_digest exclude each other' });
    if (isPlan === true) return this.#plan(call);
    const state = call.request.program;
    const plan = state?.plan ?? (typeof digest === 'string' ? await this.#planAgain(call, digest) : undefined);
    const check = plan && new PlanCheck(plan);
    const calls = new ProgramCalls(call, this.#token(call), this.deps.ports, state, check);
    calls.waits.checkAge();
    if (check) await calls.waits.askForPlan(check);
    // A gateway that takes a program over goes on with its run, except that a plan has to see all of it.
    let jobId = check ? newJobId(call) : state && `${toJobId(call.callId, call.attempt)}-${state.approval}`;
    for (let runs = 1; ; runs += 1) {
      const response = await this.#submit(call, calls, jobId);
      if (!response.waits) return calls.end(response);
      if (runs >= MAX_RUNS)
        return calls.end(
          failedResponse(new ToolError('PROGRAM_LIMIT', { message: `It ran ${runs} times to ask people` })),
        );
      await calls.park(response.waits);
      jobId = newJobId(call);
    }
  }

  #token(call: Call): string {
    const token = this.deps.issueToken(call);
    if (token === undefined) throw new ToolError('INTERNAL', { message: 'A program needs a delegation' });
    return token;
  }

  /** Runs a program and only quotes its calls with effects, and adds the plan to its result. */
  async #plan(call: Call): Promise<ExecResponse> {
    const { response, plan } = await this.#draft(call);
    const isComplete = response.ok;
    const { digest, ...effects } = showPlan(plan);
    const shown = jsonObject({ digest: isComplete ? digest : undefined, ...effects, complete: isComplete });
    const output = isJsonObject(response.output) ? { ...response.output, plan: shown } : { plan: shown };
    const total = `${plan.effects.length} effects, at most $${effects.max_cost_usd}`;
    const text = isComplete
      ? `Plan of ${total}; nothing of it was run. To run exactly these, send the same program with plan_digest ${digest}.`
      : `The plan ends early, after ${total}, because the program failed when its effects were only quoted.`;
    return { ...response, output, text: `${text}\n${response.text}` };
  }

  /** The plan of the program as it is now. @throws ToolError PLAN_OUTDATED unless it has this digest */
  async #planAgain(call: Call, digest: string): Promise<ProgramPlan> {
    const { response, plan } = await this.#draft(call);
    if (response.ok && plan.digest === digest) return plan;
    const why = response.ok ? 'has other effects now' : `fails now: ${response.failure?.message ?? 'unknown'}`;
    throw new ToolError('PLAN_OUTDATED', {
      message: `The plan ${digest} is not that of this program any more: it ${why}. Nothing of it was run`,
      details: { plan: showPlan(plan) },
    });
  }

  async #draft(call: Call): Promise<{ response: ExecResponse; plan: ProgramPlan }> {
    const draft = new PlanDraft();
    const calls = new ProgramCalls(call, this.#token(call), this.deps.ports, undefined, draft);
    const response = calls.end(await this.#submit(call, calls, newJobId(call)));
    return { response, plan: draft.end(call) };
  }

  /** Runs a program once. @param jobId a second submission of the same one waits for the run of the first */
  async #submit(call: Call, calls: ProgramCalls, jobId: string | undefined): Promise<ExecResponse> {
    const { clock, traceHeaders, python, credentials } = this.deps;
    const { principal, mode } = call.request;
    const job: NewExecJob = {
      ...toExecMessage(call),
      tenant_id: principal.tenantId,
      timeout_ms: call.timeoutMs,
      traceparent: traceHeaders()?.traceparent,
      python: { ...python, memory_limit_mb: call.tool.memory_limit_mb },
      program: { seed: call.callId, started_at: calls.waits.startedAt },
    };
    try {
      return await credentials.during(principal, (startUntil) =>
        this.replies.submit(this.queue, job, {
          deadlineAt: clock.now() + call.deadline.remainingMs(),
          runMs: Math.min(call.timeoutMs, runMs(call)),
          startUntil,
          signal: call.signal,
          onAsk: (question, bytes) => calls.answer(question, bytes),
          takesOver: mode.kind === 'resume',
          jobId,
        }),
      );
    } catch (thrown) {
      const error = toToolError(thrown);
      if (error.facts?.begun === 'no') throw error;
      // A lost or late program may have made calls: they are listed with its failure.
      const isLate = error.code === 'DEADLINE_EXCEEDED';
      const message = 'The program had not ended when the time of its call was over';
      return failedResponse(isLate ? new ToolError('ATTEMPT_TIMED_OUT', { message }) : error);
    }
  }
}

/** Runs of one program in a row because its calls were decided meanwhile, or could not be asked about. */
const MAX_RUNS = 20;

/** The id of a run that no other gateway goes on with. */
const newJobId = ({ callId, attempt }: Call): string => `${toJobId(callId, attempt)}-${randomUUID()}`;

/** Time that the run of a program may take, as the sandbox reads it. */
function runMs({ arguments: args }: Call): Milliseconds {
  const { timeout_seconds: seconds } = args;
  return (typeof seconds === 'number' ? seconds : PROGRAM_LIMITS.runSeconds) * 1_000;
}
