import {
  isToolError,
  ToolError,
  toToolError,
  type Approval,
  type EpochMs,
  type JsonObject,
  type KeptAnswer,
  type Milliseconds,
  type ProgramState,
  type QuestionPath,
  type RefusedCall,
  type RequiredApproval,
  type WaitingCall,
} from '@toolfleet/contracts';
import type { ApprovalPort, Call, ProgramQuestion } from '@toolfleet/engine';
import { canonicalJson, sha256Hex } from '@toolfleet/bounded-schema';
import type { Clock } from '@toolfleet/resilience';
import { showEffect, showPlan, type PlanCheck } from './effect-plan.js';

const MINUTE_MS: Milliseconds = 60_000;
/** The journal answers the calls of a program for 24 h; a run of it takes less than ten minutes. */
const REPLAYED_MS: Milliseconds = 24 * 60 * MINUTE_MS - 10 * MINUTE_MS;
/** Time between the last decision and the last start of the program. */
const START_MS: Milliseconds = 5 * MINUTE_MS;
/** So long a program waits for the store of approvals, and pauses between attempts: a restart takes seconds, a refusal costs its work. */
const STORE_AWAY_MS: Milliseconds = 15_000;
const STORE_PAUSE_MS: Milliseconds = 500;
/** Bytes of the answers that a program takes with it while it waits. Effects and keyed calls are also in the journal. */
const KEPT_BYTES = 512 * 1024;

interface WaitsDeps {
  call: Call;
  /** Absent: none can be asked. */
  approvals: Pick<ApprovalPort, 'askForProgram'> | undefined;
  clock: Clock;
  plan: PlanCheck | undefined;
}

/** The calls of one program that wait for people, and approved ones. */
export class ProgramWaits {
  readonly #waiting = new Map<number, WaitingCall>();
  readonly #given: Map<number, Approval>;
  readonly #startedAt: EpochMs;
  /** Why no more people are asked in this run. */
  #refusal: ToolError | undefined;

  constructor(
    private readonly deps: WaitsDeps,
    private readonly state: ProgramState | undefined,
  ) {
    const { mode } = deps.call.request;
    this.#given = new Map(state?.given);
    this.#startedAt = state?.startedAt ?? (mode.kind === 'resume' ? mode.acceptedAt : deps.clock.now());
  }

  /** When the clock of the program starts. */
  get startedAt(): EpochMs {
    return this.#startedAt;
  }

  /** Whether the caller of the program lets it wait whatever the rules say. */
  get isAllowed(): boolean {
    const { mode, approval } = this.deps.call.request;
    return mode.kind === 'resume' || approval?.parks === true;
  }

  /** Approvals of a call. */
  given(n: number): Approval | undefined {
    return this.#given.get(n);
  }

