import { AsyncResource } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import {
  CATALOGUE,
  isJsonObject,
  ToolError,
  toToolError,
  toUsd,
  type CallRequest,
  type CallResult,
  type ExecutionFailure,
  type Json,
  type JsonObject,
  type KeptAnswer,
  type MicroUsd,
  type Principal,
  type ProgramState,
  type QuestionPath,
  type RefusedCall,
} from '@toolfleet/contracts';
import { callRequest, readCallFields } from '@toolfleet/contracts/call-fields';
import { failedResponse, toFailure, type ExecResponse } from '@toolfleet/contracts/execution';
import { type RegisteredTool, summaryOf, TOOL_DETAILS } from '@toolfleet/contracts/tool-definition';
import { newCallId, type ApprovalPort, type Call, type ResultShelf } from '@toolfleet/engine';
import { Semaphore, type Clock } from '@toolfleet/resilience';
import { PlanCheck, type EffectMeeting } from './effect-plan.js';
import { ANSWERS_HAVE, limit, PROGRAM_LIMITS, ProgramLedger, type ProgramCall } from './program-ledger.js';
import { ProgramWaits } from './program-waits.js';
import { toolSignature, toolStubs } from './tool-signature.js';

/** Dependencies of the calls of programs. */
export interface ProgramPorts {
  clock: Clock;
  /** Keeps a result that exceeds the limit of the program. */
  shelf: Pick<ResultShelf, 'keep'>;
  /** Asks people about calls; absent: none can be asked. */
  approvals?: Pick<ApprovalPort, 'askForProgram'> | undefined;
  /**
   * Checks the delegation of the run and counts a request of its key, for every question: a revoked key stops a running
   * program, and a program makes no more requests than its key may.
   */
  authenticate(delegationToken: string): Promise<Principal>;
  /** Tools that the program may call, best first for a task. */
  search(principal: Principal, query: string, limit: number): Promise<RegisteredTool[]>;
  /** @throws ToolError TOOL_NOT_FOUND and others */
  describe(principal: Principal, name: string): Promise<RegisteredTool>;
}

/** A call that a program asks for. */
interface AskedCall {
  tool: string;
  args: JsonObject;
  select?: string;
}

/** Characters of a call in the details of an error. */
const MAX_PATH = 200;

/**
 * Answers the questions of one running program. Each call passes through the engine like a call from outside, with the rights
 * of the caller narrowed to the program's tools, and has the idempotency key `<call_id>#<n>`: when the program runs again, on
 * another worker or for another gateway, the calls that it had finished are answered and not made again.
 */
export class ProgramCalls {
  private readonly ledger: ProgramLedger;
  private readonly parallel = new Semaphore(PROGRAM_LIMITS.parallel);
  private readonly stop = new AbortController();
  private readonly inTrace: <T>(work: () => T) => T;
  private otherPath: JsonObject | undefined;
  private outsidePlan: ToolError | undefined;
  /** The calls that people decide on. */
  readonly waits: ProgramWaits;
  private isRepeated = false;

  /**
   * @param token the delegation token of the run; it stays in this process
   * @param state kept while it waited for people
   * @param plan meets its effects; absent: it may have any
   */
  constructor(
    private readonly call: Call,
    private readonly token: string,
    private readonly ports: ProgramPorts,
    state?: ProgramState,
    private readonly plan?: EffectMeeting,
  ) {
    const check = plan instanceof PlanCheck ? plan : undefined;
    this.waits = new ProgramWaits({ call, approvals: ports.approvals, clock: ports.clock, plan: check }, state);

    this.ledger = new ProgramLedger(call);
    for (const one of state?.kept ?? []) this.keepAnswer(one);
    for (const one of state?.refused ?? []) this.refuse(one);
    const resource = new AsyncResource('ProgramCalls');
    this.inTrace = (work) => resource.runInAsyncScope(work);
  }

