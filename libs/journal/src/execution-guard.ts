import { isToolError, ToolError, type Milliseconds } from '@toolfleet/contracts';
import {
  failedResponse,
  leavesOutcomeOpen,
  toCallResult,
  type ExecMessage,
  type ExecResponse,
} from '@toolfleet/contracts/execution';
import type { Clock } from '@toolfleet/resilience';
import type { Journal, JournalEntry } from './journal.js';

/** The work of an executor. It must call `begin` right before its effect, and have no effect when `begin` rejects. */
export type GuardedWork = (begin: () => Promise<void>) => Promise<ExecResponse>;

/** Ensures that of all executors that get a journalled call only one begins its effect. Injected by type. */
export abstract class ExecutionGuard {
  /**
   * Runs the work of one attempt. `begin` claims a journalled call, once for any number of calls of `begin`, and does nothing for
   * other calls. A refused claim is thrown even when the work turns it into a response, because it is not an outcome of the tool.
   * The response of claimed work is held for the journal in case the gateway cannot store it.
   * @throws ToolError EXECUTOR_UNAVAILABLE when another attempt holds the claim, the fence is old or the journal is unavailable;
   *   SERVICE_UNAVAILABLE when the journal hangs; and whatever the work throws
   */
  async run(message: ExecMessage, work: GuardedWork): Promise<ExecResponse> {
    if (!message.journalled) return work(() => Promise.resolve());
    let claiming: Promise<void> | undefined;
    let claimed = false;
    let refusal: { error: unknown } | undefined;
    const begin = () =>
      (claiming ??= this.claim(message).then(
        () => {
          claimed = true;
        },
        (error: unknown) => {
          refusal = { error };
          throw error;
        },
      ));
    try {
      const response = await work(begin);
      if (refusal) throw refusal.error;
      if (claimed) this.hold(message, response);
      return response;
    } catch (error) {
      if (claimed && isToolError(error)) this.hold(message, failedResponse(error));
      throw error;
    }
  }

  /** Stores the held responses in the journal. */
  async drain(): Promise<void> {}

  protected abstract claim(message: ExecMessage): Promise<void>;

  protected hold(_message: ExecMessage, _response: ExecResponse): void {}
}

/** A claim that fails later than this was not refused by a connection that is down: the store hangs. */
const HUNG_MS: Milliseconds = 1_000;

/** Claims calls in the journal. While the journal is unavailable nothing runs, because nothing may run without a record. */
export class JournalGuard extends ExecutionGuard {
  readonly #outcomes: LateOutcomes;

  constructor(
    private readonly journal: Pick<Journal, 'claim' | 'finish' | 'unfinished'>,
    private readonly clock: Clock,
  ) {
    super();
    this.#outcomes = new LateOutcomes(journal, clock);
  }

  override drain(): Promise<void> {
    return this.#outcomes.drain();
  }

  protected override async claim(message: ExecMessage): Promise<void> {
    let claimed: boolean;
    const from = this.clock.monotonic();
    try {
      claimed = await this.journal.claim(message.call_id, message.fence, message.attempt, toEntry(message));
    } catch (cause) {
      if (this.clock.monotonic() - from < HUNG_MS)
        throw notStarted(message, 'The call journal is unavailable', 'journal_away', cause);
      // Another executor would wait as long for the same store.
      const facts = { begun: 'no' } as const;
      throw new ToolError('SERVICE_UNAVAILABLE', {
        message: 'The call journal does not answer; nothing was run',
        facts,
        cause,
      });
    }
    if (claimed) return;
    // Not `begun: 'no'`: the attempt that has the claim may have begun.
    const details = { tool: message.tool, reason: 'claim_refused' };
    throw new ToolError('EXECUTOR_UNAVAILABLE', { message: 'Another attempt of this call has the claim', details });
  }

  protected override hold(message: ExecMessage, response: ExecResponse): void {
    this.#outcomes.hold(message, response);
  }
}

function toEntry({ context, tool, entry }: ExecMessage): JournalEntry | undefined {
  if (!entry) return undefined;
  const { user_id: userId, maker, remaining_ms: remainingMs, deadline_at: deadlineAt } = entry;
  return { tenantId: context.tenant_id, userId, maker, tool, remainingMs, deadlineAt };
}

/**
 * For executors without a journal. Idempotent tools may run: the gateway replays their keyed calls from its own record. Tools that
 * must not run twice do not run at all.
 */
export class IdempotentOnlyGuard extends ExecutionGuard {
  /** @param isRepeatable whether the tool of a message is declared idempotent; by default none is */
  constructor(private readonly isRepeatable: (message: ExecMessage) => boolean = () => false) {
    super();
  }

  protected override claim(message: ExecMessage): Promise<void> {
    if (this.isRepeatable(message)) return Promise.resolve();
    return Promise.reject(notStarted(message, 'This executor has no call journal (REDIS_URL)', 'no_journal'));
  }
}

