import { ToolError } from '@toolfleet/contracts';
import type { Call, Interceptor } from '../call.js';
import type { EnginePorts } from '../ports.js';
import { rateKeyOf } from '../tool-rate.js';

/** The bucket a call is counted in. */
export function rateKey(call: Pick<Call, 'request' | 'tool'>): string {
  return rateKeyOf(call.request.principal.tenantId, call.tool.name);
}

/**
 * One token per call. Refuses at once, or waits inside the deadline where the tool says so.
 * @throws ToolError RATE_LIMITED with the time until the next token
 */
export function rateLimit(ports: Pick<EnginePorts, 'rateLimiter' | 'meter' | 'clock'>): Interceptor {
  return async (call, next) => {
    const { rate, waitsForRate } = call.plan;
    if (!rate) return next(call);
    const key = rateKey(call);
    for (;;) {
      const answer = ports.rateLimiter.take(key, rate);
      const decision = answer instanceof Promise ? await answer : answer;
      ports.meter.tokensAvailable(call.tool.name, decision.remaining);
      if (decision.allowed) return next(call);
      if (waitsForRate && decision.retryAfterMs < call.deadline.remainingMs()) {
        const from = ports.clock.monotonic();
        await ports.clock.sleep(decision.retryAfterMs, call.signal);
        call.seen.waitedMs += ports.clock.monotonic() - from;
        continue;
      }
      ports.meter.rateLimited(call.tool.name);
      throw new ToolError('RATE_LIMITED', {
        message: `Rate limit exceeded: ${rate.perPeriod}/min`,
        details: { tool: call.tool.name, limit: rate.perPeriod, window_ms: rate.periodMs },
        retryAfterMs: decision.retryAfterMs,
      });
    }
  };
}
