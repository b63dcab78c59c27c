import { ToolError } from '@toolfleet/contracts';
import type {
  BudgetLimits,
  BudgetLimitsReply,
  BudgetRelease,
  BudgetReserve,
  BudgetReserveReply,
  BudgetScopes,
  BudgetSettle,
  BudgetSettleReply,
  ReserveAnswer,
  ReserveRequest,
  SettleRequest,
} from '@toolfleet/contracts/budget';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { BudgetPort } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import type { NatsClient } from '@toolfleet/transport';

/** A budget service that does not answer in this time counts as away: calls fail closed. */
const RESERVE_TIMEOUT_MS = 2_000;
/**
 * A reserve is answered in about a millisecond. One this late went down with a replica or a NATS node, or nobody listened
 * because the service is changing to another node: it is sent again.
 */
const RESERVE_REPEAT_MS = 500;
const SETTLE_TIMEOUT_MS = 2_000;
/** Waits between repeats of a settlement; the lease is charged in full when all are used up. */
const SETTLE_RETRY_MS = [250, 500, 1_000, 2_000, 4_000];
/**
 * How long settlements and releases are gathered. Nobody waits for them, and a message each would cost this process, NATS and
 * the budget as much as the reserve did; a gateway that dies meanwhile leaves leases, which are charged in full.
 */
const BATCH_WINDOW_MS = 5;
/** Asks in one message: a bound on its size and on the time one script runs. */
const MAX_BATCH = 500;

/** A settlement that was refused, and the field that was at fault. */
export type RefusedSettlement = NonNullable<BudgetSettleReply['refused']>[number];

interface WaitingAsk {
  ask: ReserveRequest;
  resolve: (answer: ReserveAnswer) => void;
  reject: (error: ToolError) => void;
}

/**
 * Budget over NATS. Reserves of one event-loop turn travel in one message, settlements and releases of a few milliseconds in
 * another, so that a busy gateway pays one hop and one script for many calls. Settling is confirmed in the background and never changes an answer.
 */
export class BudgetClient extends BudgetPort {
  private asks: WaitingAsk[] = [];
  private settlements: SettleRequest[] = [];
  private releases: BudgetRelease['releases'] = [];
  private readonly open = new Set<Promise<void>>();

  constructor(
    private readonly nats: NatsClient,
    private readonly clock: Clock,
    private readonly warn: (message: string) => void,
    /** Called for settlements that the budget service could not read: their calls ran and are in no ledger row. */
    private readonly onRefused: (refused: RefusedSettlement[]) => void = () => undefined,
  ) {
    super();
  }

  override reserve(ask: ReserveRequest): Promise<ReserveAnswer> {
    return new Promise((resolve, reject) => {
      this.asks.push({ ask, resolve, reject });
      if (this.asks.length === 1) this.nats.onTickEnd(() => this.flushAsks());
    });
  }

  override settle(ask: SettleRequest): void {
    this.settlements.push(ask);
    if (this.settlements.length === 1) this.clock.after(BATCH_WINDOW_MS, () => this.flushSettlements());
  }

  override release(callId: string, scopes: BudgetScopes): void {
    this.releases.push({ call_id: callId, scopes });
    if (this.releases.length === 1) this.clock.after(BATCH_WINDOW_MS, () => this.flushReleases());
  }

  override async limits(scopes: BudgetScopes): Promise<BudgetLimitsReply> {
    const body: BudgetLimits = { scopes };
    return this.nats.request<BudgetLimitsReply>(SUBJECTS.budgetLimits, body, { timeoutMs: RESERVE_TIMEOUT_MS });
  }

  /** Waits for settlements still on their way, at most `graceMs`. */
  async drain(graceMs: number): Promise<void> {
    this.flushSettlements();
    this.flushReleases();
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const cancel = this.clock.after(graceMs, resolve);
    await Promise.race([Promise.allSettled(this.open), late]);
    cancel();
  }

