import { ToolError } from '@toolfleet/contracts';
import {
  LEASE_GRACE_MS,
  type BudgetLimits,
  type BudgetLimitsReply,
  type BudgetRelease,
  type BudgetReserve,
  type BudgetReserveReply,
  type BudgetScopes,
  type BudgetSettle,
  type BudgetSettleReply,
  type ReserveAnswer,
  type ReserveRequest,
  type SettleRequest,
} from '@toolfleet/contracts/budget';
import { BudgetPort, type MaybePromise } from '@toolfleet/engine';
import type { Clock } from '@toolfleet/resilience';
import type { NatsClient } from '@toolfleet/transport';

/** A budget service that does not answer within this time is unavailable: calls fail closed. */
const RESERVE_TIMEOUT_MS = 2_000;
/**
 * When a reserve is sent a second time. A reply normally takes about a millisecond; a missing one was lost with a replica or a
 * NATS node, or found no subscriber while the service moved to another node.
 */
const RESERVE_RESEND_MS = 500;
const SETTLE_TIMEOUT_MS = 2_000;
/** First and longest wait before a settlement or release is sent again; each is twice the one before. */
const RETRY_MS = { first: 250, longest: 4_000 };
/**
 * How long settlements and releases are buffered. No caller waits for them, and one message each would cost this process, NATS
 * and the budget service as much as the reserve did. The leases of a gateway that dies meanwhile are charged in full.
 */
const BATCH_WINDOW_MS = 25;
/** Requests per message: bounds the size of a message and the run time of a script in the budget service. */
const MAX_BATCH = 500;

/** A settlement that the budget service refused, with the invalid field. */
export type RefusedSettlement = NonNullable<BudgetSettleReply['refused']>[number];

interface PendingReserve {
  request: ReserveRequest;
  resolve: (answer: ReserveAnswer) => void;
  reject: (error: ToolError) => void;
}

/**
 * The budget service over NATS. Reserves of one event-loop tick travel in one message, and so do settlements and releases of a
 * few milliseconds: a busy gateway pays one round trip and one script for many calls. Settlements are confirmed in the
 * background and never change the result of a call.
 */
export class BudgetClient extends BudgetPort {
  private reserves: PendingReserve[] = [];
  private settlements: SettleRequest[] = [];
  private atTickEnd: Promise<void> | undefined;
  private releases: BudgetRelease['releases'] = [];
  private readonly unconfirmed = new Set<Promise<void>>();

  /** @param onRefused receives settlements that the service could not read: their calls ran and are missing in the ledger */
  constructor(
    private readonly nats: NatsClient,
    private readonly clock: Clock,
    private readonly warn: (message: string) => void,
    private readonly onRefused: (refused: RefusedSettlement[]) => void = () => undefined,
  ) {
    super();
  }

  override reserve(request: ReserveRequest): Promise<ReserveAnswer> {
    return new Promise((resolve, reject) => {
      this.reserves.push({ request, resolve, reject });
      if (this.reserves.length === 1) this.nats.onTickEnd(() => this.flushReserves());
    });
  }

  override settle(request: SettleRequest, isAwaited = false): MaybePromise<void> {
    this.settlements.push(request);
    if (isAwaited) return this.sentAtTickEnd();
    if (this.settlements.length === 1) this.clock.after(BATCH_WINDOW_MS, () => void this.flushSettlements());
    return undefined;
  }

  /** Sends at the end of this tick; resolves when the service has confirmed, or after one timeout. */
  private sentAtTickEnd(): Promise<void> {
    this.atTickEnd ??= new Promise((resolve) => {
      this.nats.onTickEnd(() => {
        this.atTickEnd = undefined;
        resolve(Promise.race([this.flushSettlements(), this.clock.sleep(SETTLE_TIMEOUT_MS)]));
      });
    });
    return this.atTickEnd;
  }

  override release(callId: string, scopes: BudgetScopes): void {
    this.releases.push({ call_id: callId, scopes });
    if (this.releases.length === 1) this.clock.after(BATCH_WINDOW_MS, () => this.flushReleases());
  }

  override async limits(asked: BudgetLimits): Promise<BudgetLimitsReply> {
    return this.nats.ask('budget.limits', asked, { timeoutMs: RESERVE_TIMEOUT_MS });
  }

  /** Sends buffered messages and waits for confirmations, at most `graceMs`. */
  async drain(graceMs: number): Promise<void> {
    void this.flushSettlements();
    this.flushReleases();
    const { promise: timeout, resolve } = Promise.withResolvers<void>();
    const cancel = this.clock.after(graceMs, resolve);
    await Promise.race([Promise.allSettled(this.unconfirmed), timeout]);
    cancel();
  }

