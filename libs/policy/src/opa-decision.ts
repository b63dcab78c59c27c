import { readAsked } from './asked.js';
import type { PolicyDecision, PolicyInput } from './policy-engine.js';
import { toExactJson } from '@toolfleet/contracts/json-text';

/** The data API of Open Policy Agent (OPA): requests for decisions, and how to read the responses. */

/** Paths of the two parts of a decision. */
export const OPA_PATHS = { deny: '/v1/data/tools/deny', ask: '/v1/data/tools/ask' } as const;

/** A response of OPA's data API. */
export interface OpaResponse {
  status: number;
  body: unknown;
}

/** Request body for both paths. */
export function opaRequestBody(input: PolicyInput): string {
  return toExactJson({ input });
}

/**
 * Combines the responses for `deny` and `ask` into a decision. A response without `result` means that the policy of the server has no such
 * rule. For `deny` this is a denial, because a server with a different policy must not allow calls; `ask` rules are optional.
 */
export function opaDecision(denyResponse: OpaResponse, askResponse: OpaResponse): PolicyDecision {
  const deny = readMembers(denyResponse)?.map(toMessage);
  if (!deny) return notEvaluated(denyResponse);
  if (deny.length > 0) return { deny };
  const ask = askResponse.status === 200 && readResult(askResponse) === undefined ? [] : readMembers(askResponse);
  if (!ask) return notEvaluated(askResponse);
  try {
    return { deny, ...readAsked(ask, toMessage) };
  } catch (error) {
    return { deny: [`the policy could not be evaluated: ${(error as Error).message}`] };
  }
}

function readMembers(response: OpaResponse): unknown[] | undefined {
  const result = readResult(response);
  return response.status === 200 && Array.isArray(result) ? result : undefined;
}

const toMessage = (member: unknown): string => (typeof member === 'string' ? member : JSON.stringify(member));

function readResult({ body }: OpaResponse): unknown {
  return typeof body === 'object' && body !== null ? (body as { result?: unknown }).result : undefined;
}

const notEvaluated = ({ status }: OpaResponse): PolicyDecision => ({
  deny: [`the policy could not be evaluated: OPA answered ${status} without a list`],
});
