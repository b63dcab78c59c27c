import { ToolError } from '@toolfleet/contracts';
import { step, type Step } from '../step.js';
import type { EnginePorts } from '../ports.js';

/** Most calls end within seconds, so a second later there is room. */
const RETRY_AFTER_MS = 1_000;

/**
 * Limits the calls in flight. Refuses at once instead of queueing, before anything is reserved or counted. While more than half
 * of the slots are taken, no tenant gets more than its equal share of them.
 * @throws ToolError QUEUE_FULL
 */
export function concurrencyLimit(ports: Pick<EnginePorts, 'settings'>): Step {
  const { maxConcurrentCalls: limit } = ports.settings;
  const inFlight = new Map<string, number>();
  let total = 0;
  return step('concurrency limit', async (call, next) => {
    const { tenantId } = call.request.principal;
    const own = inFlight.get(tenantId) ?? 0;
    const tenants = inFlight.size + (own === 0 ? 1 : 0);
    if (total >= limit || (total >= limit / 2 && own >= limit / tenants)) {
      throw new ToolError('QUEUE_FULL', {
        message: 'Too many calls are running',
        details: { running: total, limit },
        retryAfterMs: RETRY_AFTER_MS,
      });
    }
    total += 1;
    inFlight.set(tenantId, own + 1);
    try {
      return await next(call);
    } finally {
      total -= 1;
      const left = (inFlight.get(tenantId) ?? 1) - 1;
      if (left > 0) inFlight.set(tenantId, left);
      else inFlight.delete(tenantId);
    }
  });
}
