import type { CallResult } from '@toolfleet/contracts';
import { Coalescer } from '@toolfleet/resilience';
import { callKey } from '../call-key.js';
import type { Interceptor } from '../call.js';
import type { EnginePorts } from '../ports.js';

/**
 * Runs identical concurrent idempotent calls once. The first caller pays; the others get the same result marked
 * `metadata.coalesced`. The work ends when the last of them has gone, not when the first has.
 */
export function coalesce(ports: Pick<EnginePorts, 'meter'>): Interceptor {
  const flights = new Coalescer<CallResult>();
  return async (call, next) => {
    if (!call.plan.idempotent || call.request.idempotencyKey !== undefined || call.request.noRetry) return next(call);
    const { value, joined } = await flights.join(callKey(call), call.signal, (signal) => next({ ...call, signal }));
    if (!joined) return value;
    call.seen.answeredBy = 'coalesced';
    ports.meter.cacheLookup(call.tool.name, 'coalesced');
    return {
      ...value,
      usage: { tokens: 0, microUsd: 0 },
      metadata: { ...value.metadata, coalesced: true },
      attempts: 0,
    };
  };
}
