import { costNothing, type CallResult } from '@toolfleet/contracts';
import type { Interceptor } from '../call.js';
import type { EnginePorts } from '../ports.js';

/**
 * A call already made in this session gets the result it got then, for idempotent tools only. Tools that
 * declare `cache_ttl_seconds: 0` are left out: they say that every call counts.
 */
export function history(ports: Pick<EnginePorts, 'history' | 'settings'>): Interceptor {
  const { historyTtlMs } = ports.settings;
  return async (call, next) => {
    const { identity, plan, request } = call;
    if (plan.cacheTtlMs === 0 || !identity.isShareable || request.idempotencyKey !== undefined) return next(call);
    const { sessionKey } = identity;
    if (sessionKey === undefined) return next(call);
    const asked = ports.history.get(sessionKey, identity.resultKey);
    const earlier = asked instanceof Promise ? await asked : asked;
    if (earlier) {
      call.seen.answeredBy = 'history';
      return repeated(earlier);
    }
    const result = await next(call);
    if (result.ok && result.provenance === 'live')
      ports.history.put(sessionKey, identity.resultKey, result, historyTtlMs);
    return result;
  };
}

function repeated(result: CallResult): CallResult {
  return {
    ...result,
    provenance: 'cache',
    ...costNothing(),
    metadata: { ...result.metadata, from_cache: 'true', repeated_in_session: true },
  };
}