  /**
   * Answers a question: a call, a search or a description. Never rejects; `question` comes from the program and is untrusted.
   * @param bytes size of its message
   */
  answer(question: unknown, bytes: number): Promise<JsonObject> {
    if (!isJsonObject(question) || !Number.isSafeInteger(question.n) || Number(question.n) < 1) {
      return Promise.resolve(refusal(0, new ToolError('REQUEST_INVALID', { message: 'Malformed question' })));
    }
    const n = Number(question.n);
    if (bytes > PROGRAM_LIMITS.questionBytes) return Promise.resolve(refusal(n, limit('The question is too large')));
    const path = pathOf(question);
    const known = this.ledger.find(n);
    if (known) {
      return known.path.digest === path.digest
        ? known.answer
        : Promise.resolve(this.divert(n, known.path.shown, path.shown));
    }
    const excess = this.ledger.excessOf(bytes);
    if (excess !== undefined) return Promise.resolve(refusal(n, limit(excess)));
    const work = () => this.inTrace(() => this.answerNew(n, question, path));
    const answer = this.ledger.ask(n, bytes, path, work);
    void answer.then(() => this.plan?.settled(n));
    return answer;
  }

  /**
   * Asks people about the calls for which a program waits. Resolves when it is to run again, because their answers are known.
   * @param questions of these calls; another gateway may have answered them
   * @throws ToolError APPROVAL_REQUIRED when the question is stored and the program waits
   */
  async park(questions: readonly JsonObject[]): Promise<void> {
    for (const question of questions) await this.answer(question, Buffer.byteLength(JSON.stringify(question)));
    // The answers that another gateway gave are got again first, so that the program can take all with it.
    if (this.ledger.isWhole || this.isRepeated)
      for (const refused of await this.waits.ask(() => this.ledger.answers())) this.refuse(refused);
    this.isRepeated = true;
    this.ledger.forgetWaiting();
  }

  private keepAnswer(kept: KeptAnswer): void {
    this.ledger.keepAnswer(kept);
    this.plan?.settled(kept.n);
  }

  private refuse({ n, path, tool, code, message, details }: RefusedCall): void {
    const made = { n, tool, ok: false, ms: 0, cost_usd: 0, key: this.ledger.keyOf(n), code };
    this.keepAnswer({ n, path, answer: refusal(n, new ToolError(code, { message, details })), made });
  }

  /** Stops running calls, and adds the program's calls to the response of the sandbox. */
  end(response: ExecResponse): ExecResponse {
    this.stop.abort(new ToolError('CANCELLED', { message: 'The program has ended' }));
    const metadata = { ...response.metadata, ...this.ledger.summary() };
    if (this.outsidePlan)
      return { ...failedResponse(this.outsidePlan, this.outsidePlan.message), output: response.output, metadata };
    if (!this.otherPath) return { ...this.ledger.mark(response), metadata };
    const error = new ToolError('OUTCOME_UNKNOWN', {
      message: 'The program ran again after its worker was lost, and asked for another call than the first time',
      details: this.otherPath,
    });
    return { ...failedResponse(error, error.message), output: response.output, metadata };
  }

  private async answerNew(n: number, question: JsonObject, path: QuestionPath): Promise<JsonObject> {
    const answer = await this.answerAny(n, question, path);
    if (answer.ok === true && question.op === 'call') return answer; // counted with its handle
    return this.ledger.counts(answer) ? answer : refusal(n, limit(`The answers of a program ${ANSWERS_HAVE}`));
  }

  private async answerAny(n: number, question: JsonObject, path: QuestionPath): Promise<JsonObject> {
    try {
      const { op, tool } = question;
      requireLength('tool', tool, PROGRAM_LIMITS.nameLength);
      requireLength('query', question.query, PROGRAM_LIMITS.queryLength);
      if (op === 'call' && typeof tool === 'string' && isJsonObject(question.arguments)) {
        const { select } = readCallFields(
          question.select === undefined ? {} : { select: question.select },
          'batch-item',
        );
        const asked = { tool, args: question.arguments, select };
        const [answer] = await this.parallel.map([n], () => this.callTool(n, asked, path));
        return answer!;
      }
      const principal = await this.ports.authenticate(this.token);
      if (op === 'describe' && typeof tool === 'string') {
        return { n, ok: true, text: toolStubs([await this.ports.describe(principal, tool)]) };
      }
      if (op === 'search' && typeof question.query === 'string') {
        const most = Math.max(1, Math.min(50, Number(question.limit) || 5));
        const found = await this.ports.search(principal, question.query, most);
        return { n, ok: true, output: found.map((each) => showFound(each, question.detail ?? 'summary')) };
      }
      throw new ToolError('REQUEST_INVALID', { message: 'Unknown question' });
    } catch (error) {
      return refusal(n, toToolError(error));
    }
  }

