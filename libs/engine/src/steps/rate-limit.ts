import { ToolError, type CallResult } from '@toolfleet/contracts';
import type { Rate, RateDecision } from '@toolfleet/resilience';
import type { Call } from '../call.js';
import { step, type Step, type Next } from '../step.js';
import type { EnginePorts } from '../ports.js';
import { rateKey } from '../tool-plan.js';

/**
 * Takes one token per call. Without a token it refuses the call, or waits for one within the deadline where the definition says
 * `rate_limit_mode: wait`.
 * @throws ToolError RATE_LIMITED with the time until the next token
 */
export function rateLimit(ports: Pick<EnginePorts, 'rateLimiter' | 'meter' | 'clock'>): Step {
  return step('rate limit', (next) => (call) => {
    const { rate } = call.plan;
    if (!rate) return next(call);
    const decision = ports.rateLimiter.take(rateKey(call.request.principal.tenantId, call.tool.name), rate);
    if (decision instanceof Promise || !decision.allowed) return waitOrRefuse(call, rate, decision, next);
    ports.meter.tokensAvailable(call.tool, decision.remaining);
    return next(call);
  });

  async function waitOrRefuse(
    call: Call,
    rate: Rate,
    first: RateDecision | Promise<RateDecision>,
    next: Next,
  ): Promise<CallResult> {
    const key = rateKey(call.request.principal.tenantId, call.tool.name);
    for (let answer = first; ; answer = ports.rateLimiter.take(key, rate)) {
      const decision = await answer;
      ports.meter.tokensAvailable(call.tool, decision.remaining);
      if (decision.allowed) return next(call);
      if (call.plan.waitsForRate && decision.retryAfterMs < call.deadline.remainingMs()) {
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
  }
}
