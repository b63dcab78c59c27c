import type { Milliseconds } from '@toolfleet/contracts';
import { leavesOutcomeOpen, toCallResult, type ExecMessage, type ExecResponse } from '@toolfleet/contracts/execution';
import type { Clock } from '@toolfleet/resilience';
import type { Journal } from './journal.js';

/** A gateway that lives has stored the outcome by then: it waits at most 2 s for the journal. */
export const LATE_MS: Milliseconds = 2_500;
/** Outcomes kept at a time; the oldest are handed over early beyond that, so that replies cannot fill the memory. */
const MAX_KEPT = 1_000;

type Claim = Pick<ExecMessage, 'call_id' | 'fence'>;

interface Kept {
  readonly dueAt: number;
  readonly claim: Claim;
  readonly reply: ExecResponse;
}

/**
 * The executor's copy of outcomes. Normally the gateway stores the outcome of a call,
 * with what it adds to it. When the gateway died or had stopped waiting nobody would: so the executor offers its reply a
 * little later, under its own fence; the journal takes it only when the call has no outcome yet, or an unknown one.
 */
export class LateOutcomes {
  readonly #kept: Kept[] = [];
  readonly #offered = new Set<Promise<unknown>>();
  #waiting = false;

  constructor(
    private readonly journal: Pick<Journal, 'finish'>,
    private readonly clock: Clock,
  ) {}

  /** Keeps the reply of a claimed call; one that leaves the outcome open is no outcome. */
  keep(claim: Claim, reply: ExecResponse): void {
    if (reply.failure && leavesOutcomeOpen(reply.failure)) return;
    this.#kept.push({ dueAt: this.clock.monotonic() + LATE_MS, claim, reply });
    if (this.#kept.length > MAX_KEPT) this.#offer(this.#kept.shift() as Kept);
    this.#wait();
  }

  /** Hands over what is kept; call it before the connection of the journal closes. */
  async drain(): Promise<void> {
    for (const kept of this.#kept.splice(0)) this.#offer(kept);
    await Promise.all(this.#offered);
  }

  #wait(): void {
    const [first] = this.#kept;
    if (this.#waiting || !first) return;
    this.#waiting = true;
    this.clock.after(first.dueAt - this.clock.monotonic(), () => {
      this.#waiting = false;
      const now = this.clock.monotonic();
      while (this.#kept[0] && this.#kept[0].dueAt <= now) this.#offer(this.#kept.shift() as Kept);
      this.#wait();
    });
  }

  #offer({ claim, reply }: Kept): void {
    const offered = this.journal
      .finish(claim.call_id, claim.fence, toCallResult(reply, reply.execute_ms ?? 0))
      .catch(() => false) // a journal that is away loses this copy; the outcome then stays unknown, which is true
      .finally(() => this.#offered.delete(offered));
    this.#offered.add(offered);
  }
}
