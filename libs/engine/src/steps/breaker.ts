import { CATALOGUE, isServerFault, ToolError, type CallResult } from '@toolfleet/contracts';
import { RecentMap, type BreakerJudgement } from '@toolfleet/resilience';
import { step, type Step } from '../step.js';
import { breakerParty } from '@toolfleet/contracts/execution';
import { isDeadlineShortened, isExecutorFault } from '../attempt.js';
import type { Call } from '../call.js';
import type { EnginePorts } from '../ports.js';
import { failed } from '../result.js';

/** Tools with a remembered last failure. */
const MAX_TOOLS = 5_000;

/**
 * Fails fast while a tool is down. Outside the retry, so that it counts calls and not attempts. A tenant's calls open the breaker
 * for that tenant alone until others agree (`TargetBreaker`). The refusal is a result, so that fallback can replace it. It names
 * the executor as the cause when the last failure that counted was the executor's.
 */
export function breaker(ports: Pick<EnginePorts, 'breakers'>): Step {
  /** By tool: whether the last failure that counted was the executor's. */
  const executorFaults = new RecentMap<string, boolean>({ max: MAX_TOOLS });
  return step('breaker', (next) => async (call) => {
    // What an interceptor answers says nothing about the tool.
    if (call.active.answer) return next(call);
    const deadlineShortened = isDeadlineShortened(call);
    const outcome = await ports.breakers.run(
      { key: call.tool.name, tenantId: breakerParty(call.input.context) },
      // A probe makes one attempt, so that each tenant sends one request to a tool that may still be down.
      (isProbe) => next(isProbe ? oneAttempt(call) : call),
      (result) => {
        const judgement = call.active.answer ? 'ignored' : judge(result, deadlineShortened);
        if (judgement === 'failure') executorFaults.set(call.tool.name, isExecutorFault(result.failure!));
        return judgement;
      },
    );
    if (!outcome.refused) return outcome.value;
    const isExecutors = executorFaults.get(call.tool.name);
    return failed(
      new ToolError('BREAKER_OPEN', {
        message: `Circuit breaker open for ${call.tool.name} (too many failures)`,
        details: { tool: call.tool.name, cause: isExecutors ? 'executor' : undefined },
        facts: isExecutors ? { blame: 'executor' } : undefined,
        retryAfterMs: outcome.retryAfterMs,
      }),
    );
  });
}

/**
 * Judges a tool by the outcome of a call. Counted as failures: the tool could not be reached, did not answer in
 * time, or answered 5xx, 408 or 429. A report about its input (4xx, an error in the code it ran) proves that it works.
 * Ignored: a time-out of an attempt that had less time than its tool may take (`deadlineShortened`); a target that the caller
 * chose, such as the address of a page; and an executor that is not running, because the broker reports that at
 * once and an open breaker would refuse calls for half a minute after the executor is back.
 */
export function judge({ failure }: CallResult, deadlineShortened = false): BreakerJudgement {
  if (!failure) return 'success';
  const { code, facts = {}, retryable } = failure;
  if (facts.blame === 'caller' || facts.noResponders) return 'ignored';
  if (code === 'ATTEMPT_TIMED_OUT' && deadlineShortened) return 'ignored';
  if (facts.status !== undefined) return isServerFault(facts.status) ? 'failure' : 'success';
  // A connection that broke leaves the outcome unknown and is the target's failure; a cancelled call is not.
  if (code === 'OUTCOME_UNKNOWN' && facts.blame === 'target') return 'failure';
  const { breaker: judgement } = CATALOGUE[code];
  if (judgement !== 'if_retryable') return judgement;
  return retryable ? 'failure' : 'success';
}

function oneAttempt(call: Call): Call {
  return { ...call, request: { ...call.request, limits: { ...call.request.limits, noRetry: true } } };
}
