import { Controller } from '@nestjs/common';
import {
  SUBJECTS,
  type BudgetLimitsReply,
  type BudgetReleaseReply,
  type BudgetReserveReply,
  type BudgetSettleReply,
  type BudgetUsageReply,
  type Milliseconds,
} from '@toolfleet/contracts';
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
  reserve(body: unknown, context: EndpointContext): Promise<BudgetReserveReply> {
    return this.budget.reserve(readReserve(body), this.time(context));
  }

  @Endpoint(SUBJECTS.budgetSettle)
  settle(body: unknown, context: EndpointContext): Promise<BudgetSettleReply> {
    return this.budget.settle(readSettle(body), this.time(context));
  }

  @Endpoint(SUBJECTS.budgetRelease)
  release(body: unknown, context: EndpointContext): Promise<BudgetReleaseReply> {
    return this.budget.release(readRelease(body), this.time(context));
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
