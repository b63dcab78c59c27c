import { ToolError, type CallResult } from '@toolfleet/contracts';
import type { BreakerJudgement } from '@toolfleet/resilience';
import type { Interceptor } from '../call.js';
import { isCurtailed } from '../deadline-shortened.js';
import { failed } from '../outcome.js';
import type { EnginePorts } from '../ports.js';

/**
 * Fails fast while a tool is down. Outside the retry, so that it counts calls and not attempts; each tenant's calls open it for
 * that tenant alone until others agree (`TargetBreaker`). The refusal is a value with BREAKER_OPEN: fallback may answer it.
 */
export function breaker(ports: Pick<EnginePorts, 'breakers'>): Interceptor {
  return async (call, next) => {
    const deadlineShortened = isCurtailed(call);
    const outcome = await ports.breakers.run(
      { key: call.tool.name, tenantId: call.request.principal.tenantId },
      // A probe asks once: a target that is down is not asked three times by each tenant.
      (isProbe) => next(isProbe ? { ...call, request: { ...call.request, noRetry: true } } : call),
      (result) => judge(result, deadlineShortened),
    );
    if (!outcome.refused) return outcome.value;
    return failed(
      new ToolError('BREAKER_OPEN', {
        message: `Circuit breaker open for ${call.tool.name} (too many failures)`,
        details: { tool: call.tool.name },
        retryAfterMs: outcome.retryAfterMs,
      }),
    );
  };
}

/**
 * What counts against a tool: it could not be reached, did not answer in time, or answered 5xx, 408 or 429.
 * What a tool says about its input (4xx, an error in the code it ran) shows that it works. Time that was too short by the
 * caller's wish (`deadlineShortened`) says nothing, nor does a target the caller chose, such as the address of a page. An executor that
 * is not there (`no_responders`) is reported by the broker at once: there is no time to save, and an open breaker would refuse calls
 * for half a minute after the executor is back.
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
    case 'OUTCOME_UNKNOWN': // a connection that broke says more about the tool than a caller who left
      return failure.details?.after === 'NETWORK_ERROR' ? 'failure' : 'ignored';
    case 'CANCELLED':
    case 'QUEUE_FULL':
    case 'BREAKER_OPEN': // of the target, in the executor
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
