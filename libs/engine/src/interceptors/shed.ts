import { ToolError } from '@toolfleet/contracts';
import { LatencyMedian } from '@toolfleet/resilience';
import { LRUCache } from 'lru-cache';
import type { Interceptor } from '../call.js';

/** Tools whose typical time is kept. */
const MAX_TOOLS = 5_000;
/** What the hops take beside the tool. */
const HOP_RESERVE_MS = 10;
/** One in so many hopeless calls runs all the same: else a tool that became faster would never be noticed. */
const PROBE_EVERY = 10;

/**
 * Refuses work that cannot be finished: less time left than the tool usually takes. An answer now is
 * worth more than the same refusal at the deadline, and the work would be thrown away.
 * @throws ToolError DEADLINE_EXCEEDED
 */
export function shed(): Interceptor {
  const times = new LRUCache<string, { typical: LatencyMedian; refused: number }>({ max: MAX_TOOLS });
  return async (call, next) => {
    let known = times.get(call.tool.name);
    if (!known) times.set(call.tool.name, (known = { typical: new LatencyMedian(), refused: 0 }));
    const neededMs = known.typical.medianMs;
    if (neededMs !== undefined && call.deadline.remainingMs() < neededMs + HOP_RESERVE_MS) {
      known.refused += 1;
      if (known.refused % PROBE_EVERY !== 0) {
        throw new ToolError('DEADLINE_EXCEEDED', {
          message: `'${call.tool.name}' usually takes ${Math.round(neededMs)}ms, which is more than the time left`,
          details: { typical_ms: Math.round(neededMs) },
        });
      }
    }
    const result = await next(call);
    if (result.ok && result.provenance === 'live') known.typical.add(result.timing.execute_ms + result.timing.queue_ms);
    return result;
  };
}
