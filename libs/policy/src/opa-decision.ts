import type { PolicyDecision, PolicyInput } from './policy-engine.js';

/** Paths of the two parts of a decision in OPA's data API. */
export const OPA_PATHS = { deny: '/v1/data/tools/deny', ask: '/v1/data/tools/ask' } as const;

/** An answer of OPA's data API. */
export interface OpaAnswer {
  status: number;
  body: unknown;
}

/** Body of the question to an OPA server. */
export function opaQuestion(input: PolicyInput): string {
  return JSON.stringify({ input });
}

/**
 * The decision in two answers of OPA's data API. A `deny` without `result` means that no such rule exists there: that is a
 * denial, since a sidecar with another policy must not read as "allowed". Rules that ask are nobody's duty.
 */
export function opaDecision(denies: OpaAnswer, asks: OpaAnswer): PolicyDecision {
  const deny = messagesOf(denies);
  if (!deny) return notEvaluated(denies);
  if (deny.length > 0) return { deny };
  const ask = asks.status === 200 && resultOf(asks) === undefined ? [] : messagesOf(asks);
  if (!ask) return notEvaluated(asks);
  return ask.length > 0 ? { deny, ask } : { deny };
}

function messagesOf(answer: OpaAnswer): string[] | undefined {
  const result = resultOf(answer);
  if (answer.status !== 200 || !Array.isArray(result)) return undefined;
  return result.map((message) => (typeof message === 'string' ? message : JSON.stringify(message)));
}

function resultOf({ body }: OpaAnswer): unknown {
  return typeof body === 'object' && body !== null ? (body as { result?: unknown }).result : undefined;
}

const notEvaluated = ({ status }: OpaAnswer): PolicyDecision => ({
  deny: [`the policy could not be evaluated: OPA answered ${status} without a list`],
});
