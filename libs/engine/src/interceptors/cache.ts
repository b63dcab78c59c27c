import { costNothing, type CallResult } from '@toolfleet/contracts';
import type { Interceptor } from '../call.js';
import type { EnginePorts } from '../ports.js';
import type { ToolLatencies } from './load-shedding.js';

/** Tools that are faster than this are not looked up in the shared cache: the lookup would take longer than the work. */
const SHARED_FROM_MS = 5;

/**
 * Answers idempotent calls from the cache, without using quota or budget, and stores successful live results. Calls with an
 * idempotency key bypass the cache: the journal has their first outcome, and that one must be replayed.
 */
export function cache(
  ports: Pick<EnginePorts, 'cache' | 'meter' | 'settings' | 'clock'>,
  latencies: ToolLatencies,
): Interceptor {
  const { staleTtlMs } = ports.settings;
  return async (call, next) => {
    const { identity, plan, request, tool } = call;
    const freshMs = plan.cacheTtlMs;
    // A TTL of 0 also keeps results out of the stale cache.
    if (!plan.idempotent || freshMs === 0 || !identity.isShareable || request.idempotencyKey !== undefined)
      return next(call);
    const key = identity.resultKey;
    const shared = (latencies.medianMs(call) ?? SHARED_FROM_MS) >= SHARED_FROM_MS;
    const lookup = ports.cache.get(key, shared);
    const cached = lookup instanceof Promise ? await lookup : lookup;
    if (cached) {
      ports.meter.cacheLookup(tool.name, 'hit');
      return toCachedResult(cached.result, ports.clock.now() - cached.storedAt);
    }
    ports.meter.cacheLookup(tool.name, 'miss');
    const result = await next(call);
    if (result.ok && result.provenance === 'live') {
      ports.cache.set(key, result, { freshMs, staleMs: staleTtlMs, shared, tenantId: request.principal.tenantId });
    }
    return result;
  };
}

function toCachedResult(result: CallResult, ageMs: number): CallResult {
  return {
    ...result,
    provenance: 'cache',
    ...costNothing(),
    metadata: { ...result.metadata, from_cache: 'true', cache_age_ms: Math.max(0, Math.round(ageMs)) },
  };
}
