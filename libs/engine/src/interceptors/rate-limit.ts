import { ToolError } from '@toolfleet/contracts';
import type { Interceptor } from '../call.js';
import type { EnginePorts } from '../ports.js';
import { rateKey } from '../tool-plan.js';

/**
 * Takes one token per call. Without a token it refuses the call, or waits for one within the deadline where the definition says
 * `rate_limit_mode: wait`.
 * @throws ToolError RATE_LIMITED with the time until the next token
 */
export function rateLimit(ports: Pick<EnginePorts, 'rateLimiter' | 'meter' | 'clock'>): Interceptor {
  return async (call, next) => {
    const { rate, waitsForRate } = call.plan;
    if (!rate) return next(call);
    const key = rateKey(call.request.principal.tenantId, call.tool.name);
    for (;;) {
      const answer = ports.rateLimiter.take(key, rate);
      const decision = answer instanceof Promise ? await answer : answer;
      ports.meter.tokensAvailable(call.tool, decision.remaining);
      if (decision.allowed) return next(call);
      if (waitsForRate && decision.retryAfterMs < call.deadline.remainingMs()) {
        const from = ports.clock.monotonic();
        await ports.clock.sleep(decision.retryAfterMs, call.signal);
        call.active.waitedMs += ports.clock.monotonic() - from;
        continue;
      }
      ports.meter.rateLimited(call.tool);
      throw new ToolError('RATE_LIMITED', {
        message: `Rate limit exceeded: ${rate.perPeriod}/min`,
        details: { tool: call.tool.name, limit: rate.perPeriod, window_ms: rate.periodMs },
        retryAfterMs: decision.retryAfterMs,
      });
    }
  };
}
