import type { CallResult, ExecutionFailure } from '../call.js';
import { CATALOGUE, type ErrorCode } from '../errors/catalogue.js';
import { failureOf } from '../errors/failure-of.js';
import { ToolError } from '../errors/tool-error.js';
import type { Milliseconds } from '../units.js';
import type { ExecResponse } from './execution.js';

/** The reply of an executor as the result of a call; a failed reply without a failure becomes TOOL_ERROR. */
export function resultOf(reply: ExecResponse, executeMs: Milliseconds): CallResult {
  const result: CallResult = {
    ok: reply.ok,
    output: reply.output ?? null,
    text: reply.text ?? '',
    provenance: 'live',
    usage: reply.usage ?? { tokens: 0, microUsd: 0 },
    metadata: reply.metadata ?? {},
    timing: { queue_ms: reply.queue_ms ?? 0, wait_ms: 0, execute_ms: reply.execute_ms ?? executeMs },
    attempts: 1,
  };
  if (reply.content) result.content = reply.content;
  if (!reply.ok) result.failure = failureIn(reply);
  return result;
}

function failureIn(reply: ExecResponse): ExecutionFailure {
  const failure =
    reply.failure ?? failureOf(new ToolError('TOOL_ERROR', { message: reply.text || CATALOGUE.TOOL_ERROR.hint }));
  return reply.retry_after_ms === undefined || failure.retryAfterMs !== undefined
    ? failure
    : { ...failure, retryAfterMs: reply.retry_after_ms };
}

/** After these it is open whether the effect took place; all other failures are answers of the tool. */
const LEAVES_OUTCOME_OPEN: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'ATTEMPT_TIMED_OUT',
  'CANCELLED',
  'DEADLINE_EXCEEDED',
  'EXECUTOR_UNAVAILABLE',
  'WORKER_LOST',
  'INTERNAL',
  'SERVICE_UNAVAILABLE',
]);

/**
 * True when a failure does not tell whether the effect took place. An executor that stopped its own work
 * and knows what became of it says `stopped: true` in the details; one whose request had reached the upstream when the
 * connection broke says `delivered: true`.
 */
export function leavesOutcomeOpen({ code, details }: Pick<ExecutionFailure, 'code' | 'details'>): boolean {
  if (code === 'NETWORK_ERROR') return details?.delivered === true;
  return LEAVES_OUTCOME_OPEN.has(code) && details?.stopped !== true;
}
