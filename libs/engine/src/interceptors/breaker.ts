import { ToolError, type CallResult } from '@toolfleet/contracts';
import type { BreakerJudgement } from '@toolfleet/resilience';
import { LRUCache } from 'lru-cache';
import type { Interceptor } from '../call.js';
import { isDeadlineShortened, isExecutorFault } from '../attempt.js';
import type { EnginePorts } from '../ports.js';
import { failed } from '../result.js';

/** Tools whose last failure is remembered. */
const MAX_TOOLS = 5_000;

/**
 * Fails fast while a tool is down. Outside the retry, so that it counts calls and not attempts. A tenant's calls open the breaker
 * for that tenant alone until others agree (`TargetBreaker`). The refusal is a result, so that fallback can replace it. It names
 * the executor as the cause when the last failure that counted was the executor's.
 */
export function breaker(ports: Pick<EnginePorts, 'breakers'>): Interceptor {
  /** By tool: whether the last failure that counted was the executor's. */
  const executorFaults = new LRUCache<string, boolean>({ max: MAX_TOOLS });
  return async (call, next) => {
    const deadlineShortened = isDeadlineShortened(call);
    const outcome = await ports.breakers.run(
      { key: call.tool.name, tenantId: call.request.principal.tenantId },
      // A probe makes one attempt, so that each tenant sends one request to a tool that may still be down.
      (isProbe) => next(isProbe ? { ...call, request: { ...call.request, noRetry: true } } : call),
      (result) => {
        const judgement = judge(result, deadlineShortened);
        if (judgement === 'failure') executorFaults.set(call.tool.name, isExecutorFault(result.failure!));
        return judgement;
      },
    );
    if (!outcome.refused) return outcome.value;
    return failed(
      new ToolError('BREAKER_OPEN', {
        message: `Circuit breaker open for ${call.tool.name} (too many failures)`,
        details: { tool: call.tool.name, ...(executorFaults.get(call.tool.name) ? { cause: 'executor' } : {}) },
        retryAfterMs: outcome.retryAfterMs,
      }),
    );
  };
}

/**
 * Judges what the outcome of a call says about its tool. Counted as failures: the tool could not be reached, did not answer in
 * time, or answered 5xx, 408 or 429. What a tool reports about its input (4xx, an error in the code it ran) proves that it works.
 * Ignored: a time-out of an attempt that had less time than its tool may take (`deadlineShortened`); a target that the caller
 * chose, such as the address of a page; and an executor that is not running (`no_responders`), because the broker reports that at
 * once and an open breaker would refuse calls for half a minute after the executor is back.
 */
export function judge(result: CallResult, deadlineShortened = false): BreakerJudgement {
  const { failure } = result;
  if (!failure) return 'success';
  if (failure.details?.target === 'chosen_by_caller') return 'ignored';
  switch (failure.code) {
    case 'ATTEMPT_TIMED_OUT':
      return deadlineShortened ? 'ignored' : 'failure';
    case 'EXECUTOR_UNAVAILABLE':
      return failure.details?.reason === 'no_responders' ? 'ignored' : 'failure';
    case 'NETWORK_ERROR':
    case 'WORKER_LOST':
    case 'INTERNAL':
      return 'failure';
    case 'UPSTREAM_ERROR': {
      const status = failure.details?.status;
      if (typeof status !== 'number') return failure.retryable ? 'failure' : 'success';
      return status >= 500 || status === 408 || status === 429 ? 'failure' : 'success';
    }
    case 'OUTCOME_UNKNOWN': // a broken connection is the tool's failure, a cancelled call is not
      return failure.details?.after === 'NETWORK_ERROR' ? 'failure' : 'ignored';
    case 'CANCELLED':
    case 'QUEUE_FULL':
    case 'BREAKER_OPEN': // the executor's breaker for the target
    case 'CALL_IN_PROGRESS':
    case 'IDEMPOTENCY_MISMATCH':
    case 'SERVICE_UNAVAILABLE':
    case 'BUDGET_UNAVAILABLE':
    case 'DEADLINE_EXCEEDED':
      return 'ignored';
    default:
      return 'success';
  }
}
