import { isToolError, type CallResult } from '@toolfleet/contracts';
import { SingleFlight } from '@toolfleet/resilience';
import type { Call } from '../call.js';
import { step, type Step } from '../step.js';
import type { EnginePorts } from '../ports.js';

/**
 * Runs identical concurrent calls of an idempotent tool once. The first caller pays; the others get the same result, marked with
 * `metadata.coalesced`. The work is cancelled when the last caller is gone. An error that concerns the first caller only, such as
 * its budget or its deadline, does not reach the others: they run on their own.
 */
export function singleFlight(ports: Pick<EnginePorts, 'meter'>): Step {
  const flights = new SingleFlight<CallResult>();
  return step('single flight', (next) => async (call) => {
    const { identity, plan, request } = call;
    if (!plan.idempotent || !identity.isShareable || request.reuse.idempotencyKey !== undefined || keepsState(call))
      return next(call);
    if (request.reuse.cache !== undefined || plan.hasEffects) return next(call);
    // A call joins no run that began before the last effect on its source, and none when that is unknown.
    if (plan.mutableSource && call.cacheVersion === undefined) return next(call);
    const key = plan.mutableSource ? `${call.cacheVersion} ${identity.resultKey}` : identity.resultKey;
    const joins = flights.has(key);
    try {
      const { value } = await flights.join(key, call.signal, (signal) => next({ ...call, signal }));
      if (!joins) return value;
      if (!endedByFirstCaller(value)) {
        ports.meter.cacheLookup(call.tool, 'coalesced');
        return toSharedResult(value);
      }
    } catch (thrown) {
      if (!joins || !isToolError(thrown)) throw thrown;
    }
    call.signal.throwIfAborted();
    return next(call);
  });
}

/** True for a call in a session with state (`n += 1`): two equal calls are two steps of it. The session may be an argument. */
function keepsState({ tool, request, arguments: args }: Call): boolean {
  return tool.session_aware === true && (request.context.session_id ?? args.session_id) !== undefined;
}

function endedByFirstCaller(result: CallResult): boolean {
  const code = result.failure?.code;
  // A server's question to one caller is not for another.
  return (
    code === 'INPUT_REQUIRED' || code === 'ATTEMPT_TIMED_OUT' || code === 'DEADLINE_EXCEEDED' || code === 'CANCELLED'
  );
}

function toSharedResult(result: CallResult): CallResult {
  return {
    ...result,
    usage: { tokens: 0, microUsd: 0 },
    metadata: { ...result.metadata, coalesced: true },
    attempts: 0,
  };
}
