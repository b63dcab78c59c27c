import type { ErrorClass } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { RetryPolicy } from '@toolfleet/contracts/tool-settings';
import type { Backoff } from '@toolfleet/resilience';
import type { EngineSettings } from './settings.js';
/** When attempts of a tool are repeated; derived from its definition. */
export interface RetryRule {
  /** The first attempt included. */
  maxAttempts: number;
  backoff: Backoff;
  /** Error classes that are retried; `any` is every failure of an execution. */
  on: ReadonlySet<ErrorClass> | 'any';
}

const NETWORK_ERRORS: ReadonlySet<ErrorClass> = new Set<ErrorClass>(['timeout', 'network_error', 'upstream_error']);

/** Further classes that a class of a policy covers. */
const INCLUDED: Partial<Record<ErrorClass, ErrorClass>> = {
  network_error: 'upstream_error',
  internal_error: 'execution_error',
};

/** Most attempts that a definition may declare. */
const MAX_ATTEMPTS = 10;

const NO_RETRY: RetryRule = {
  maxAttempts: 1,
  backoff: { baseMs: 0, multiplier: 1, capMs: 0 },
  on: NETWORK_ERRORS,
};

const NETWORK_RULE: RetryRule = {
  maxAttempts: 3,
  backoff: { baseMs: 1_000, multiplier: 2, capMs: 10_000 },
  on: NETWORK_ERRORS,
};

const IDEMPOTENT_RULE: RetryRule = {
  maxAttempts: 2,
  backoff: { baseMs: 200, multiplier: 1.5, capMs: 10_000 },
  on: 'any',
};

/**
 * Derives the rule of a tool from its declared policy, else from its binding. A tool that is not declared idempotent is never
 * repeated once an attempt may have begun, whatever it declares.
 */
export function deriveRetryRule(tool: RegisteredTool, settings: Pick<EngineSettings, 'attempts'>): RetryRule {
  if (tool.idempotent !== true) return NO_RETRY;
  if (tool.retry_policy) return toRetryRule(tool.retry_policy);
  const { kind } = tool.binding;
  return kind === 'mcp' || kind === 'openapi' ? { ...NETWORK_RULE, maxAttempts: settings.attempts[kind] } : NO_RETRY;
}

function toRetryRule(policy: RetryPolicy): RetryRule {
  switch (policy.kind) {
    case 'none':
      return NO_RETRY;
    case 'network':
      return NETWORK_RULE;
    case 'idempotent':
      return IDEMPOTENT_RULE;
    case 'custom':
      return {
        maxAttempts: Math.max(1, Math.min(MAX_ATTEMPTS, Math.floor(policy.max_attempts))),
        backoff: { baseMs: policy.base_delay_ms, multiplier: policy.multiplier, capMs: policy.max_delay_ms ?? 10_000 },
        on: policy.on ? new Set(policy.on.flatMap((one) => [one, INCLUDED[one] ?? one])) : NETWORK_ERRORS,
      };
  }
}
