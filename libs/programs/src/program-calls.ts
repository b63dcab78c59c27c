import { AsyncResource } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import {
  CATALOGUE,
  isJsonObject,
  ToolError,
  toMicroUsd,
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
import { MAX_ID_LENGTH } from '@toolfleet/contracts/text';
import { type RegisteredTool, summaryOf, TOOL_DETAILS } from '@toolfleet/contracts/tool-definition';
import { newCallId, type ApprovalPort, type Call, type ResultShelf } from '@toolfleet/engine';
import { Semaphore, type Clock } from '@toolfleet/resilience';
import { PlanCheck, type EffectMeeting } from './effect-plan.js';
import { ProgramWaits } from './program-waits.js';
import { toolSignature, toolStubs } from './tool-signature.js';

const MIB = 1024 * 1024;

/** Limits of a program; its call can lower the first two. */
export const PROGRAM_LIMITS = {
  /** Calls of tools, and at the same time. */
  calls: 50,
  parallel: 8,
  /** Time of a run without a named time. */
  runSeconds: 60,
  /** Highest `max_calls` that a call may ask for. */
  mostCalls: 500,
  /** Questions, searches and descriptions included. */
  questions: 2_000,
  /** Bytes of all answers. */
  answerBytes: 16 * MIB,
  /** Bytes of one question with its envelope, of those without an answer and of all. The sandbox allows less. */
  questionBytes: MIB + 64 * 1024,
  openBytes: 16 * MIB,
  allQuestionBytes: 72 * MIB,
  /** Characters of the name of a tool, and of a search. */
  nameLength: MAX_ID_LENGTH,
  queryLength: 4_000,
} as const;

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

/**
 * A call that a program made, as the result of the program lists it: with the `code` of a failure, and `fallback` (`stale_cache`,
 * `stub_data`) for a substitute.
 */
interface ProgramCall extends JsonObject {
  n: number;
  tool: string;
  ok: boolean;
  ms: number;
  cost_usd: number;
  key: string;
}

/**
 * A numbered question of a program and its answer, repeated for a repeated question. The question itself may have a
 * megabyte and is not kept.
 */
interface ProgramAsk {
  path: QuestionPath;
  answer: Promise<JsonObject>;
  /** Present once it is known. */
  known?: JsonObject;
}

/** A call that a program asks for. */
interface AskedCall {
  tool: string;
  args: JsonObject;
  select?: string;
}

/** Calls with substitutes that the text of a program's result names; `metadata.calls` has all. */
const MAX_NOTES = 10;
/** Characters of a call in the details of an error. */
const MAX_PATH = 200;

/**
 * Answers the questions of one running program. Each call passes through the engine like a call from outside, with the rights
 * of the caller narrowed to the program's tools, and has the idempotency key `<call_id>#<n>`: when the program runs again, on
 * another worker or for another gateway, the calls that it had finished are answered and not made again.
 */
export class ProgramCalls {
  private readonly asked = new Map<number, ProgramAsk>();
  private readonly made: ProgramCall[] = [];
  /** Calls that have not ended: number and tool. */
  private readonly running = new Map<number, string>();
  private readonly parallel = new Semaphore(PROGRAM_LIMITS.parallel);
  private readonly stop = new AbortController();
  private readonly maxCalls: number;
  private readonly maxMicroUsd: MicroUsd;
  private readonly inTrace: <T>(work: () => T) => T;
  private answerBytes = 0;
  private questionBytes = 0;
  private openBytes = 0;
  /** Cost of the calls that have ended, and the highest cost of running ones. */
  private microUsd: MicroUsd = 0;
  private heldMicroUsd: MicroUsd = 0;
  /** Highest cost of a call so far, by tool. */
  private readonly highestMicroUsd = new Map<string, MicroUsd>();
  private otherPath: JsonObject | undefined;
  private outsidePlan: ToolError | undefined;
  /** The calls that people decide on. */
  readonly waits: ProgramWaits;
  private isRepeated = false;
  /** Which calls returned substitutes, and why. */
  private readonly substitutes: string[] = [];

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

    const { max_calls: calls, max_cost_usd: usd } = call.arguments;
    this.maxCalls = typeof calls === 'number' ? Math.min(calls, PROGRAM_LIMITS.mostCalls) : PROGRAM_LIMITS.calls;
    this.maxMicroUsd = typeof usd === 'number' ? Math.round(usd * 1_000_000) : Number.POSITIVE_INFINITY;
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
    const known = this.asked.get(n);
    if (known) {
      return known.path.digest === path.digest
        ? known.answer
        : Promise.resolve(this.divert(n, known.path.shown, path.shown));
    }
    const excess = this.excessOf(bytes);
    if (excess !== undefined) return Promise.resolve(refusal(n, limit(excess)));
    this.questionBytes += bytes;
    this.openBytes += bytes;
    const answer = this.inTrace(() => this.answerNew(n, question, path)).finally(() => (this.openBytes -= bytes));
    const asked: ProgramAsk = { path, answer };
    this.asked.set(n, asked);
    void answer.then((got) => {
      asked.known = got;
      this.plan?.settled(n);
    });
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
    const isWhole = this.asked.size === Math.max(0, ...this.asked.keys());
    if (isWhole || this.isRepeated)
      for (const refused of await this.waits.ask(() => this.answers())) this.refuse(refused);
    this.isRepeated = true;
    for (const [n, { known }] of this.asked) if (known?.waits === true) this.asked.delete(n);
  }

  /** A question with a known answer has it in every run. */
  private keepAnswer({ n, path, answer, made }: KeptAnswer): void {
    this.asked.set(n, { path, answer: Promise.resolve(answer), known: answer });
    this.counts(answer);
    this.plan?.settled(n);
    if (!made) return;
    this.made.push(made as ProgramCall);
    this.microUsd += toMicroUsd(Number(made.cost_usd));
  }

  private answers(): KeptAnswer[] {
    const made = new Map(this.made.map((call) => [call.n, call]));
    return [...this.asked].flatMap(([n, { path, known }]) =>
      known && known.waits !== true ? [{ n, path, answer: known, made: made.get(n) }] : [],
    );
  }

  private refuse({ n, path, tool, code, message, details }: RefusedCall): void {
    const made = { n, tool, ok: false, ms: 0, cost_usd: 0, key: this.keyOf(n), code };
    this.keepAnswer({ n, path, answer: refusal(n, new ToolError(code, { message, details })), made });
  }

  /** The limit that a new question exceeds. */
  private excessOf(bytes: number): string | undefined {
    const { questions, openBytes, allQuestionBytes } = PROGRAM_LIMITS;
    if (this.asked.size >= questions) return `A program may ask ${questions} questions`;
    if (this.openBytes + bytes > openBytes)
      return `The open questions of a program may have ${openBytes} bytes together`;
    if (this.questionBytes + bytes > allQuestionBytes)
      return `The questions of a program may have ${allQuestionBytes} bytes together`;
    return undefined;
  }

  /** Stops running calls, and adds the program's calls to the response of the sandbox. */
  end(response: ExecResponse): ExecResponse {
    this.stop.abort(new ToolError('CANCELLED', { message: 'The program has ended' }));
    // The engine knows how a call ends that is stopped now; its key tells.
    const cut = [...this.running].map(([n, tool]) => ({
      n,
      tool,
      ok: false,
      ms: 0,
      cost_usd: 0,
      key: this.keyOf(n),
      code: 'CANCELLED',
    }));
    const calls = [...this.made, ...cut].toSorted((a, b) => a.n - b.n);
    const metadata = { ...response.metadata, calls, calls_cost_usd: toUsd(this.microUsd) };
    if (this.outsidePlan)
      return { ...failedResponse(this.outsidePlan, this.outsidePlan.message), output: response.output, metadata };
    if (!this.otherPath) return { ...this.mark(response), metadata };
    const error = new ToolError('OUTCOME_UNKNOWN', {
      message: 'The program ran again after its worker was lost, and asked for another call than the first time',
      details: this.otherPath,
    });
    return { ...failedResponse(error, error.message), output: response.output, metadata };
  }

  /** Tells the reader of a program's result that it may rest on substitutes: their own marks stay inside the program. */
  private mark(response: ExecResponse): ExecResponse {
    if (this.substitutes.length === 0) return response;
    const note = `Calls of this program returned substitutes: ${this.substitutes.join('; ')}`;
    const { text, content } = response;
    const marked = { ...response, text: `${note}\n${text}` };
    return content?.length ? { ...marked, content: [{ type: 'text', text: note }, ...content] } : marked;
  }

  private async answerNew(n: number, question: JsonObject, path: QuestionPath): Promise<JsonObject> {
    const answer = await this.answerAny(n, question, path);
    if (answer.ok === true && question.op === 'call') return answer; // counted with its handle
    return this.counts(answer) ? answer : refusal(n, limit(`The answers of a program ${ANSWERS_HAVE}`));
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
        const limit = Math.max(1, Math.min(50, Number(question.limit) || 5));
        const found = await this.ports.search(principal, question.query, limit);
        return { n, ok: true, output: found.map((each) => showFound(each, question.detail ?? 'summary')) };
      }
      throw new ToolError('REQUEST_INVALID', { message: 'Unknown question' });
    } catch (error) {
      return refusal(n, toToolError(error));
    }
  }

  private readonly keyOf = (n: number): string => `${this.call.callId}#${n}`;

  private async callTool(n: number, asked: AskedCall, path: QuestionPath): Promise<JsonObject> {
    const { tool } = asked;
    const { call, ports } = this;
    this.running.set(n, tool);
    const from = ports.clock.monotonic();
    let cost: MicroUsd = 0;
    let held: MicroUsd = 0;
    let answer: JsonObject;
    let fallback: string | undefined;
    try {
      if (this.made.length + this.running.size > this.maxCalls)
        throw limit(`A program may make ${this.maxCalls} calls`);
      const principal = await ports.authenticate(this.token);
      if (this.outsidePlan) throw this.outsidePlan;
      held = await this.hold(principal, tool);
      this.stop.signal.throwIfAborted();
      const request = this.requestOf(n, asked, principal);
      const result = await call.active.makeCall(request);
      cost = result.usage.microUsd;
      if (result.replaced) fallback = this.note(n, tool, result.metadata);
      answer = await this.toAnswer(n, request, result);
    } catch (error) {
      const failure = this.orWait(n, path, toToolError(error));
      if (!failure) {
        this.running.delete(n);
        this.heldMicroUsd -= held;
        return { n, waits: true };
      }
      answer = this.toRefusal(n, path, failure);
    }
    this.running.delete(n);
    this.heldMicroUsd -= held;
    this.microUsd += cost;
    this.highestMicroUsd.set(tool, Math.max(cost, this.highestMicroUsd.get(tool) ?? 0));
    const ms = Math.round(ports.clock.monotonic() - from);
    const ok = answer.ok === true;
    const made: ProgramCall = { n, tool, ok, ms, cost_usd: toUsd(cost), key: this.keyOf(n) };
    if (!ok) made.code = answer.code as Json;
    else if (fallback !== undefined) made.fallback = fallback;
    this.made.push(made);
    call.request.onProgress?.({ message: `${tool} ${ok ? 'finished' : 'failed'}`, progress: this.made.length });
    return answer;
  }

  /** The request of a call: within the limits of the program, and with its answer known by a key of its own. */
  private requestOf(n: number, { tool, args, select }: AskedCall, principal: Principal): CallRequest {
    const { call, plan, waits } = this;
    const { context, client, limits, reuse, mode } = call.request;
    const remainingMs = call.deadline.remainingMs();
    const now = this.ports.clock.now();
    const fields = { idempotency_key: plan?.dry ? undefined : this.keyOf(n), cache: reuse.cache, select };
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

  /**
   * Holds the maximum cost of a call while it runs, so that calls at the same time cannot spend the same rest. A tool without a price
   * counts by its earlier cost in this program. @throws ToolError PROGRAM_LIMIT
   */
  private async hold(principal: Principal, name: string): Promise<MicroUsd> {
    if (this.maxMicroUsd === Number.POSITIVE_INFINITY) return 0;
    // The call itself reports why a tool cannot be found.
    const tool = await this.ports.describe(principal, name).catch(() => undefined);
    const { cost_per_use_micro_usd: price = 0, cost_cap_micro_usd: cap = 0 } = tool ?? {};
    const most = Math.max(price, cap, this.highestMicroUsd.get(name) ?? 0);
    const left = this.maxMicroUsd - this.microUsd - this.heldMicroUsd;
    if (most > left || left <= 0) throw limit(`The calls of this program may cost ${toUsd(this.maxMicroUsd)} USD`);
    this.heldMicroUsd += most;
    return most;
  }

  /** Notes a substitute for the end of the program; returns its kind. */
  private note(n: number, tool: string, { fallback, disclaimer }: JsonObject): string {
    if (this.substitutes.length < MAX_NOTES) this.substitutes.push(`${tool} (call ${n}): ${String(disclaimer)}`);
    return String(fallback);
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
    if (this.counts(answer)) return answer;
    const kept = await this.ports.shelf.keep(request, request.target.toolName, result);
    const advice = kept ? `; read parts of this one with tools.read_result(handle="${kept.handle}")` : '';
    const message = `The results of this program ${ANSWERS_HAVE}${advice}`;
    return refusal(n, new ToolError('RESULT_TOO_LARGE', { message, details: { handle: kept?.handle ?? null } }));
  }

  /** Counts an answer that is kept for repeated questions. False if it does not fit. */
  private counts(answer: JsonObject): boolean {
    const bytes = Buffer.byteLength(JSON.stringify(answer));
    if (this.answerBytes + bytes > PROGRAM_LIMITS.answerBytes) return false;
    this.answerBytes += bytes;
    return true;
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

const limit = (message: string): ToolError => new ToolError('PROGRAM_LIMIT', { message });

const ANSWERS_HAVE = `have more than ${PROGRAM_LIMITS.answerBytes} bytes together`;

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
