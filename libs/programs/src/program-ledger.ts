import {
  ToolError,
  toMicroUsd,
  toUsd,
  type JsonObject,
  type KeptAnswer,
  type MicroUsd,
  type QuestionPath,
} from '@toolfleet/contracts';
import type { ExecResponse } from '@toolfleet/contracts/execution';
import { MAX_ID_LENGTH } from '@toolfleet/contracts/text';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { Call } from '@toolfleet/engine';

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

/** What is wrong with more answers than `answerBytes`, as the rest of a sentence. */
export const ANSWERS_HAVE = `have more than ${PROGRAM_LIMITS.answerBytes} bytes together`;

/** The error of a program that exceeds one of its limits. */
export const limit = (message: string): ToolError => new ToolError('PROGRAM_LIMIT', { message });

/**
 * A call that a program made, as the result of the program lists it: with the `code` of a failure, and `fallback` (`stale_cache`,
 * `stub_data`) for a substitute.
 */
export interface ProgramCall extends JsonObject {
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

/** Calls with substitutes that the text of a program's result names; `metadata.calls` has all. */
const MAX_NOTES = 10;

/** What one program has asked, called and spent, and the limits of each. */
export class ProgramLedger {
  readonly #asked = new Map<number, ProgramAsk>();
  readonly #made: ProgramCall[] = [];
  /** Calls that have not ended: number and tool. */
  readonly #running = new Map<number, string>();
  readonly #maxCalls: number;
  readonly #maxMicroUsd: MicroUsd;
  #answerBytes = 0;
  #questionBytes = 0;
  #openBytes = 0;
  /** Cost of the calls that have ended, and the highest cost of running ones. */
  #microUsd: MicroUsd = 0;
  #heldMicroUsd: MicroUsd = 0;
  /** Highest cost of a call so far, by tool. */
  readonly #highestMicroUsd = new Map<string, MicroUsd>();
  /** Which calls returned substitutes, and why. */
  readonly #substitutes: string[] = [];

  constructor(private readonly call: Call) {
    const { max_calls: calls, max_cost_usd: usd } = call.arguments;
    this.#maxCalls = typeof calls === 'number' ? Math.min(calls, PROGRAM_LIMITS.mostCalls) : PROGRAM_LIMITS.calls;
    this.#maxMicroUsd = typeof usd === 'number' ? Math.round(usd * 1_000_000) : Number.POSITIVE_INFINITY;
  }

  /** The idempotency key of a call of the program. */
  readonly keyOf = (n: number): string => `${this.call.callId}#${n}`;

  find(n: number): ProgramAsk | undefined {
    return this.#asked.get(n);
  }

