import { costNothing, type CallResult, type Succeeded } from '@toolfleet/contracts';
import type { Call } from '../call.js';
import { step, type Step, type Next } from '../step.js';
import type { EnginePorts } from '../ports.js';

/**
 * Answers a call that was made before in the same session with its earlier result, for idempotent builtin tools only: results of
 * other sources change with calls that this process may not see, so only the cache repeats them. Tools with
 * `cache_ttl_seconds: 0` are exempt: each of their calls counts.
 */
export function sessionDedupe(ports: Pick<EnginePorts, 'sessionResults' | 'settings'>): Step {
  const { sessionTtlMs } = ports.settings;
  return step('session dedupe', (next) => (call) => {
    const { identity, plan, request } = call;
    if (plan.cacheTtlMs === 0 || !identity.isShareable || request.reuse.idempotencyKey !== undefined) return next(call);
    if (plan.mutableSource || request.reuse.cache !== undefined) return next(call);
    const { sessionKey } = identity;
    return sessionKey === undefined ? next(call) : repeatOrRun(call, sessionKey, next);
  });

  async function repeatOrRun(call: Call, sessionKey: string, next: Next): Promise<CallResult> {
    const { resultKey } = call.identity;
    const lookup = ports.sessionResults.get(sessionKey, resultKey);
    const earlier = lookup instanceof Promise ? await lookup : lookup;
    if (earlier) return toRepeatedResult(earlier);
    const result = await next(call);
    if (result.ok && result.provenance === 'live')
      ports.sessionResults.put(sessionKey, resultKey, result, sessionTtlMs);
    return result;
  }
}

function toRepeatedResult(result: Succeeded): Succeeded {
  return {
    ...result,
    provenance: 'cache',
    ...costNothing(),
    metadata: { ...result.metadata, from_cache: true, repeated_in_session: true },
  };
}