  /** @throws ToolError APPROVAL_EXPIRED when the journal may have forgotten the calls of the first run */
  checkAge(): void {
    if (this.state && this.deps.clock.now() > this.#startedAt + REPLAYED_MS) throw tooOld();
  }

  /** Notes a call that waits. @throws ToolError why none are asked */
  take(n: number, { call, questions, rule, revision, fingerprint }: RequiredApproval, path: QuestionPath): void {
    if (this.#refusal) throw this.#refusal;
    this.#waiting.set(n, { ...call!, n, path, questions, rule, revision, fingerprint });
  }

  /**
   * Asks people about all calls that wait, in one question. Afterwards none waits: they are approved, or refused.
   * @returns the calls that are refused
   * @throws ToolError APPROVAL_REQUIRED when the question is stored: the program waits, and nothing of it stays here
   */
  async ask(answers: () => readonly KeptAnswer[]): Promise<RefusedCall[]> {
    const waits = [...this.#waiting.values()].toSorted((one, other) => one.n! - other.n!);
    this.#waiting.clear();
    if (waits.length === 0) return [];
    try {
      const id = await this.#decided(
        waits,
        { calls: waits.map((wait) => ({ n: wait.n!, ...showEffect(wait) })) },
        answers,
      );
      for (const wait of waits) this.#given.set(wait.n!, approvalOf(wait, id));
      return [];
    } catch (error) {
      const refusal = toToolError(error);
      if (refusal.facts?.approval?.by === 'fleet') throw refusal;
      if (refusal.code === 'SERVICE_UNAVAILABLE') this.#refusal = refusal;
      const { code, message, details } = refusal;
      return waits.map(({ n, path, tool }) => ({ n: n!, path: path!, tool, code, message, details }));
    }
  }

  /**
   * Asks people about the whole plan, where it has effects that need an approval.
   * @throws ToolError APPROVAL_REQUIRED when the program waits, or cannot; as `ApprovalPort.askForProgram`
   */
  async askForPlan(plan: PlanCheck): Promise<void> {
    const open = plan.open;
    if (open.length === 0) return;
    const waits = open.map(({ at, effect }) => ({ ...effect, at }));
    if (!this.isAllowed && !open.every(({ effect }) => effect.rule?.parks === true))
      throw new ToolError('APPROVAL_REQUIRED', {
        message: `People have to approve ${open.length} effects of this plan first. Send it with mode async or Prefer: respond-async, and it waits for them`,
        details: { plan: showPlan(plan.state) },
      });
    const { digest: _digest, ...shown } = showPlan(plan.state);
    const id = await this.#decided(waits, { plan: plan.state.digest, ...shown }, () => []);
    for (const wait of waits) plan.give(wait.at, approvalOf(wait, id));
  }

  async #decided(
    waits: readonly WaitingCall[],
    shown: JsonObject,
    answers: () => readonly KeptAnswer[],
  ): Promise<string> {
    const { call, approvals, clock, plan } = this.deps;
    const until = this.#startedAt + REPLAYED_MS - START_MS;
    if (!approvals) throw new ToolError('APPROVAL_REQUIRED');
    if (until <= clock.now()) throw tooOld();
    const asked = waits.map(({ n, at, fingerprint, revision, questions }) => [
      n ?? null,
      at ?? null,
      fingerprint ?? null,
      revision,
      [...questions],
    ]);
    const state: ProgramState = {
      startedAt: this.#startedAt,
      approval: '', // as it is stored
      kept: kept(answers(), call.request.mode.kind === 'resume'),
      given: [...this.#given],
      waits,
      refused: [],
      plan: plan?.state,
    };
    const question: ProgramQuestion = {
      call,
      shown,
      questions: [...new Set(waits.flatMap(({ tool, questions }) => questions.map((one) => `${tool}: ${one}`)))],
      state,
      digest: sha256Hex(canonicalJson(['program', call.callId, plan?.state.digest ?? null, asked])),
      until,
    };
    const giveUpAt = clock.monotonic() + Math.min(STORE_AWAY_MS, call.deadline.remainingMs());
    for (;;) {
      try {
        return (await approvals.askForProgram(question)).id;
      } catch (error) {
        // The same question is found again if it was stored.
        const isAway = isToolError(error) && error.code === 'SERVICE_UNAVAILABLE';
        if (!isAway || clock.monotonic() + STORE_PAUSE_MS >= giveUpAt) throw error;
        await clock.sleep(STORE_PAUSE_MS, call.signal);
      }
    }
  }
}

const approvalOf = ({ questions, revision, fingerprint }: WaitingCall, id: string): Approval => ({
  questions,
  revision,
  fingerprint,
  id,
});

/**
 * The kept answers: first the ones that a second run might not get again, then as many results as fit.
 * @param isKeyed the journal has the results of all calls
 * @throws ToolError PROGRAM_LIMIT when the former are too large
 */
function kept(answers: readonly KeptAnswer[], isKeyed: boolean): KeptAnswer[] {
  let bytes = 0;
  const found: KeptAnswer[] = [];
  const isReplayed = ({ answer, made }: KeptAnswer): boolean => isKeyed && answer.ok === true && made !== undefined;
  for (const one of [...answers].toSorted((a, b) => Number(isReplayed(a)) - Number(isReplayed(b)))) {
    const size = Buffer.byteLength(JSON.stringify(one));
    if (bytes + size <= KEPT_BYTES) {
      found.push(one);
      bytes += size;
    } else if (!isReplayed(one))
      throw new ToolError('PROGRAM_LIMIT', {
        message: `A program that waits for people takes at most ${KEPT_BYTES} bytes of answers with it; send it with mode async, ask people earlier, or select parts of results`,
      });
  }
  return found.toSorted((a, b) => a.n - b.n);
}

const tooOld = (): ToolError =>
  new ToolError('APPROVAL_EXPIRED', {
    message:
      'A program can wait for people for less than a day in all: after that its earlier calls are not known any more',
  });