  /** The limit that a new question exceeds. */
  excessOf(bytes: number): string | undefined {
    const { questions, openBytes, allQuestionBytes } = PROGRAM_LIMITS;
    if (this.#asked.size >= questions) return `A program may ask ${questions} questions`;
    if (this.#openBytes + bytes > openBytes)
      return `The open questions of a program may have ${openBytes} bytes together`;
    if (this.#questionBytes + bytes > allQuestionBytes)
      return `The questions of a program may have ${allQuestionBytes} bytes together`;
    return undefined;
  }

  /** Notes a new question of so many bytes until it is answered. */
  ask(n: number, bytes: number, path: QuestionPath, work: () => Promise<JsonObject>): Promise<JsonObject> {
    this.#questionBytes += bytes;
    this.#openBytes += bytes;
    const answer = work().finally(() => (this.#openBytes -= bytes));
    const asked: ProgramAsk = { path, answer };
    this.#asked.set(n, asked);
    void answer.then((got) => (asked.known = got));
    return answer;
  }

  /** Whether all questions up to the last one are known. */
  get isWhole(): boolean {
    return this.#asked.size === Math.max(0, ...this.#asked.keys());
  }

  /** Forgets the questions of calls that wait for people: they are asked again. */
  forgetWaiting(): void {
    for (const [n, { known }] of this.#asked) if (known?.waits === true) this.#asked.delete(n);
  }

  /** A question with a known answer has it in every run. */
  keepAnswer({ n, path, answer, made }: KeptAnswer): void {
    this.#asked.set(n, { path, answer: Promise.resolve(answer), known: answer });
    this.counts(answer);
    if (!made) return;
    this.#made.push(made as ProgramCall);
    this.#microUsd += toMicroUsd(Number(made.cost_usd));
  }

  /** The known answers that the program takes with it while it waits for people. */
  answers(): KeptAnswer[] {
    const made = new Map(this.#made.map((call) => [call.n, call]));
    return [...this.#asked].flatMap(([n, { path, known }]) =>
      known && known.waits !== true ? [{ n, path, answer: known, made: made.get(n) }] : [],
    );
  }

  /** Counts an answer that is kept for repeated questions. False if it does not fit. */
  counts(answer: JsonObject): boolean {
    const bytes = Buffer.byteLength(JSON.stringify(answer));
    if (this.#answerBytes + bytes > PROGRAM_LIMITS.answerBytes) return false;
    this.#answerBytes += bytes;
    return true;
  }

  /** Notes a call that runs. @throws ToolError PROGRAM_LIMIT for one too many, which is listed as well */
  begin(n: number, tool: string): void {
    this.#running.set(n, tool);
    if (this.#made.length + this.#running.size > this.#maxCalls)
      throw limit(`A program may make ${this.#maxCalls} calls`);
  }

  /** Whether the program may spend only so much. */
  get hasBudget(): boolean {
    return this.#maxMicroUsd < Number.POSITIVE_INFINITY;
  }

  /**
   * Holds the maximum cost of a call while it runs, so that calls at the same time cannot spend the same rest. A tool without a price
   * counts by its earlier cost in this program.
   * @returns what is held
   * @throws ToolError PROGRAM_LIMIT
   */
  hold(name: string, tool: Partial<RegisteredTool>): MicroUsd {
    const { cost_per_use_micro_usd: price = 0, cost_cap_micro_usd: cap = 0 } = tool;
    const most = Math.max(price, cap, this.#highestMicroUsd.get(name) ?? 0);
    const left = this.#maxMicroUsd - this.#microUsd - this.#heldMicroUsd;
    if (most > left || left <= 0) throw limit(`The calls of this program may cost ${toUsd(this.#maxMicroUsd)} USD`);
    this.#heldMicroUsd += most;
    return most;
  }

  /** A call does not run any more, and nothing is held for it. */
  release(n: number, held: MicroUsd): void {
    this.#running.delete(n);
    this.#heldMicroUsd -= held;
  }

  /** Lists a call that has ended, with its cost. @returns how many have */
  list(made: ProgramCall, cost: MicroUsd): number {
    this.#microUsd += cost;
    this.#highestMicroUsd.set(made.tool, Math.max(cost, this.#highestMicroUsd.get(made.tool) ?? 0));
    return this.#made.push(made);
  }

  /** Notes a substitute for the end of the program; returns its kind. */
  note(n: number, tool: string, { fallback, disclaimer }: JsonObject): string {
    if (this.#substitutes.length < MAX_NOTES) this.#substitutes.push(`${tool} (call ${n}): ${String(disclaimer)}`);
    return String(fallback);
  }

  /** The calls of the program and their cost. The engine knows how a call ends that still runs; its key tells. */
  summary(): JsonObject {
    const cut = [...this.#running].map(([n, tool]): ProgramCall => {
      return { n, tool, ok: false, ms: 0, cost_usd: 0, key: this.keyOf(n), code: 'CANCELLED' };
    });
    const calls = [...this.#made, ...cut].toSorted((a, b) => a.n - b.n);
    return { calls, calls_cost_usd: toUsd(this.#microUsd) };
  }

  /** Tells the reader of a program's result that it may rest on substitutes: their own marks stay inside the program. */
  mark(response: ExecResponse): ExecResponse {
    if (this.#substitutes.length === 0) return response;
    const note = `Calls of this program returned substitutes: ${this.#substitutes.join('; ')}`;
    const { text, content } = response;
    const marked = { ...response, text: `${note}\n${text}` };
    return content?.length ? { ...marked, content: [{ type: 'text', text: note }, ...content] } : marked;
  }
}
