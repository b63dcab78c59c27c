import type { CallResult } from '@toolfleet/contracts';
import { backoffMs, RetryBudget } from '@toolfleet/resilience';
import { LRUCache } from 'lru-cache';
import type { Interceptor } from '../call.js';
import type { EnginePorts } from '../ports.js';
import { attemptCeiling, repeats } from '../retry-rule.js';

/** Tools whose retry budget is kept. */
const MAX_TOOLS = 5_000;

/**
 * Repeats failed attempts as the tool's rule says, with full jitter, inside the deadline and inside the retry budget of
 * the tool. Looks at outcomes, never at exceptions: that is what the seed's engine got wrong (K!22).
 */
export function retry(
  ports: Pick<EnginePorts, 'clock' | 'audit' | 'meter'>,
  random: () => number = Math.random,
): Interceptor {
  const budgets = new LRUCache<string, RetryBudget>({ max: MAX_TOOLS });
  const budgetOf = (tool: string): RetryBudget => {
    let budget = budgets.get(tool);
    if (!budget) budgets.set(tool, (budget = new RetryBudget()));
    return budget;
  };
  return async (call, next) => {
    const { plan, tool, seen } = call;
    const budget = budgetOf(tool.name);
    budget.deposit();
    for (let attempt = 1; ; attempt += 1) {
      const result = await next(attempt === 1 ? call : { ...call, attempt });
      const { failure } = result;
      if (!failure || call.request.noRetry || call.signal.aborted) return numbered(result, attempt);
      const backoff = repeats(plan.retry, plan.idempotent, failure, attempt);
      if (!backoff) return numbered(result, attempt);
      const delayMs = backoffMs(backoff, attempt, random, failure.retryAfterMs);
      if (delayMs >= call.deadline.remainingMs() || !budget.withdraw()) return numbered(result, attempt);
      ports.meter.retried(tool.name);
      ports.audit.retrying({
        tool: tool.name,
        callId: call.callId,
        attempt: attempt + 1,
        maxAttempts: attemptCeiling(plan.retry),
        delayMs,
        error: failure.message,
      });
      const from = ports.clock.monotonic();
      try {
        await ports.clock.sleep(delayMs, call.signal);
      } catch {
        return numbered(result, attempt);
      } finally {
        seen.waitedMs += ports.clock.monotonic() - from;
      }
    }
  };
}

/** After several attempts the message says so (G39). */
function numbered(result: CallResult, attempts: number): CallResult {
  if (attempts === 1) return result;
  const { failure } = result;
  if (!failure) return { ...result, attempts };
  return {
    ...result,
    attempts,
    failure: { ...failure, message: `All ${attempts} attempts failed: ${failure.message}` },
  };
}
