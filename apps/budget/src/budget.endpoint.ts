import { Controller } from '@nestjs/common';
import type { Milliseconds } from '@toolfleet/contracts';
import type {
  BudgetLimitsReply,
  BudgetReleaseReply,
  BudgetReserve,
  BudgetReserveReply,
  BudgetSettleReply,
  BudgetUsageReply,
  ReserveAnswer,
  ReserveRequest,
} from '@toolfleet/contracts/budget';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Endpoint, type EndpointContext } from '@toolfleet/transport';
import { Budget } from './budget.js';
import { readLimits, readRelease, readReserve, readSettle, readUsage } from './read-messages.js';

/** Longest wait for the stores, by injection of the setting. */
export class StoreTimeout {
  constructor(readonly ms: Milliseconds) {}
}
/** A report over a long ledger may take longer than a reservation. */
const REPORT_TIMEOUT_MS = 20_000;
/** Kept for the way back, so that the answer arrives before the caller's deadline. */
const REPLY_RESERVE_MS = 20;

/** The NATS face of the budget: receives, delegates, answers. */
@Controller()
export class BudgetEndpoint {
  constructor(
    private readonly budget: Budget,
    private readonly storeTimeout: StoreTimeout,
  ) {}

  @Endpoint(SUBJECTS.budgetReserve)
  async reserve(body: unknown, context: EndpointContext): Promise<BudgetReserveReply> {
    const { good, bad } = readReserve(body);
    const answers = await this.budget.reserve(good, this.time(context));
    if (bad.length === 0) return { answers };
    const refused = new Map<ReserveRequest, ReserveAnswer>(
      bad.map(({ entry, callId, field }) => [
        entry,
        { admitted: false, call_id: callId, code: 'BUDGET_UNAVAILABLE', scope: `invalid:${field}`, limit: 0, used: 0 },
      ]),
    );
    const admitted = answers.values();
    const all = (body as BudgetReserve).asks.map((ask) => refused.get(ask) ?? (admitted.next().value as ReserveAnswer));
    return { answers: all };
  }

  @Endpoint(SUBJECTS.budgetSettle)
  async settle(body: unknown, context: EndpointContext): Promise<BudgetSettleReply> {
    const { good, bad } = readSettle(body);
    const settled = await this.budget.settle(good, this.time(context));
    return bad.length === 0
      ? { settled }
      : { settled, refused: bad.map(({ callId, field }) => ({ call_id: callId, field })) };
  }

  @Endpoint(SUBJECTS.budgetRelease)
  async release(body: unknown, context: EndpointContext): Promise<BudgetReleaseReply> {
    return { released: await this.budget.release(readRelease(body).good, this.time(context)) };
  }

  @Endpoint(SUBJECTS.budgetUsage)
  usage(body: unknown, context: EndpointContext): Promise<BudgetUsageReply> {
    return this.budget.usage(readUsage(body), this.time(context, REPORT_TIMEOUT_MS));
  }

  @Endpoint(SUBJECTS.budgetLimits)
  limits(body: unknown, context: EndpointContext): Promise<BudgetLimitsReply> {
    return this.budget.limits(readLimits(body), this.time(context));
  }

  private time(context: EndpointContext, most = this.storeTimeout.ms): Milliseconds {
    return Math.max(1, Math.min(most, context.timeLeftMs - REPLY_RESERVE_MS));
  }
}
