import { costNothing, type CallResult } from '@toolfleet/contracts';
import { LatencyMedian } from '@toolfleet/resilience';
import { LRUCache } from 'lru-cache';
import type { Interceptor } from '../call.js';
import type { EnginePorts } from '../ports.js';

/** A result that took less than this is not worth a place in the shared cache: looking there costs more than the work. */
const SHARED_FROM_MS = 5;
/** Tools whose typical time is kept. */
const MAX_TOOLS = 5_000;

/**
 * Answers an idempotent call from the cache, free of quota and budget, and stores successful live results.
 * Calls with an idempotency key pass by: their first outcome is in the journal, and that is the one to replay.
 */
export function cache(ports: Pick<EnginePorts, 'cache' | 'meter' | 'settings' | 'clock'>): Interceptor {
  const { staleTtlMs } = ports.settings;
  const times = new LRUCache<string, LatencyMedian>({ max: MAX_TOOLS });
  return async (call, next) => {
    const freshMs = call.plan.cacheTtlMs;
    // A TTL of 0 says that a result must never stand for another call, not even as a stale substitute.
    const { identity } = call;
    if (!call.plan.idempotent || freshMs === 0 || !identity.isShareable || call.request.idempotencyKey !== undefined)
      return next(call);
    const key = identity.resultKey;
    let typical = times.get(call.tool.name);
    if (!typical) times.set(call.tool.name, (typical = new LatencyMedian()));
    const shared = (typical.medianMs ?? SHARED_FROM_MS) >= SHARED_FROM_MS;
    const lookup = ports.cache.get(key, shared);
    const cached = lookup instanceof Promise ? await lookup : lookup;
    if (cached) {
      call.seen.answeredBy = 'cache';
      ports.meter.cacheLookup(call.tool.name, 'hit');
      return fromCache(cached.result, ports.clock.now() - cached.storedAt);
    }
    ports.meter.cacheLookup(call.tool.name, 'miss');
    const result = await next(call);
    if (result.ok && result.provenance === 'live') {
      typical.add(result.timing.execute_ms + result.timing.queue_ms);
      ports.cache.set(key, result, {
        freshMs,
        staleMs: staleTtlMs,
        shared,
        tenantId: call.request.principal.tenantId,
      });
    }
    return result;
  };
}

function fromCache(result: CallResult, ageMs: number): CallResult {
  return {
    ...result,
    provenance: 'cache',
    ...costNothing(),
    metadata: { ...result.metadata, from_cache: 'true', cache_age_ms: Math.max(0, Math.round(ageMs)) },
  };
}
