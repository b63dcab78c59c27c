import type { ErrorCode } from '@toolfleet/contracts';

/** Checks of a call that rules belong to, in their order. */
const CHECKS = ['policy', 'rate_limit', 'budget'] as const;
export type Check = (typeof CHECKS)[number];

/** How far a call got, as it is recorded. */
export interface Refused {
  transport: string;
  code: string | null;
}

/** The last check that a call had come to when it was refused with a code; null: it ended before all. Codes that are not here leave it open. */
const LAST_CHECK: Partial<Record<ErrorCode, Check | null>> = {
  REQUEST_INVALID: null,
  ARGUMENTS_INVALID: null,
  SPEC_INVALID: null,
  UNAUTHENTICATED: null,
  PERMISSION_DENIED: null,
  TOOL_DANGEROUS: null,
  TOOL_QUARANTINED: null,
  TOOL_NOT_FOUND: null,
  NOT_FOUND: null,
  PAYLOAD_TOO_LARGE: null,
  POLICY_DENIED: 'policy',
  APPROVAL_REQUIRED: 'policy',
  APPROVAL_DECLINED: 'policy',
  IDEMPOTENCY_MISMATCH: 'policy',
  CALL_IN_PROGRESS: 'policy',
  QUOTA_EXCEEDED: 'policy',
  RATE_LIMITED: 'rate_limit',
  BUDGET_EXCEEDED: 'budget',
  TOKEN_LIMIT_EXCEEDED: 'budget',
  BUDGET_UNAVAILABLE: 'budget',
  BREAKER_OPEN: 'budget',
  EXECUTOR_UNAVAILABLE: 'budget',
};

/** Whether a recorded call came to a check; undefined if its record does not say how far it got. */
export function hasReached(check: Check, { transport, code }: Refused): boolean | undefined {
  // Whatever was sent to its tool has passed all of them.
  if (transport !== 'not_sent') return true;
  // A cached or repeated result answered it, after the policy.
  const last = code === null ? 'policy' : LAST_CHECK[code as ErrorCode];
  if (last === undefined) return undefined;
  return last !== null && CHECKS.indexOf(last) >= CHECKS.indexOf(check);
}
