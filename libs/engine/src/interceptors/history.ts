import type { CallResult } from '@toolfleet/contracts';
import { callKey } from '../call-key.js';
import type { Interceptor } from '../call.js';
import type { EnginePorts } from '../ports.js';

/**
 * A call already made in this session gets the result it got then, for idempotent tools only. Tools that
 * declare `cache_ttl_seconds: 0` are left out: they say that every call counts.
 */
export function history(ports: Pick<EnginePorts, 'history' | 'settings'>): Interceptor {
  const { historyTtlMs } = ports.settings;
  return async (call, next) => {
    const session = call.request.context.session_id;
    if (typeof session !== 'string' || call.plan.cacheTtlMs === 0 || call.request.idempotencyKey !== undefined)
      return next(call);
    const sessionKey = JSON.stringify([call.request.principal.tenantId, session]);
    const asked = ports.history.get(sessionKey, callKey(call));
    const earlier = asked instanceof Promise ? await asked : asked;
    if (earlier) {
      call.seen.answeredBy = 'history';
      return repeated(earlier);
    }
    const result = await next(call);
    if (result.ok && result.provenance === 'live') ports.history.put(sessionKey, callKey(call), result, historyTtlMs);
    return result;
  };
}

function repeated(result: CallResult): CallResult {
  return {
    ...result,
    provenance: 'cache',
    usage: { tokens: 0, microUsd: 0 },
    metadata: { ...result.metadata, from_cache: 'true', repeated_in_session: true },
    timing: { queue_ms: 0, wait_ms: 0, execute_ms: 0 },
    attempts: 0,
  };
}
