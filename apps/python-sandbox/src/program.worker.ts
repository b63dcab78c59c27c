import { Injectable } from '@nestjs/common';
import { CATALOGUE, isJsonObject } from '@toolfleet/contracts';
import type { ExecJob, ExecResponse } from '@toolfleet/contracts/execution';
import { BODY_EXCESS, bodyExcess } from '@toolfleet/contracts/json-text';
import type { JobRun } from '@toolfleet/queue';
import { Clock } from '@toolfleet/resilience';
import { endOfRun, toExecResponse } from './exec-response.js';
import { planProgram, RunLimits } from './run-arguments.js';
import { Sandbox } from './sandbox.js';

/** Subtracted from the call's deadline, so that the response arrives in time. */
const REPLY_RESERVE_MS = 100;

/**
 * Handles the jobs of the queue `program-runs`. The calls that a program makes go as questions to the gateway that waits for
 * the job; this process passes them on and has no rights of its own. A job that is delivered twice runs again from the start.
 */
@Injectable()
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
    const reply = await this.sandbox.run(
      { ...request, program: { ...program, wallMs } },
      { onAsk: (line, answer) => void passOn(run, line, answer) },
      run.signal,
    );
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
async function passOn(run: JobRun<ExecJob>, line: string, answer: (line: string) => void): Promise<void> {
  const excess = bodyExcess(Buffer.from(line));
  if (excess) {
    const n = Number(NUMBER.exec(line)?.[1] ?? 0);
    const code = 'ARGUMENTS_INVALID';
    return answer(
      JSON.stringify({ n, code, message: BODY_EXCESS[excess], retryable: false, hint: CATALOGUE[code].hint }),
    );
  }
  let question: unknown = null;
  try {
    question = JSON.parse(line);
  } catch {
    // A program can write to the device what it likes.
  }
  const n = isJsonObject(question) ? question['n'] : 0;
  const received = await run.ask(question);
  // The number is the program's own; an answer to a forged one is ignored.
  answer(JSON.stringify(isJsonObject(received) ? { ...received, n } : { n, code: 'INTERNAL' }));
}
