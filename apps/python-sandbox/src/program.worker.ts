import { CATALOGUE, isJsonObject, ToolError, type JsonObject } from '@toolfleet/contracts';
import { failedResponse, type ExecJob, type ExecResponse } from '@toolfleet/contracts/execution';
import { BODY_EXCESS, bodyExcess, parseExact, toExactJson } from '@toolfleet/contracts/json-text';
import type { JobRun } from '@toolfleet/queue';
import type { Clock } from '@toolfleet/resilience';
import type { Sandbox } from '@toolfleet/wasi-python';
import { endOfRun, toExecResponse } from './exec-response.js';
import { OpenQuestions } from './open-questions.js';
import { planProgram, type RunLimits } from './run-arguments.js';

/** Subtracted from the call's deadline, so that the response arrives in time. */
const REPLY_RESERVE_MS = 100;

/**
 * Handles the jobs of the queue `program-runs`. The calls that a program makes go as questions to the gateway that waits for
 * the job; this process passes them on and has no rights of its own. A job that is delivered twice runs again from the start.
 */
export class ProgramWorker {
  constructor(
    private readonly sandbox: Sandbox,
    private readonly limits: RunLimits,
    private readonly clock: Clock,
  ) {}

  /** Runs one program. @throws ToolError ARGUMENTS_INVALID, or SERVICE_UNAVAILABLE at shutdown */
  async handle(run: JobRun<ExecJob>): Promise<ExecResponse> {
    const { request, program } = planProgram(run.data, this.limits);
    const leftMs = run.deadlineAt === undefined ? Number.POSITIVE_INFINITY : run.deadlineAt - this.clock.now();
    const wallMs = Math.max(1, Math.min(program.wallMs, leftMs - REPLY_RESERVE_MS));
    const park = new AbortController();
    let waits: JsonObject[] | undefined;
    const open = new OpenQuestions((questions) => {
      waits = questions;
      park.abort(new ToolError('APPROVAL_REQUIRED'));
    });
    const reply = await this.sandbox.run(
      { ...request, program: { ...program, wallMs } },
      {
        onBegin: () => open.reset(),
        onAsk: (line, answer) => void passOn(run, open, line, answer),
        onBlocked: (answered) => open.blocked(answered),
      },
      AbortSignal.any([run.signal, park.signal]),
    );
    // Its thread has ended, with its memory: the program runs again from the start once its calls are decided.
    if (waits && reply.status === 'cancelled' && !run.signal.aborted)
      return { ...failedResponse(new ToolError('APPROVAL_REQUIRED')), waits };
    const { strictness } = request;
    const { interpreter } = this.sandbox;
    return toExecResponse(endOfRun(reply, run.signal), {
      queueMs: run.queuedMs,
      strictness,
      interpreter,
      sessionId: null,
      tool: run.data.tool,
      timeoutMs: wallMs,
    });
  }
}

/** A question of the guest's library begins with its number. */
const NUMBER = /^\{"n":\s*(\d{1,15})\s*[,}]/;

/**
 * A line that is not a question is answered like one: the gateway refuses it with a reason. One that exceeds the limits of a body
 * from outside is refused here, before it is parsed.
 */
async function passOn(
  run: JobRun<ExecJob>,
  open: OpenQuestions,
  line: string,
  reply: (line: string) => void,
): Promise<void> {
  const sent = Number(NUMBER.exec(line)?.[1] ?? 0);
  open.asked(sent);
  const answer = (body: JsonObject): void => {
    open.answered(sent);
    reply(toExactJson(body));
  };
  const excess = bodyExcess(Buffer.from(line));
  if (excess) {
    const code = 'ARGUMENTS_INVALID';
    return answer({ n: sent, code, message: BODY_EXCESS[excess], retryable: false, hint: CATALOGUE[code].hint });
  }
  let question: unknown = null;
  try {
    question = parseExact(line).value;
  } catch {
    // A program can write anything to the device.
  }
  const n = isJsonObject(question) ? (question['n'] ?? null) : 0;
  const received = await run.ask(question);
  if (isJsonObject(received) && received['waits'] === true && isJsonObject(question)) return open.waits(sent, question);
  // The number is the program's own; an answer to a forged one is ignored.
  answer(isJsonObject(received) ? { ...received, n } : { n, code: 'INTERNAL' });
}
