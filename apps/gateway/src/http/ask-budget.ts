import type {
  BudgetLimits,
  BudgetLimitsReply,
  BudgetRemove,
  BudgetRemoveReply,
  BudgetSet,
  BudgetSetReply,
  BudgetUsage,
  BudgetUsageReply,
} from '@toolfleet/contracts/budget';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import type { NatsClient } from '@toolfleet/transport';

const ASK_TIMEOUT_MS = 10_000;

/** What the HTTP API asks the service budget, by the name of the subject, with the answers. */
interface Questions {
  budgetLimits: [BudgetLimits, BudgetLimitsReply];
  budgetSet: [BudgetSet, BudgetSetReply];
  budgetRemove: [BudgetRemove, BudgetRemoveReply];
  budgetUsage: [BudgetUsage, BudgetUsageReply];
}

/** Asks the service budget. @throws ToolError of the service; EXECUTOR_UNAVAILABLE or DEADLINE_EXCEEDED without an answer in 10 s */
export function askBudget<Q extends keyof Questions>(
  nats: NatsClient,
  question: Q,
  message: Questions[Q][0],
): Promise<Questions[Q][1]> {
  return nats.request(SUBJECTS[question], message, { timeoutMs: ASK_TIMEOUT_MS });
}
