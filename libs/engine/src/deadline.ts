import { isToolError, ToolError, type CallResult } from '@toolfleet/contracts';
import { AbortSource, Deadline, onAbort, TimedOut, type Clock } from '@toolfleet/resilience';
import type { ActiveCall, TimedCall } from './call.js';
import { step, type Step } from './step.js';
import { explainFailure, failed } from './result.js';

/** Time after the deadline for the steps of the engine to end by themselves; then the call ends without them. */
const GRACE_MS = 200;
/** The same after a cancellation, when no caller waits for the answer and executors have a second to report usage. */
const CANCEL_GRACE_MS = 1_500;

/** Runs all inner steps under one deadline and one signal. @throws ToolError DEADLINE_EXCEEDED */
export function deadline({ clock }: { clock: Clock }): Step<ActiveCall, TimedCall> {
  return step(
    'deadline',
    (next) => (active) => withinDeadline(clock, active, (signal, until) => next({ active, signal, deadline: until })),
  );
}

/**
 * Runs a whole call under one signal that follows the caller and the deadline. A step that ignores the signal, such as a store
 * that hangs, does not delay the caller: an answer leaves at the latest 250 ms after the deadline.
 * @throws ToolError as `work` does, or DEADLINE_EXCEEDED when no attempt had begun
 */
async function withinDeadline(
  clock: Clock,
  active: ActiveCall,
  work: (signal: AbortSignal, deadline: Deadline) => Promise<CallResult>,
): Promise<CallResult> {
  const remainingMs = active.request.limits.deadlineAt - clock.now();
  if (remainingMs <= 0) throw deadlineExceeded();
  const until = Deadline.in(clock, remainingMs);
  const { signal: caller } = active.request;
  const source = new AbortSource();
  const { signal } = source;
  const forced = Promise.withResolvers<CallResult>();
  let cancelForcedEnd = () => {};
  const stop = (reason: unknown, extraMs: number) => {
    if (signal.aborted) return;
    source.abort(reason);
    cancelForcedEnd = clock.after(extraMs + GRACE_MS, () => forced.reject(reason));
  };
  const onCancelled = () => stop(caller.reason, Math.min(CANCEL_GRACE_MS - GRACE_MS, until.remainingMs()));
  const cancelTimeout = clock.after(remainingMs, () => stop(new TimedOut(remainingMs), 0));
  if (caller.aborted) onCancelled();
  const leave = onAbort(caller, onCancelled);
  try {
    work(signal, until).then(forced.resolve, forced.reject);
    return await forced.promise;
  } catch (thrown) {
    if (isToolError(thrown) || !signal.aborted) throw thrown;
    return interrupted(active, signal.reason);
  } finally {
    cancelTimeout();
    cancelForcedEnd();
    leave();
  }
}

/** Ends a call that was stopped between two steps: as refused when no attempt had begun, else as failed. */
function interrupted({ attempts, tool, request }: ActiveCall, reason: unknown): CallResult {
  const end = (error: ToolError) => explainFailure(request.target.toolName, failed(error, { attempts }));
  if (!(reason instanceof TimedOut)) return end(toCancellation(reason));
  if (attempts === 0) throw deadlineExceeded();
  if (tool?.idempotent !== true) {
    const message = `It is not known whether '${request.target.toolName}' took effect`;
    return end(new ToolError('OUTCOME_UNKNOWN', { message }));
  }
  return end(timedOut(request.target.toolName, reason));
}

/** The failure of a call whose time passed during an attempt. @param isExecutors whether the executor is to blame, and not the tool */
export function timedOut(toolName: string, reason: TimedOut, isExecutors = false): ToolError {
  const timeoutMs = Math.round(reason.timeoutMs);
  return new ToolError('ATTEMPT_TIMED_OUT', {
    message: `Tool '${toolName}' timed out after ${timeoutMs}ms`,
    details: { timeout_ms: timeoutMs, cause: isExecutors ? 'executor' : undefined },
    facts: isExecutors ? { blame: 'executor' } : undefined,
  });
}

/** The reason of an abort that was not a time-out: the ToolError it was aborted with, else CANCELLED. */
export function toCancellation(reason: unknown): ToolError {
  return isToolError(reason) ? reason : new ToolError('CANCELLED', { message: 'The call was cancelled by its caller' });
}

/** The refusal of a call after its deadline, before any attempt began. */
export function deadlineExceeded(): ToolError {
  return new ToolError('DEADLINE_EXCEEDED', { message: 'The deadline passed before the tool could start' });
}