  private async callTool(n: number, asked: AskedCall, path: QuestionPath): Promise<JsonObject> {
    const { tool } = asked;
    const { call, ports, ledger } = this;
    const from = ports.clock.monotonic();
    let cost: MicroUsd = 0;
    let held: MicroUsd = 0;
    let answer: JsonObject;
    let fallback: string | undefined;
    try {
      ledger.begin(n, tool);
      const principal = await ports.authenticate(this.token);
      if (this.outsidePlan) throw this.outsidePlan;
      held = await this.hold(principal, tool);
      this.stop.signal.throwIfAborted();
      const request = this.requestOf(n, asked, principal);
      const result = await call.active.makeCall(request);
      cost = result.usage.microUsd;
      if (result.replaced) fallback = ledger.note(n, tool, result.metadata);
      answer = await this.toAnswer(n, request, result);
    } catch (error) {
      const failure = this.orWait(n, path, toToolError(error));
      if (!failure) return { n, waits: true };
      answer = this.toRefusal(n, path, failure);
    } finally {
      ledger.release(n, held);
    }
    const ms = Math.round(ports.clock.monotonic() - from);
    const ok = answer.ok === true;
    const made: ProgramCall = { n, tool, ok, ms, cost_usd: toUsd(cost), key: ledger.keyOf(n) };
    if (!ok) made.code = answer.code as Json;
    else if (fallback !== undefined) made.fallback = fallback;
    const progress = ledger.list(made, cost);
    call.request.onProgress?.({ message: `${tool} ${ok ? 'finished' : 'failed'}`, progress });
    return answer;
  }

  /** The request of a call: within the limits of the program, and with its answer known by a key of its own. */
  private requestOf(n: number, { tool, args, select }: AskedCall, principal: Principal): CallRequest {
    const { call, plan, waits } = this;
    const { context, client, limits, reuse, mode } = call.request;
    const remainingMs = call.deadline.remainingMs();
    const now = this.ports.clock.now();
    const fields = { idempotency_key: plan?.dry ? undefined : this.ledger.keyOf(n), cache: reuse.cache, select };
    return callRequest(
      { id: newCallId(now), tool, arguments: args, fields },
      {
        principal,
        origin: principal.parentOrigin ?? 'public',
        entryPoint: 'program',
        context,
        client,
        signal: AbortSignal.any([call.signal, this.stop.signal]),
        approval: { asks: false, parks: waits.isAllowed, given: waits.given(n) },
        effects: plan && { dry: plan.dry, meet: (effect, isEffect) => plan.meet(n, effect, isEffect) },
      },
      { beginsAt: now, maxMs: Math.min(remainingMs, limits.deadlineAt - now) },
      {
        // No other gateway takes over a program that runs at once, and this one remembers its answers.
        keyForEffects: mode.kind !== 'resume',
        // A gateway that takes over waits for a call that the lost one had begun.
        idempotencyWaitMs: remainingMs,
      },
    );
  }

  /** Notes a call that waits for people; returns why any other one does not run. */
  private orWait(n: number, path: QuestionPath, failure: ToolError): ToolError | undefined {
    const required = failure.facts?.approval;
    if (required?.by !== 'program') return failure;
    try {
      this.waits.take(n, required, path);
      return undefined;
    } catch (refusal) {
      return toToolError(refusal);
    }
  }

