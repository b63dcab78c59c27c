import { ToolError } from '@toolfleet/contracts';
import { AbortSource, onAbort, TimedOut } from '@toolfleet/resilience';
import { step, type Step } from '../step.js';
import { deadlineExceeded } from '../deadline.js';
import type { EnginePorts } from '../ports.js';
import { failed } from '../result.js';

/**
 * Ends an attempt after its own limit or the time left, whichever is shorter, by aborting its signal: the socket, job or guest
 * behind it stops. For queued tools the worker enforces the run limit, and only the deadline ends the attempt here.
 */
export function attemptTimeout(ports: Pick<EnginePorts, 'clock'>): Step {
  return step('attempt timeout', (next) => async (call) => {
    const remainingMs = call.deadline.remainingMs();
    if (remainingMs <= 0) return failed(noTimeLeft(call.active.attempts));
    const limitMs = call.plan.bounded ? Math.min(call.timeoutMs, remainingMs) : remainingMs;
    const source = new AbortSource();
    const follow = (): void => source.abort(call.signal.reason);
    if (call.signal.aborted) follow();
    const leave = onAbort(call.signal, follow);
    const cancel = ports.clock.after(limitMs, () => source.abort(new TimedOut(limitMs)));
    try {
      return await next({ ...call, signal: source.signal, timeoutMs: Math.min(call.timeoutMs, limitMs) });
    } finally {
      cancel();
      leave();
    }
  });
}

/** Refuses the call when no attempt has begun; after one it has failed. */
function noTimeLeft(attempts: number): ToolError {
  if (attempts === 0) return deadlineExceeded();
  return new ToolError('ATTEMPT_TIMED_OUT', { message: 'The deadline passed between two attempts' });
}
