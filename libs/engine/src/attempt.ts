import {
  CATALOGUE,
  isToolError,
  ToolError,
  type PersonInput,
  type CallResult,
  type ExecutionFailure,
} from '@toolfleet/contracts';
import { asDoubles } from '@toolfleet/contracts/json-text';
import { toCallResult, type ExecMessage } from '@toolfleet/contracts/execution';
import { onAbort, TimedOut, type Clock } from '@toolfleet/resilience';
import { explainErrors } from '@toolfleet/bounded-schema';
import type { Call } from './call.js';
import type { Next } from './step.js';
import { deadlineExceeded, toCancellation, timedOut } from './deadline.js';
import type { EnginePorts } from './ports.js';
import { failed } from './result.js';

/** After a cancellation an executor has this long to report its usage up to then. After a deadline it has no time. */
const CANCEL_GRACE_MS = 1_000;
/** After a deadline a queue has this long to report that the attempt never began; the answer leaves within 250 ms. */
const QUEUE_GRACE_MS = 150;
/** Violations of the output schema that are listed in the metadata of a result. */
const MAX_MISMATCHES = 5;

/**
 * The end of the chain: hands the attempt to its executor and turns every outcome into a result. An executor that ignores its
 * signal does not delay the caller; its late reply is dropped. An answer of an interceptor is the result, and nothing runs.
 */
export function runAttempt(ports: Pick<EnginePorts, 'executorFor' | 'clock' | 'meter'>): Next {
  return async (call) => {
    const from = ports.clock.monotonic();
    const { answer } = call.active;
    if (answer) {
      call.active.attempts += 1;
      return answer;
    }
    try {
      const executor = ports.executorFor(call.tool.binding);
      call.active.attempts += 1;
      call.active.isUnacknowledged = false;
      const response = await untilAborted(executor.execute(call), call, ports.clock);
      return reportMismatch(call, toCallResult(response, ports.clock.monotonic() - from), ports.meter);
    } catch (thrown) {
      const timing = { queue_ms: 0, wait_ms: 0, execute_ms: ports.clock.monotonic() - from };
      return failed(toAttemptError(thrown, call), { timing, attempts: 1 });
    }
  };
}

/**
 * Settles with the response, or rejects when the signal is aborted. After a cancellation it waits for a last response, and after a
 * deadline for a queue.
 */
function untilAborted<T>(response: Promise<T>, { signal, plan }: Call, clock: Clock): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    let cancel = () => {};
    const leave = () => reject(signal.reason);
    const onStopped = () => {
      if (!(signal.reason instanceof TimedOut)) cancel = clock.after(CANCEL_GRACE_MS, leave);
      else if (plan.bounded) leave();
      else cancel = clock.after(QUEUE_GRACE_MS, leave);
    };
    if (signal.aborted) onStopped();
    const unwatch = onAbort(signal, onStopped);
    const end = () => {
      cancel();
      unwatch();
    };
    response.then(
      (value) => {
        end();
        resolve(value);
      },
      (error: unknown) => {
        end();
        reject(error);
      },
    );
  });
}

function toAttemptError(thrown: unknown, { signal, tool, active }: Call): ToolError {
  if (!signal.aborted) {
    if (isToolError(thrown)) return thrown;
    return new ToolError('INTERNAL', { message: `Internal error while running '${tool.name}'`, cause: thrown });
  }
  const neverBegan = isToolError(thrown) && thrown.facts?.begun === 'no';
  if (!(signal.reason instanceof TimedOut)) {
    const cancelled = toCancellation(signal.reason);
    return neverBegan ? cancelled.withFacts({ begun: 'no' }) : cancelled;
  }
  if (neverBegan) return deadlineExceeded();
  const isExecutors = active.isUnacknowledged || (isToolError(thrown) && thrown.facts?.blame === 'executor');
  return timedOut(tool.name, signal.reason, isExecutors);
}

/**
 * Whether a failure is the executor's, not of the tool or its upstream. A time-out is when no executor acknowledged the
 * attempt, or no worker of its queue was alive; an open breaker is when such failures opened it.
 */
export function isExecutorFault({ code, facts }: Pick<ExecutionFailure, 'code' | 'facts'>): boolean {
  return CATALOGUE[code].blame === 'executor' || facts?.blame === 'executor';
}

/**
 * Lists in the metadata how a result violates the output schema that its MCP server declared (MCP 2025-06-18 asks clients to
 * validate structured results). The result is delivered unchanged: the schema may be the wrong part.
 */
function reportMismatch(call: Call, result: CallResult, meter: EnginePorts['meter']): CallResult {
  const { outputSchema } = call.plan;
  if (!outputSchema || !result.ok || outputSchema.check(result.output)) return result;
  const mismatches = explainErrors(outputSchema.errors(asDoubles(result.output))).slice(0, MAX_MISMATCHES);
  if (mismatches.length === 0) return result;
  meter.outputMismatched(call.tool);
  const output_schema_mismatch = mismatches.map(({ path, kind, message }) => ({ path, kind, message }));
  return { ...result, metadata: { ...result.metadata, output_schema_mismatch } };
}

/**
 * Builds the message of one attempt for its executor: the observable input of the call and the fields of this attempt.
 * @param delegationToken for tools that call tools
 * @param grantToken for tools that act with the credential of a user
 */
export function toExecMessage(call: Call, delegationToken?: string, grantToken?: string): ExecMessage {
  const { input, tool, request } = call;
  const { given, ...asked } = request.personInput ?? {};
  return {
    ...input,
    call_id: call.callId,
    attempt: call.attempt,
    fence: call.fence,
    journalled: call.journalled,
    entry: call.entry && {
      user_id: call.entry.userId ?? '',
      maker: call.entry.maker,
      remaining_ms: call.entry.remainingMs,
      deadline_at: call.entry.deadlineAt,
    },
    binding: tool.binding,
    // Answers are for the definition that asked: another one may have another server. A task has begun, so no other may be.
    input:
      request.personInput &&
      (given?.revision === tool.revision || given?.task !== undefined ? request.personInput : (asked as PersonInput)),
    deadlineShortened: isDeadlineShortened(call) ? true : undefined,
    context: {
      ...input.context,
      delegation_token: delegationToken,
      grant_token: grantToken,
      forward_idempotency_key: tool.forwards_idempotency_key ? true : undefined,
    },
  };
}

/** Share of its own timeout that a tool must have had before a time-out counts against it. */
const FAIR_SHARE = 0.8;
/** A tool that is silent for this long counts as failed, however long its own timeout is. */
const MAX_FAIR_MS = 60_000;

/**
 * True when an attempt has less time than its tool may take. Such a time-out must not count for a breaker: breakers are shared,
 * and a caller with a tiny `timeout_ms` could open one for all others. Always true for sandbox runs: code and limit belong
 * to the caller.
 */
export function isDeadlineShortened({
  plan,
  timeoutMs,
  deadline,
}: Pick<Call, 'plan' | 'timeoutMs' | 'deadline'>): boolean {
  if (plan.timeoutMs === undefined) return true;
  return Math.min(timeoutMs, deadline.remainingMs()) < FAIR_SHARE * Math.min(plan.timeoutMs, MAX_FAIR_MS);
}