  private toRefusal(n: number, path: QuestionPath, failure: ToolError): JsonObject {
    if (failure.code === 'IDEMPOTENCY_MISMATCH') return this.divert(n, 'another call', path.shown);
    if (failure.code !== 'OUTSIDE_PLAN') return refusal(n, failure);
    this.outsidePlan ??= failure;
    return { n, code: failure.code, other_path: true };
  }

  /** Holds the maximum cost of a call while it runs. @throws ToolError PROGRAM_LIMIT */
  private async hold(principal: Principal, name: string): Promise<MicroUsd> {
    if (!this.ledger.hasBudget) return 0;
    // The call itself reports why a tool cannot be found.
    return this.ledger.hold(name, await this.ports.describe(principal, name).catch(() => ({})));
  }

  private async toAnswer(n: number, request: CallRequest, result: CallResult): Promise<JsonObject> {
    const { callId } = request;
    const { ok, output, text, content, usage, failure, metadata } = result;
    if (!ok) {
      return { ...failed(n, failure ?? toFailure(new ToolError('TOOL_ERROR', { message: text }))), call_id: callId };
    }
    const answer: JsonObject = { n, ok, output, text, call_id: callId, cost_usd: toUsd(usage.microUsd) };
    if (content) answer.content = content;
    if (metadata.disclaimer !== undefined) answer.note = metadata.disclaimer;
    if (this.ledger.counts(answer)) return answer;
    const kept = await this.ports.shelf.keep(request, request.target.toolName, result);
    const advice = kept ? `; read parts of this one with tools.read_result(handle="${kept.handle}")` : '';
    const message = `The results of this program ${ANSWERS_HAVE}${advice}`;
    return refusal(n, new ToolError('RESULT_TOO_LARGE', { message, details: { handle: kept?.handle ?? null } }));
  }

  private divert(n: number, expected: string, got: string): JsonObject {
    this.otherPath ??= { n, expected, got };
    return { n, code: 'OUTCOME_UNKNOWN', other_path: true };
  }
}

/** A found tool, with its signature above the level of names. @throws ToolError ARGUMENTS_INVALID for an unknown level */
function showFound(tool: RegisteredTool, wanted: Json): Json {
  const detail = TOOL_DETAILS.find((known) => known === wanted);
  if (detail === undefined) {
    const message = `detail must be one of ${TOOL_DETAILS.join(', ')}, not ${JSON.stringify(wanted).slice(0, 100)}`;
    throw new ToolError('ARGUMENTS_INVALID', { message });
  }
  if (detail === 'names') return tool.name;
  const { name, description, input_schema, output_schema } = tool;
  const signature = toolSignature(tool);
  if (detail === 'full') return { name, description, signature, input_schema, output_schema: output_schema ?? null };
  return { name, description: summaryOf(tool), signature };
}

/** @throws ToolError REQUEST_INVALID */
function requireLength(field: string, value: Json | undefined, max: number): void {
  if (typeof value !== 'string' || value.length <= max) return;
  throw new ToolError('REQUEST_INVALID', { message: `${field} must have at most ${max} characters` });
}

function pathOf({ op, tool, query, arguments: args, limit: most, detail, select }: JsonObject): QuestionPath {
  const path = JSON.stringify([
    op ?? null,
    tool ?? query ?? null,
    args ?? (query === undefined ? null : [most ?? null, detail ?? null]),
    ...(select === undefined ? [] : [select]),
  ]);
  return { digest: createHash('sha256').update(path).digest('base64'), shown: shorten(path) };
}

/** V8 keeps the whole text of a slice alive, so the beginning is copied. */
const shorten = (path: string): string =>
  path.length <= MAX_PATH ? path : `${Buffer.from(path.slice(0, MAX_PATH)).toString()}… (${path.length} characters)`;

const refusal = (n: number, error: ToolError): JsonObject => failed(n, toFailure(error));

/** The answer to a call that was refused or failed. */
function failed(n: number, { code, message, retryable, details, retryAfterMs }: ExecutionFailure): JsonObject {
  return {
    n,
    code,
    message,
    retryable,
    hint: CATALOGUE[code].hint,
    details: details ?? null,
    retry_after_ms: retryAfterMs ?? null,
  };
}
