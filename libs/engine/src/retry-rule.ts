import type { ErrorClass, ErrorCode, ExecutionFailure } from '@toolfleet/contracts';
import type { RegisteredTool, RetryPolicy } from '@toolfleet/contracts/tool-definition';
import type { Backoff } from '@toolfleet/resilience';
import type { EngineSettings } from './settings.js';

/** When a call of a tool is tried again; derived from the definition. */
export interface RetryRule {
  maxAttempts: number;
  backoff: Backoff;
  /** Classes that are tried again; `any` is every failure of an execution. */
  on: ReadonlySet<ErrorClass> | 'any';
}

/** Never repeated, whatever a policy says: the answer would be the same, or the effect would be there twice. */
const NEVER: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'ARGUMENTS_INVALID',
  'REQUEST_INVALID',
  'POLICY_DENIED',
  'APPROVAL_REQUIRED',
  'BUDGET_EXCEEDED',
  'TOKEN_LIMIT_EXCEEDED',
  'BUDGET_UNAVAILABLE',
  'BREAKER_OPEN',
  'CANCELLED',
  'OUTCOME_UNKNOWN',
  'EGRESS_REFUSED',
  'AUTH_NOT_CONFIGURED',
  'RESULT_TOO_LARGE',
  'WORKER_LOST',
  'CALL_IN_PROGRESS',
  'IDEMPOTENCY_MISMATCH',
  'DEADLINE_EXCEEDED',
]);

const NETWORK: ReadonlySet<ErrorClass> = new Set<ErrorClass>(['timeout', 'network_error']);
const NO_BACKOFF: Backoff = { baseMs: 0, multiplier: 1, capMs: 0 };
/** Wait before an attempt that never reached its executor is sent again. */
const REDELIVERY_BACKOFF: Backoff = { baseMs: 100, multiplier: 2, capMs: 1_000 };
/** Attempts in all for calls that only failed to reach an executor (retried once). */
const REDELIVERY_ATTEMPTS = 2;

const NONE: RetryRule = { maxAttempts: 1, backoff: NO_BACKOFF, on: NETWORK };
/** Of idempotent tools at a distance: 3 attempts, 1 s, cap 10 s, full jitter. */
const NETWORK_RULE: RetryRule = {
  maxAttempts: 3,
  backoff: { baseMs: 1_000, multiplier: 2, capMs: 10_000 },
  on: NETWORK,
};
/** Of tools that declare `idempotent`: any failure, one retry soon. */
const IDEMPOTENT_RULE: RetryRule = {
  maxAttempts: 2,
  backoff: { baseMs: 200, multiplier: 1.5, capMs: 10_000 },
  on: 'any',
};
/** A definition may not ask for more. */
const MAX_ATTEMPTS = 10;

/** Rule of a tool: declared, else derived. A tool that is not idempotent is never repeated once an attempt may have begun. */
export function retryRuleOf(tool: RegisteredTool, settings: Pick<EngineSettings, 'attempts'>): RetryRule {
  if (tool.idempotent !== true) return NONE;
  return tool.retry_policy ? ruleOf(tool.retry_policy) : derived(tool, settings);
}

function ruleOf(policy: RetryPolicy): RetryRule {
  switch (policy.kind) {
    case 'none':
      return NONE;
    case 'network':
      return NETWORK_RULE;
    case 'idempotent':
      return IDEMPOTENT_RULE;
    case 'custom':
      return {
        maxAttempts: Math.max(1, Math.min(MAX_ATTEMPTS, Math.floor(policy.max_attempts))),
        backoff: { baseMs: policy.base_delay_ms, multiplier: policy.multiplier, capMs: policy.max_delay_ms ?? 10_000 },
        on: policy.on ? new Set(policy.on) : NETWORK,
      };
  }
}

function derived({ binding: { kind } }: RegisteredTool, { attempts }: Pick<EngineSettings, 'attempts'>): RetryRule {
  return kind === 'mcp' || kind === 'openapi' ? { ...NETWORK_RULE, maxAttempts: attempts[kind] } : NONE;
}

/** True when the attempt provably never began: nothing happened, so repeating is harmless for every tool. */
export function neverStarted(failure: ExecutionFailure): boolean {
  const { started, reason } = failure.details ?? {};
  if (failure.code === 'QUEUE_FULL') return started === false;
  return failure.code === 'EXECUTOR_UNAVAILABLE' && (started === false || reason === 'no_responders');
}

/** Whether a failure is tried again, and with which wait. `again: undefined` is no. */
export function repeats(
  rule: RetryRule,
  idempotent: boolean,
  failure: ExecutionFailure,
  attempt: number,
): Backoff | undefined {
  if (NEVER.has(failure.code)) return undefined;
  if (failure.code === 'EXECUTOR_UNAVAILABLE' || neverStarted(failure)) {
    if (attempt < Math.max(rule.maxAttempts, REDELIVERY_ATTEMPTS) && (idempotent || neverStarted(failure)))
      return REDELIVERY_BACKOFF;
    return undefined;
  }
  if (attempt >= rule.maxAttempts) return undefined;
  if (rule.on === 'any') return rule.backoff;
  return rule.on.has(failure.errorType) && (failure.retryable || failure.errorType === 'internal_error')
    ? rule.backoff
    : undefined;
}

/** Most attempts this rule could make, redeliveries included. */
export function attemptCeiling(rule: RetryRule): number {
  return Math.max(rule.maxAttempts, REDELIVERY_ATTEMPTS);
}
