import { CATALOGUE, type CallResult, type ErrorClass, type ExecutionFailure } from '@toolfleet/contracts';
import type { RegisteredTool, RetryPolicy } from '@toolfleet/contracts/tool-definition';
import { retry as runWithRetries, RetryBudget, type Backoff, type RetryVerdict } from '@toolfleet/resilience';
import { LRUCache } from 'lru-cache';
import type { Call, Interceptor } from '../call.js';
import type { EnginePorts, EngineSettings } from '../ports.js';

/** Tools whose retry budget is kept. */
const MAX_TOOLS = 5_000;

/**
 * Repeats failed attempts by the rule of the tool: with full jitter, within the deadline and within the tool's retry budget.
 * Decides on results and never on exceptions, because a failed attempt is a result.
 */
export function retry(ports: Pick<EnginePorts, 'clock' | 'audit' | 'meter'>): Interceptor {
  const { clock } = ports;
  const budgets = new LRUCache<string, RetryBudget>({ max: MAX_TOOLS });
  return async (call, next) => {
    const { plan, tool, active, signal, deadline, callId } = call;
    let budget = budgets.get(tool.name);
    if (!budget) budgets.set(tool.name, (budget = new RetryBudget()));
    budget.deposit();
    const first = await next(call);
    if (!first.failure) return first;
    let attempts = 1;
    const result = await runWithRetries<CallResult>(
      {
        clock,
        deadline,
        signal,
        judge: (outcome, attempt) => toVerdict(call, outcome, attempt),
        onRetry: ({ attempt, delayMs, outcome }) => {
          if (!budget.withdraw()) return false;
          ports.meter.retried(tool);
          ports.audit.retrying({
            call: active,
            callId,
            attempt,
            maxAttempts: Math.max(plan.retry.maxAttempts, REDELIVERY_ATTEMPTS),
            delayMs,
            error: outcome.failure?.message ?? '',
          });
          active.waitedMs += delayMs;
          return true;
        },
      },
      (attempt) => {
        attempts = attempt;
        return attempt === 1 ? Promise.resolve(first) : next({ ...call, attempt });
      },
    );
    return withAttempts(result, attempts);
  };
}

function toVerdict(call: Call, { failure }: CallResult, attempt: number): RetryVerdict {
  const backoff = failure && retryBackoff(call, failure, attempt);
  return backoff ? { again: true, backoff, retryAfterMs: failure.retryAfterMs } : { again: false };
}

/** Puts the number of attempts into the result, and into the message of a failure after several. */
function withAttempts(result: CallResult, attempts: number): CallResult {
  if (attempts === 1) return result;
  const { failure } = result;
  if (!failure) return { ...result, attempts };
  const message = `All ${attempts} attempts failed: ${failure.message}`;
  return { ...result, attempts, failure: { ...failure, message } };
}

/** When attempts of a tool are repeated; derived from its definition. */
export interface RetryRule {
  /** The first attempt included. */
  maxAttempts: number;
  backoff: Backoff;
  /** Error classes that are retried; `any` is every failure of an execution. */
  on: ReadonlySet<ErrorClass> | 'any';
}

const NETWORK_ERRORS: ReadonlySet<ErrorClass> = new Set<ErrorClass>(['timeout', 'network_error']);
/** Attempts, the first included, of a call that never reached an executor; and the waits between them. */
const REDELIVERY_ATTEMPTS = 2;
const REDELIVERY_BACKOFF: Backoff = { baseMs: 100, multiplier: 2, capMs: 1_000 };
/** Most attempts that a definition may declare. */
const MAX_ATTEMPTS = 10;

const NO_RETRY: RetryRule = { maxAttempts: 1, backoff: { baseMs: 0, multiplier: 1, capMs: 0 }, on: NETWORK_ERRORS };
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
        on: policy.on ? new Set(policy.on) : NETWORK_ERRORS,
      };
  }
}

/** The wait before the next attempt, or undefined when this failure of this attempt is not retried. */
export function retryBackoff(
  { plan, request }: Pick<Call, 'plan' | 'request'>,
  failure: ExecutionFailure,
  attempt: number,
): Backoff | undefined {
  const { retry: rule, idempotent } = plan;
  const { retry: repeats } = CATALOGUE[failure.code];
  if (request.noRetry || repeats === 'never') return undefined;
  const neverBegan = failure.facts?.begun === 'no';
  if (repeats === 'redeliver' || neverBegan) {
    const isLast = attempt >= Math.max(rule.maxAttempts, REDELIVERY_ATTEMPTS);
    return !isLast && (idempotent || neverBegan) ? REDELIVERY_BACKOFF : undefined;
  }
  if (attempt >= rule.maxAttempts) return undefined;
  if (rule.on === 'any') return rule.backoff;
  const mayPass = failure.retryable || failure.errorType === 'internal_error';
  return rule.on.has(failure.errorType) && mayPass ? rule.backoff : undefined;
}
