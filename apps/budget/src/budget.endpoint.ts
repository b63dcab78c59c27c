import { Controller } from '@nestjs/common';
import { ToolError, type Milliseconds } from '@toolfleet/contracts';
import type {
  BudgetLimits,
  BudgetRelease,
  BudgetRemove,
  BudgetReserve,
  BudgetSet,
  BudgetSettle,
  BudgetUsage,
  ReserveAnswer,
  ReserveRequest,
} from '@toolfleet/contracts/budget';
import type { PurgeMessage } from '@toolfleet/contracts/purge';
import { Endpoint, type EndpointContext } from '@toolfleet/transport';
import { BudgetService } from './budget.js';
import { BudgetPurge } from './budget-purge.js';
import { readRelease, readReserve, readSettle } from './read-messages.js';

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
    private readonly budget: BudgetService,
    private readonly storeTimeout: StoreTimeout,
    private readonly purges: BudgetPurge,
  ) {}

  @Endpoint('budget.reserve')
  async reserve(message: BudgetReserve, context: EndpointContext) {
    const { valid, invalid } = readReserve(message);
    const answers = await this.budget.reserve(valid, this.timeout(context));
    if (invalid.length === 0) return { answers };
    const refused = new Map<ReserveRequest, ReserveAnswer>(
      invalid.map(({ entry, callId, field }) => [
        entry,
        { admitted: false, call_id: callId, code: 'BUDGET_UNAVAILABLE', scope: `invalid:${field}`, limit: 0, used: 0 },
      ]),
    );
    const admitted = answers.values();
    const all = message.asks.map((ask) => refused.get(ask) ?? (admitted.next().value as ReserveAnswer));
    return { answers: all };
  }

  @Endpoint('budget.settle')
  async settle(message: BudgetSettle, context: EndpointContext) {
    const { valid, invalid } = readSettle(message);
    const settled = await this.budget.settle(valid, this.timeout(context));
    return invalid.length === 0
      ? { settled }
      : { settled, refused: invalid.map(({ callId, field }) => ({ call_id: callId, field })) };
  }

  @Endpoint('budget.release')
  async release(message: BudgetRelease, context: EndpointContext) {
    return { released: await this.budget.release(readRelease(message).valid, this.timeout(context)) };
  }

  @Endpoint('budget.usage')
  usage(message: BudgetUsage, context: EndpointContext) {
    return this.budget.usage(
      { ...message, group_by: [...new Set(message.group_by)] },
      this.timeout(context, REPORT_TIMEOUT_MS),
    );
  }

  @Endpoint('budget.limits')
  limits(message: BudgetLimits, context: EndpointContext) {
    return this.budget.limits(message, this.timeout(context));
  }

  @Endpoint('budget.set')
  async set(message: BudgetSet, context: EndpointContext) {
    return { budget: await this.budget.setBudget(message, this.timeout(context, REPORT_TIMEOUT_MS)) };
  }

  @Endpoint('budget.remove')
  async remove(message: BudgetRemove, context: EndpointContext) {
    return { removed: await this.budget.removeBudget(message, this.timeout(context)) };
  }

  @Endpoint('budget.purge')
  async purge(message: PurgeMessage) {
    return this.purges.run(message).catch((cause: unknown) => {
      throw new ToolError('BUDGET_UNAVAILABLE', { cause });
    });
  }

  private timeout(context: EndpointContext, maxMs = this.storeTimeout.ms): Milliseconds {
    return Math.max(1, Math.min(maxMs, context.timeLeftMs - REPLY_MARGIN_MS));
  }
}
