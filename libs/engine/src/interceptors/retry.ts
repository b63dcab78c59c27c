import type { CallResult } from '@toolfleet/contracts';
import { retry as repeat, RetryBudget, type RetryVerdict } from '@toolfleet/resilience';
import { LRUCache } from 'lru-cache';
import type { Call, Interceptor } from '../call.js';
import type { EnginePorts } from '../ports.js';
import { attemptCeiling, repeats } from '../retry-rule.js';

/** Tools whose retry budget is kept. */
const MAX_TOOLS = 5_000;
const NO: RetryVerdict = { again: false };

/**
 * Repeats failed attempts as the tool's rule says, with full jitter, inside the deadline and inside the retry budget of
 * the tool. Looks at outcomes, never at exceptions: a failed
 * attempt is a value, so a retry on exceptions would never fire.
 */
export function retry(ports: Pick<EnginePorts, 'clock' | 'audit' | 'meter'>): Interceptor {
  const { clock } = ports;
  const budgets = new LRUCache<string, RetryBudget>({ max: MAX_TOOLS });
  return async (call, next) => {
    const { plan, tool, seen, signal, deadline, callId } = call;
    let budget = budgets.get(tool.name);
    if (!budget) budgets.set(tool.name, (budget = new RetryBudget()));
    const ofTool = budget;
    ofTool.deposit();
    let attempts = 0;
    const result = await repeat<CallResult>(
      {
        clock,
        deadline,
        signal,
        judge: (outcome, attempt) => verdictOn(call, outcome, attempt),
        onRetry: ({ attempt, delayMs, outcome }) => {
          if (!ofTool.withdraw()) return false;
          ports.meter.retried(tool.name);
          const error = outcome.failure?.message ?? '';
          ports.audit.retrying({
            tool: tool.name,
            callId,
            attempt,
            maxAttempts: attemptCeiling(plan.retry),
            delayMs,
            error,
            rawArguments: call.request.rawArguments,
          });
          seen.waitedMs += delayMs;
          return true;
        },
      },
      (attempt) => {
        attempts = attempt;
        return next(attempt === 1 ? call : { ...call, attempt });
      },
    );
    return numbered(result, attempts);
  };
}

function verdictOn(call: Call, { failure }: CallResult, attempt: number): RetryVerdict {
  if (!failure || call.request.noRetry) return NO;
  const backoff = repeats(call.plan.retry, call.plan.idempotent, failure, attempt);
  if (!backoff) return NO;
  return {
    again: true,
    backoff,
    ...(failure.retryAfterMs === undefined ? {} : { retryAfterMs: failure.retryAfterMs }),
  };
}

/** After several attempts the message says so. */
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