function notStarted(message: ExecMessage, text: string, reason: string, cause?: unknown): ToolError {
  const details = { tool: message.tool, reason };
  return new ToolError('EXECUTOR_UNAVAILABLE', { message: text, details, facts: { begun: 'no' }, cause });
}

/** By then a live gateway has stored the outcome: it waits at most 2 s for the journal. */
export const LATE_MS: Milliseconds = 2_500;
/** While the journal is unavailable, pause between attempts to store an outcome, and their longest duration. */
export const STORE_AGAIN = { everyMs: 1_000, withinMs: 60_000 };
/** Responses that are held; beyond that the older half is looked at early, to bound the memory. */
const MAX_HELD = 1_000;
/** Responses are looked at together, at most this long after they are due. */
const TOGETHER_MS: Milliseconds = 250;

type Claim = Pick<ExecMessage, 'call_id' | 'fence'>;

interface HeldResponse {
  /** Monotonic ms, like `until`. */
  readonly dueAt: Milliseconds;
  /** It is given up after this time. */
  readonly until: Milliseconds;
  readonly claim: Claim;
  readonly response: ExecResponse;
}

/**
 * Stores outcomes that the gateway could not. Normally the gateway stores the outcome of a call, with its additions. In case it
 * died or stopped waiting, the executor looks a little later which of its calls have no outcome yet, or an unknown one, and stores
 * its own responses of those under its own fence. While the journal is unavailable it tries again: an outage of the store may be what kept
 * the gateway from storing them, and what takes the call up again waits for its outcome.
 */
class LateOutcomes {
  readonly #held: HeldResponse[] = [];
  readonly #storing = new Set<Promise<unknown>>();
  #timerSet = false;
  #drained = false;

  constructor(
    private readonly journal: Pick<Journal, 'finish' | 'unfinished'>,
    private readonly clock: Clock,
  ) {}

  /** Holds the response of a claimed call, unless it leaves the outcome open. */
  hold(claim: Claim, response: ExecResponse): void {
    // A call that waits for input has no outcome.
    if (response.failure && (leavesOutcomeOpen(response.failure) || response.failure.facts?.input)) return;
    const dueAt = this.clock.monotonic() + LATE_MS;
    this.#held.push({ dueAt, until: dueAt + STORE_AGAIN.withinMs, claim, response });
    if (this.#held.length > MAX_HELD) this.#settle(this.#held.splice(0, MAX_HELD / 2));
    this.#setTimer();
  }

  /** Stores everything that is held; call it before the connection of the journal closes. */
  async drain(): Promise<void> {
    this.#drained = true;
    this.#settle(this.#held.splice(0));
    await Promise.all(this.#storing);
  }

  #setTimer(earliestMs: Milliseconds = 0): void {
    const [first] = this.#held;
    if (this.#timerSet || !first) return;
    this.#timerSet = true;
    this.clock.after(Math.max(earliestMs, first.dueAt - this.clock.monotonic()), () => {
      this.#timerSet = false;
      const now = this.clock.monotonic();
      const next = this.#held.findIndex(({ dueAt }) => dueAt > now);
      this.#settle(this.#held.splice(0, next < 0 ? this.#held.length : next));
      this.#setTimer(TOGETHER_MS);
    });
  }

  #settle(held: readonly HeldResponse[]): void {
    if (held.length === 0) return;
    const storing = this.#storeMissing(held)
      .then((failed) => this.#holdAgain(failed))
      .finally(() => this.#storing.delete(storing));
    this.#storing.add(storing);
  }

  /** @returns those that the journal could not take */
  async #storeMissing(held: readonly HeldResponse[]): Promise<readonly HeldResponse[]> {
    let missing: ReadonlySet<string>;
    try {
      missing = await this.journal.unfinished(held.map(({ claim }) => claim.call_id));
    } catch {
      return held;
    }
    const kept = held.filter(({ claim }) => missing.has(claim.call_id));
    const finished = await Promise.allSettled(
      kept.map(({ claim, response }) =>
        this.journal.finish(claim.call_id, claim.fence, toCallResult(response, response.execute_ms ?? 0)),
      ),
    );
    return kept.filter((_, index) => finished[index]?.status === 'rejected');
  }

  /** Without these copies the outcomes stay unknown. */
  #holdAgain(failed: readonly HeldResponse[]): void {
    if (this.#drained || failed.length === 0) return;
    const dueAt = this.clock.monotonic() + STORE_AGAIN.everyMs;
    const again = failed.filter(({ until }) => dueAt <= until).map((held) => ({ ...held, dueAt }));
    this.#held.push(...again.slice(0, Math.max(0, MAX_HELD - this.#held.length)));
    // The timer goes by the first.
    this.#held.sort((a, b) => a.dueAt - b.dueAt);
    this.#setTimer();
  }
}
