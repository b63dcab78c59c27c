import { Controller } from '@nestjs/common';
import { ToolError, type Milliseconds } from '@toolfleet/contracts';
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
import { readPurge, type PurgeReply } from '@toolfleet/contracts/purge';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Endpoint, type EndpointContext } from '@toolfleet/transport';
import { Budget } from './budget.js';
import { BudgetPurge } from './budget-purge.js';
import { readLimits, readRelease, readReserve, readSettle, readUsage } from './read-messages.js';

/** Injection token of the longest wait for the stores. */
export class StoreTimeout {
  constructor(readonly ms: Milliseconds) {}
}
/** A report over a large ledger may take longer than a reservation. */
const REPORT_TIMEOUT_MS = 20_000;
/** Time reserved for the reply to arrive before the caller's deadline. */
const REPLY_MARGIN_MS = 20;

/** `budget.*`: reservations and settlements of gateways, reports and purges for operators. */
@Controller()
export class BudgetEndpoint {
  constructor(
    private readonly budget: Budget,
    private readonly storeTimeout: StoreTimeout,
    private readonly purges: BudgetPurge,
  ) {}

  @Endpoint(SUBJECTS.budgetReserve)
  async reserve(body: unknown, context: EndpointContext): Promise<BudgetReserveReply> {
    const { valid, invalid } = readReserve(body);
    const answers = await this.budget.reserve(valid, this.timeout(context));
    if (invalid.length === 0) return { answers };
    const refused = new Map<ReserveRequest, ReserveAnswer>(
      invalid.map(({ entry, callId, field }) => [
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
    const { valid, invalid } = readSettle(body);
    const settled = await this.budget.settle(valid, this.timeout(context));
    return invalid.length === 0
      ? { settled }
      : { settled, refused: invalid.map(({ callId, field }) => ({ call_id: callId, field })) };
  }

  @Endpoint(SUBJECTS.budgetRelease)
  async release(body: unknown, context: EndpointContext): Promise<BudgetReleaseReply> {
    return { released: await this.budget.release(readRelease(body).valid, this.timeout(context)) };
  }

  @Endpoint(SUBJECTS.budgetUsage)
  usage(body: unknown, context: EndpointContext): Promise<BudgetUsageReply> {
    return this.budget.usage(readUsage(body), this.timeout(context, REPORT_TIMEOUT_MS));
  }

  @Endpoint(SUBJECTS.budgetLimits)
  limits(body: unknown, context: EndpointContext): Promise<BudgetLimitsReply> {
    return this.budget.limits(readLimits(body), this.timeout(context));
  }

  @Endpoint(SUBJECTS.budgetPurge)
  async purge(body: unknown): Promise<PurgeReply> {
    const message = readPurge(body);
    return this.purges.run(message).catch((cause: unknown) => {
      throw new ToolError('BUDGET_UNAVAILABLE', { cause });
    });
  }

  private timeout(context: EndpointContext, maxMs = this.storeTimeout.ms): Milliseconds {
    return Math.max(1, Math.min(maxMs, context.timeLeftMs - REPLY_MARGIN_MS));
  }
}
