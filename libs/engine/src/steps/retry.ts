import { CATALOGUE, type CallResult, type ExecutionFailure } from '@toolfleet/contracts';
import {
  RecentMap,
  retry as runWithRetries,
  RetryBudget,
  type Backoff,
  type RetryVerdict,
} from '@toolfleet/resilience';
import type { Call } from '../call.js';
import { step, type Step } from '../step.js';
import type { EnginePorts } from '../ports.js';

/** Tools with a kept retry budget. */
const MAX_TOOLS = 5_000;

/**
 * Repeats failed attempts by the rule of the tool: with full jitter, within the deadline and within the tool's retry budget.
 * Decides on results and never on exceptions, because a failed attempt is a result.
 */
export function retry(ports: Pick<EnginePorts, 'clock' | 'audit' | 'meter'>): Step {
  const { clock } = ports;
  const budgets = new RecentMap<string, RetryBudget>({ max: MAX_TOOLS });
  return step('retry', (next) => async (call) => {
    const { plan, tool, active, signal, deadline, callId } = call;
    let budget = budgets.get(tool.name);
    if (!budget) budgets.set(tool.name, (budget = new RetryBudget()));
    budget.deposit();
    const first = await next(call);
    if (!first.failure) return first;
    let attempts = 1;
    const result = await runWithRetries<CallResult>(
      {
        clock,
        deadline,
        signal,
        judge: (outcome, attempt) => toVerdict(call, outcome, attempt),
        onRetry: ({ attempt, delayMs, outcome }) => {
          if (!budget.withdraw()) return false;
          ports.meter.retried(tool);
          ports.audit.retrying({
            call: active,
            callId,
            attempt,
            maxAttempts: Math.max(plan.retry.maxAttempts, REDELIVERY_ATTEMPTS),
            delayMs,
            error: outcome.failure?.message ?? '',
          });
          active.waitedMs += delayMs;
          return true;
        },
      },
      (attempt) => {
        attempts = attempt;
        return attempt === 1 ? Promise.resolve(first) : next({ ...call, attempt });
      },
    );
    return withAttempts(result, attempts);
  });
}

function toVerdict(call: Call, { failure }: CallResult, attempt: number): RetryVerdict {
  const backoff = failure && retryBackoff(call, failure, attempt);
  return backoff ? { again: true, backoff, retryAfterMs: failure.retryAfterMs } : { again: false };
}

/** Puts the number of attempts into the result, and into the message of a failure after several. */
function withAttempts(result: CallResult, attempts: number): CallResult {
  if (attempts === 1) return result;
  const { failure } = result;
  if (!failure) return { ...result, attempts };
  const message = `All ${attempts} attempts failed: ${failure.message}`;
  return { ...result, attempts, failure: { ...failure, message } };
}

/** Attempts, the first included, of a call that never reached an executor; and the waits between them. */
const REDELIVERY_ATTEMPTS = 2;
const REDELIVERY_BACKOFF: Backoff = { baseMs: 100, multiplier: 2, capMs: 1_000 };

/** The wait before the next attempt, or undefined when this failure of this attempt is not retried. */
export function retryBackoff(
  { plan, request }: Pick<Call, 'plan' | 'request'>,
  failure: ExecutionFailure,
  attempt: number,
): Backoff | undefined {
  const { retry: rule, idempotent } = plan;
  const { retry: repeats } = CATALOGUE[failure.code];
  if (request.limits.noRetry || repeats === 'never') return undefined;
  // If a service of the fleet fails, another executor fails as well.
  const neverBegan = failure.facts?.begun === 'no' && failure.code !== 'SERVICE_UNAVAILABLE';
  if (repeats === 'redeliver' || neverBegan) {
    const isLast = attempt >= Math.max(rule.maxAttempts, REDELIVERY_ATTEMPTS);
    return !isLast && (idempotent || neverBegan) ? REDELIVERY_BACKOFF : undefined;
  }
  if (attempt >= rule.maxAttempts) return undefined;
  if (rule.on === 'any') return rule.backoff;
  const mayPass = failure.retryable || ['internal_error', 'execution_error'].includes(failure.errorType);
  return rule.on.has(failure.errorType) && mayPass ? rule.backoff : undefined;
}
