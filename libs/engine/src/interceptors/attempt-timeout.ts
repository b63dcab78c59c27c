import { ToolError } from '@toolfleet/contracts';
import { linkAbort, TimedOut } from '@toolfleet/resilience';
import type { Interceptor } from '../call.js';
import { failed } from '../outcome.js';
import type { EnginePorts } from '../ports.js';

/**
 * Ends an attempt after min(its own limit, time left) by aborting its signal: the socket, job or guest behind it stops.
 * Where waiting in a queue belongs to the attempt, the worker keeps the run limit and here only the deadline ends it.
 */
export function attemptTimeout(ports: Pick<EnginePorts, 'clock'>): Interceptor {
  return async (call, next) => {
    const remainingMs = call.deadline.remainingMs();
    if (remainingMs <= 0) return failed(deadlineExceeded(call.seen.attempts));
    const limitMs = call.plan.bounded ? Math.min(call.timeoutMs, remainingMs) : remainingMs;
    const link = linkAbort(call.signal);
    const cancel = ports.clock.after(limitMs, () => link.abort(new TimedOut(limitMs)));
    try {
      return await next({ ...call, signal: link.signal, timeoutMs: Math.min(call.timeoutMs, limitMs) });
    } finally {
      cancel();
      link.release();
    }
  };
}

/** No time left: a refusal when nothing has begun, else a failure of the tool. */
function deadlineExceeded(attempts: number): ToolError {
  return attempts === 0
    ? new ToolError('DEADLINE_EXCEEDED', { message: 'The deadline passed before the tool could start' })
    : new ToolError('ATTEMPT_TIMED_OUT', { message: 'The deadline passed between two attempts' });
}