  private flushAsks(): void {
    const waiting = this.asks;
    this.asks = [];
    for (let from = 0; from < waiting.length; from += MAX_BATCH) void this.ask(waiting.slice(from, from + MAX_BATCH));
  }

  private async ask(batch: WaitingAsk[]): Promise<void> {
    try {
      const body: BudgetReserve = { asks: batch.map(({ ask }) => ask) };
      const { answers } = await this.reserveTwice(body);
      batch.forEach(({ resolve, reject }, index) => {
        const answer = answers[index];
        if (answer) resolve(answer);
        else reject(unavailable());
      });
    } catch (cause) {
      for (const { reject } of batch) reject(unavailable(cause));
    }
  }

  /**
   * One ask and one repeat; the first answer counts. A call id that holds a lease is admitted again under that lease; what
   * is admitted to calls that were refused by then is given back, or they would be charged when it ends.
   */
  private reserveTwice(body: BudgetReserve): Promise<BudgetReserveReply> {
    const { promise, resolve, reject } = Promise.withResolvers<BudgetReserveReply>();
    const until = this.clock.monotonic() + RESERVE_TIMEOUT_MS;
    let failed = 0;
    let told: BudgetReserveReply | undefined;
    const answered = (reply: BudgetReserveReply): void => {
      if (told) this.giveBack(body, told, reply);
      else resolve((told = reply));
    };
    const send = (): void => {
      const timeoutMs = until - this.clock.monotonic();
      this.nats
        .request<BudgetReserveReply>(SUBJECTS.budgetReserve, body, { timeoutMs })
        .then(answered, (error: unknown) => (failed += 1) === 2 && reject(error));
    };
    const cancelRepeat = this.clock.after(RESERVE_REPEAT_MS, send);
    send();
    return promise.finally(cancelRepeat);
  }

  private giveBack({ asks }: BudgetReserve, told: BudgetReserveReply, late: BudgetReserveReply): void {
    for (const [index, { call_id, scopes }] of asks.entries()) {
      if (late.answers[index]?.admitted && !told.answers[index]?.admitted) this.release(call_id, scopes);
    }
  }

  private flushSettlements(): void {
    const settlements = this.settlements;
    this.settlements = [];
    for (let from = 0; from < settlements.length; from += MAX_BATCH) {
      const body: BudgetSettle = { settlements: settlements.slice(from, from + MAX_BATCH) };
      this.track(
        this.repeat(async () => {
          const timeoutMs = SETTLE_TIMEOUT_MS;
          const reply = await this.nats.request<BudgetSettleReply>(SUBJECTS.budgetSettle, body, { timeoutMs });
          if (reply.refused?.length) this.onRefused(reply.refused);
        }, 'settlement'),
      );
    }
  }

  private flushReleases(): void {
    const releases = this.releases;
    this.releases = [];
    if (releases.length === 0) return;
    const body: BudgetRelease = { releases };
    this.track(
      this.repeat(() => this.nats.request(SUBJECTS.budgetRelease, body, { timeoutMs: SETTLE_TIMEOUT_MS }), 'release'),
    );
  }

  private async repeat(send: () => Promise<unknown>, what: string): Promise<void> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        await send();
        return;
      } catch (error) {
        const waitMs = SETTLE_RETRY_MS[attempt];
        if (waitMs === undefined) {
          this.warn(`budget ${what} given up, its leases are charged when they expire: ${String(error)}`);
          return;
        }
        await this.clock.sleep(waitMs);
      }
    }
  }

  private track(work: Promise<void>): void {
    const tracked = work.finally(() => this.open.delete(tracked));
    this.open.add(tracked);
  }
}

function unavailable(cause?: unknown): ToolError {
  return new ToolError('BUDGET_UNAVAILABLE', {
    message: 'The budget service does not answer; the call was not run',
    cause,
  });
}
