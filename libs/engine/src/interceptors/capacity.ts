import { ToolError } from '@toolfleet/contracts';
import type { Interceptor } from '../call.js';
import type { EnginePorts } from '../ports.js';

/** Told to callers that were refused: a call takes seconds at most, a second later there is room. */
const RETRY_AFTER_MS = 1_000;

/**
 * Bounds the calls in flight. Refuses at once instead of letting
 * a line grow, before anything is held or counted. From half full on no tenant holds more than its share.
 * @throws ToolError QUEUE_FULL
 */
export function capacity(ports: Pick<EnginePorts, 'settings'>): Interceptor {
  const { maxConcurrentCalls: most } = ports.settings;
  const running = new Map<string, number>();
  let total = 0;
  return async (call, next) => {
    const { tenantId } = call.request.principal;
    const own = running.get(tenantId) ?? 0;
    const tenants = running.size + (own === 0 ? 1 : 0);
    if (total >= most || (total >= most / 2 && own >= most / tenants)) {
      throw new ToolError('QUEUE_FULL', {
        message: 'Too many calls are running',
        details: { running: total, limit: most },
        retryAfterMs: RETRY_AFTER_MS,
      });
    }
    total += 1;
    running.set(tenantId, own + 1);
    try {
      return await next(call);
    } finally {
      total -= 1;
      const left = (running.get(tenantId) ?? 1) - 1;
      if (left > 0) running.set(tenantId, left);
      else running.delete(tenantId);
    }
  };
}
