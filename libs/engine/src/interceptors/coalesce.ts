import { isToolError, type CallResult } from '@toolfleet/contracts';
import { SingleFlight } from '@toolfleet/resilience';
import type { Call, Interceptor } from '../call.js';
import type { EnginePorts } from '../ports.js';

/**
 * Runs identical concurrent idempotent calls once. The first caller pays; the others get the same result marked
 * `metadata.coalesced`. The work ends when the last of them has gone, not when the first has; what stopped only the first
 * one (its budget, its deadline) does not stop the others: they run on their own.
 */
export function coalesce(ports: Pick<EnginePorts, 'meter'>): Interceptor {
  const flights = new SingleFlight<CallResult>();
  return async (call, next) => {
    const { identity, plan, request } = call;
    if (!plan.idempotent || !identity.isShareable || request.idempotencyKey !== undefined || keepsState(call))
      return next(call);
    const key = identity.resultKey;
    const joins = flights.has(key);
    try {
      const { value } = await flights.join(key, call.signal, (signal) => next({ ...call, signal }));
      if (!joins) return value;
      if (!isOfFirstOnly(value)) {
        call.seen.answeredBy = 'coalesced';
        ports.meter.cacheLookup(call.tool.name, 'coalesced');
        return shared(value);
      }
    } catch (thrown) {
      if (!joins || !isToolError(thrown)) throw thrown;
    }
    call.signal.throwIfAborted();
    return next(call);
  };
}

/** A session that goes on from call to call (`n += 1`): the same call twice is two calls, wherever the session is named. */
function keepsState({ tool, request, arguments: args }: Call): boolean {
  return tool.session_aware === true && (request.context.session_id ?? args.session_id) !== undefined;
}

function isOfFirstOnly(result: CallResult): boolean {
  const code = result.failure?.code;
  return code === 'ATTEMPT_TIMED_OUT' || code === 'DEADLINE_EXCEEDED' || code === 'CANCELLED';
}

function shared(result: CallResult): CallResult {
  return {
    ...result,
    usage: { tokens: 0, microUsd: 0 },
    metadata: { ...result.metadata, coalesced: true },
    attempts: 0,
  };
}
