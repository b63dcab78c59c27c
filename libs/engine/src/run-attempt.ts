import { isToolError, ToolError, type CallResult } from '@toolfleet/contracts';
import { toCallResult } from '@toolfleet/contracts/execution';
import { TimedOut, type Clock } from '@toolfleet/resilience';
import type { Call, Next } from './call.js';
import { failed } from './outcome.js';
import { reportOutputMismatch } from './output-mismatch.js';
import type { EnginePorts } from './ports.js';

/** Time an executor has to tell how far it came when its caller calls the call off. A deadline leaves none. */
const LAST_WORD_MS = 1_000;

/**
 * The end of the chain: hands the attempt to its executor and turns whatever happens into a value. An executor that
 * ignores its signal does not hold the caller; its late answer is dropped.
 */
export function runAttempt(ports: Pick<EnginePorts, 'executorFor' | 'clock' | 'meter'>): Next {
  return async (call) => {
    const from = ports.clock.monotonic();
    try {
      const executor = ports.executorFor(call.tool.binding);
      call.seen.attempts += 1;
      const reply = await answerOf(executor.execute(call), call.signal, ports.clock);
      return reportOutputMismatch(call, toCallResult(reply, ports.clock.monotonic() - from), ports.meter);
    } catch (thrown) {
      return failed(outcomeOf(thrown, call), { timing: timing(ports.clock.monotonic() - from), attempts: 1 });
    }
  };
}

/** The executor's answer; what was used up to a cancellation is in its last word, so that it can be charged. */
function answerOf<T>(answer: Promise<T>, signal: AbortSignal, clock: Clock): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    let cancel = () => {};
    const leave = () => reject(signal.reason);
    const onAbort = () => {
      if (signal.reason instanceof TimedOut) leave();
      else cancel = clock.after(LAST_WORD_MS, leave);
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    const settled = () => {
      cancel();
      signal.removeEventListener('abort', onAbort);
    };
    answer.then(resolve, reject).finally(settled);
  });
}

function outcomeOf(thrown: unknown, call: Call): ToolError {
  if (call.signal.aborted) return stopped(call);
  return isToolError(thrown)
    ? thrown
    : new ToolError('INTERNAL', { message: `Internal error while running '${call.tool.name}'`, cause: thrown });
}

/** Why an aborted attempt ended: its time was up, or its caller left. */
export function stopped(call: Pick<Call, 'signal' | 'tool'>): ToolError {
  const reason: unknown = call.signal.reason;
  if (reason instanceof TimedOut) {
    return new ToolError('ATTEMPT_TIMED_OUT', {
      message: `Tool '${call.tool.name}' timed out after ${Math.round(reason.timeoutMs)}ms`,
      details: { timeout_ms: Math.round(reason.timeoutMs) },
    });
  }
  return isToolError(reason) ? reason : new ToolError('CANCELLED', { message: 'The call was cancelled by its caller' });
}

function timing(executeMs: number): CallResult['timing'] {
  return { queue_ms: 0, wait_ms: 0, execute_ms: executeMs };
}
