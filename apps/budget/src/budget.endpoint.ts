import { ToolError, type Milliseconds } from '@toolfleet/contracts';
import type { ReserveAnswer, ReserveRequest } from '@toolfleet/contracts/budget';
import { endpointsOf } from '@toolfleet/service/nats';
import type { EndpointContext } from '@toolfleet/transport';
import type { BudgetService } from './budget.js';
import type { BudgetPurge } from './budget-purge.js';
import { readRelease, readReserve, readSettle } from './read-messages.js';

/** A report over a large ledger may take longer than a reservation. */
const REPORT_TIMEOUT_MS = 20_000;
/** Time reserved for the reply to arrive before the caller's deadline. */
const REPLY_MARGIN_MS = 20;

const timeout = (context: EndpointContext, maxMs: Milliseconds): Milliseconds =>
  Math.max(1, Math.min(maxMs, context.timeLeftMs - REPLY_MARGIN_MS));

/**
 * `budget.*`: reservations and settlements of gateways, reports and purges for operators.
 * @param storeMs longest wait for the stores
 */
export const budgetEndpoints = (budget: BudgetService, purges: BudgetPurge, storeMs: Milliseconds) =>
  endpointsOf({
    'budget.reserve': async (message, context) => {
      const { valid, invalid } = readReserve(message);
      const answers = await budget.reserve(valid, timeout(context, storeMs));
      if (invalid.length === 0) return { answers };
      const refused = new Map<ReserveRequest, ReserveAnswer>(
        invalid.map(({ entry, callId: call_id, field }) => [
          entry,
          { admitted: false, call_id, code: 'BUDGET_UNAVAILABLE', scope: `invalid:${field}`, limit: 0, used: 0 },
        ]),
      );
      const admitted = answers.values();
      const all = message.asks.map((ask) => refused.get(ask) ?? (admitted.next().value as ReserveAnswer));
      return { answers: all };
    },
    'budget.settle': async (message, context) => {
      const { valid, invalid } = readSettle(message);
      const settled = await budget.settle(valid, timeout(context, storeMs));
      return invalid.length === 0
        ? { settled }
        : { settled, refused: invalid.map(({ callId, field }) => ({ call_id: callId, field })) };
    },
    'budget.release': async (message, context) => ({
      released: await budget.release(readRelease(message).valid, timeout(context, storeMs)),
    }),
    'budget.usage': (message, context) =>
      budget.usage({ ...message, group_by: [...new Set(message.group_by)] }, timeout(context, REPORT_TIMEOUT_MS)),
    'budget.limits': (message, context) => budget.limits(message, timeout(context, storeMs)),
    'budget.set': async (message, context) => ({
      budget: await budget.setBudget(message, timeout(context, REPORT_TIMEOUT_MS)),
    }),
    'budget.remove': async (message, context) => ({
      removed: await budget.removeBudget(message, timeout(context, storeMs)),
    }),
    'budget.purge': (message) =>
      purges.run(message).catch((cause: unknown) => {
        throw new ToolError('BUDGET_UNAVAILABLE', { cause });
      }),
  });
