import { blankResult, toUsd, type CallResult, type JsonObject } from '@toolfleet/contracts';
import type { Call } from './call.js';
import { rateKey } from './interceptors/rate-limit.js';
import type { EnginePorts } from './ports.js';
import { scopesOf } from './usage.js';

/**
 * Everything up to the price, nothing run and nothing counted: a call that gets here was found, allowed, valid and let
 * through by the policy. Shows the arguments as the tool would get them, what it would cost and what is left.
 */
export async function answerDryRun(
  ports: Pick<EnginePorts, 'rateLimiter' | 'budget' | 'breakers'>,
  call: Call,
): Promise<CallResult> {
  const { plan, tool, seen } = call;
  const [tokensLeft, budget] = await Promise.all([
    plan.rate ? ports.rateLimiter.peek(rateKey(call), plan.rate) : null,
    ports.budget.limits(scopesOf(call), call.signal),
  ]);
  const output: JsonObject = {
    dry_run: true,
    tool: tool.name,
    revision: tool.revision,
    arguments: call.arguments,
    coercions: seen.coercions.map((coercion) => ({ ...coercion })),
    dropped_arguments: [...seen.dropped],
    policy: { allowed: true },
    cost: { cost_usd: toUsd(plan.microUsd), reserved_usd: toUsd(plan.reserveMicroUsd) },
    limits: {
      rate_limit_per_minute: plan.rate?.perPeriod ?? null,
      rate_limit_remaining: tokensLeft,
      budget: budget.limits.map((limit) => ({ ...limit })),
    },
    timeout_ms: call.timeoutMs,
    idempotent: plan.idempotent,
    max_attempts: plan.retry.maxAttempts,
    breaker: ports.breakers.stateOf(tool.name),
  };
  return blankResult({
    ok: true,
    output,
    text: `Dry run of '${tool.name}': the call is valid and allowed; nothing was run.`,
    metadata: { dry_run: true },
  });
}
