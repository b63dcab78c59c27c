import type { PolicyDecision, PolicyInput } from './policy-engine.js';

/** Path of the decision in OPA's data API. */
export const OPA_PATH = '/v1/data/tools/deny';

/** Body of the question to an OPA server. */
export function opaQuestion(input: PolicyInput): string {
  return JSON.stringify({ input });
}

/**
 * The decision in an answer of OPA's data API. An answer without `result` means that no such rule exists there: that is a
 * denial, since a sidecar with another policy must not read as "allowed".
 */
export function opaDecision(status: number, body: unknown): PolicyDecision {
  const result = typeof body === 'object' && body !== null ? (body as { result?: unknown }).result : undefined;
  if (status !== 200 || !Array.isArray(result))
    return { deny: [`the policy could not be evaluated: OPA answered ${status} without a list`] };
  return { deny: result.map((message) => (typeof message === 'string' ? message : JSON.stringify(message))) };
}
