import { isToolError, ToolError, type CallResult } from '@toolfleet/contracts';
import { Deadline, linkAbort, TimedOut, type Clock } from '@toolfleet/resilience';
import type { CallTrace } from './call.js';
import { failed } from './outcome.js';

/** Time the parts of the engine have, after the deadline, to say orderly how the call ended; then it ends without them. */
const ORDERLY_END_MS = 200;
/** The same after a cancellation: nobody waits for the answer, and executors have a second for their last word. */
const CANCELLED_END_MS = 1_500;

/**
 * Runs the whole of a call under one signal that follows the caller and the deadline. A part that ignores the signal (a
 * store that hangs, say) does not hold the caller: an answer leaves at the latest 250 ms after the deadline.
 * @throws ToolError as `work` does, or DEADLINE_EXCEEDED when no attempt had begun
 */
export async function withinDeadline(
  clock: Clock,
  seen: CallTrace,
  work: (signal: AbortSignal, deadline: Deadline) => Promise<CallResult>,
): Promise<CallResult> {
  const deadline = Deadline.at(clock, seen.request.deadlineAt);
  const remainingMs = deadline.remainingMs();
  if (remainingMs <= 0) throw tooLate();
  const link = linkAbort(seen.request.signal);
  let forceEnd: ((reason: unknown) => void) | undefined;
  let cancelForce = () => {};
  const force = () => {
    const isTimeUp = link.signal.reason instanceof TimedOut;
    const orderlyMs = isTimeUp ? 0 : Math.min(CANCELLED_END_MS - ORDERLY_END_MS, deadline.remainingMs());
    cancelForce = clock.after(orderlyMs + ORDERLY_END_MS, () => forceEnd?.(link.signal.reason));
  };
  const cancel = clock.after(remainingMs, () => link.abort(new TimedOut(remainingMs)));
  try {
    return await new Promise<CallResult>((resolve, reject) => {
      forceEnd = reject;
      if (link.signal.aborted) force();
      else link.signal.addEventListener('abort', force, { once: true });
      work(link.signal, deadline).then(resolve, reject);
    });
  } catch (thrown) {
    if (isToolError(thrown) || !link.signal.aborted) throw thrown;
    return interrupted(seen, link.signal.reason);
  } finally {
    cancel();
    cancelForce();
    link.release();
  }
}

/** A call that was stopped between two steps: refused when nothing had begun, else failed. */
function interrupted(seen: CallTrace, reason: unknown): CallResult {
  if (!(reason instanceof TimedOut)) {
    return failed(
      isToolError(reason) ? reason : new ToolError('CANCELLED', { message: 'The call was cancelled by its caller' }),
    );
  }
  if (seen.attempts === 0) throw tooLate();
  if (seen.tool?.idempotent !== true) {
    return failed(
      new ToolError('OUTCOME_UNKNOWN', { message: `It is not known whether '${seen.request.toolName}' took effect` }),
    );
  }
  return failed(
    new ToolError('ATTEMPT_TIMED_OUT', {
      message: `Tool '${seen.request.toolName}' timed out: the deadline of the call passed`,
    }),
  );
}

function tooLate(): ToolError {
  return new ToolError('DEADLINE_EXCEEDED', { message: 'The deadline passed before the tool could start' });
}