  private flushReserves(): void {
    const pending = this.reserves;
    this.reserves = [];
    for (let from = 0; from < pending.length; from += MAX_BATCH) {
      void this.reserveBatch(pending.slice(from, from + MAX_BATCH));
    }
  }

  private async reserveBatch(batch: PendingReserve[]): Promise<void> {
    try {
      const { answers } = await this.sendReserve({ asks: batch.map(({ request }) => request) });
      batch.forEach(({ request, resolve, reject }, index) => {
        const answer = answers[index];
        if (!answer || isUndecided(answer)) this.release(request.call_id, request.scopes);
        if (answer) resolve(answer);
        else reject(unavailable());
      });
    } catch (cause) {
      for (const { request, reject } of batch) {
        this.release(request.call_id, request.scopes);
        reject(unavailable(cause));
      }
    }
  }

  /**
   * Sends a reserve, and once more when no reply arrives in time; the first reply counts. Reserving is idempotent by call id.
   * The replies may differ: a lease that only the late one grants belongs to a call that was refused already, and is released
   * so that it is not charged when it expires. Leases are released here and not by the budget service: it does not know whether the
   * other message admitted the call.
   */
  private sendReserve(body: BudgetReserve): Promise<BudgetReserveReply> {
    const { promise, resolve, reject } = Promise.withResolvers<BudgetReserveReply>();
    const until = this.clock.monotonic() + RESERVE_TIMEOUT_MS;
    let failures = 0;
    let first: BudgetReserveReply | undefined;
    const onReply = (reply: BudgetReserveReply): void => {
      if (first) this.releaseLateLeases(body, first, reply);
      else resolve((first = reply));
    };
    const send = (): void => {
      const timeoutMs = until - this.clock.monotonic();
      this.nats
        .ask('budget.reserve', body, { timeoutMs })
        .then(onReply, (error: unknown) => (failures += 1) === 2 && reject(error));
    };
    const cancelResend = this.clock.after(RESERVE_RESEND_MS, send);
    send();
    return promise.finally(cancelResend);
  }

  private releaseLateLeases({ asks }: BudgetReserve, first: BudgetReserveReply, late: BudgetReserveReply): void {
    for (const [index, { call_id, scopes }] of asks.entries()) {
      if (late.answers[index]?.admitted && !first.answers[index]?.admitted) this.release(call_id, scopes);
    }
  }

  private async flushSettlements(): Promise<void> {
    const settlements = this.settlements;
    this.settlements = [];
    const sent: Promise<void>[] = [];
    for (let from = 0; from < settlements.length; from += MAX_BATCH) {
      const body: BudgetSettle = { settlements: settlements.slice(from, from + MAX_BATCH) };
      sent.push(
        this.sendWithRetry(async () => {
          const timeoutMs = SETTLE_TIMEOUT_MS;
          const reply = await this.nats.ask('budget.settle', body, { timeoutMs });
          if (reply.refused?.length) this.onRefused(reply.refused);
        }, 'settlement'),
      );
    }
    for (const one of sent) this.track(one);
    await Promise.all(sent);
  }

  private flushReleases(): void {
    const releases = this.releases;
    this.releases = [];
    if (releases.length === 0) return;
    const body: BudgetRelease = { releases };
    this.track(
      this.sendWithRetry(() => this.nats.ask('budget.release', body, { timeoutMs: SETTLE_TIMEOUT_MS }), 'release'),
    );
  }

  private async sendWithRetry(send: () => Promise<unknown>, what: string): Promise<void> {
    const until = this.clock.monotonic() + LEASE_GRACE_MS;
    for (let waitMs = RETRY_MS.first; ; waitMs = Math.min(2 * waitMs, RETRY_MS.longest)) {
      try {
        await send();
        return;
      } catch (error) {
        if (this.clock.monotonic() + waitMs >= until) {
          this.warn(`gave up a budget ${what}; its leases will be charged in full when they expire: ${String(error)}`);
          return;
        }
        await this.clock.sleep(waitMs);
      }
    }
  }

  private track(work: Promise<void>): void {
    const tracked = work.finally(() => this.unconfirmed.delete(tracked));
    this.unconfirmed.add(tracked);
  }
}

function unavailable(cause?: unknown): ToolError {
  return new ToolError('BUDGET_UNAVAILABLE', {
    message: 'The budget service does not answer; the call was not run. Retry later',
    cause,
  });
}

/** Whether the service gave up waiting for its store, so that a lease may have been granted. */
function isUndecided(answer: ReserveAnswer): boolean {
  return !answer.admitted && answer.code === 'BUDGET_UNAVAILABLE' && answer.scope === 'store';
}
