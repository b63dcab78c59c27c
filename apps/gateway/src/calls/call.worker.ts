import {
  isToolError,
  resultSubject,
  ToolError,
  toToolError,
  type CallBody,
  type CallRequest,
  type CallResult,
  type CallState,
} from '@toolfleet/contracts';
import { callBody, failed, type ExecuteCall } from '@toolfleet/engine';
import type { JobRun } from '@toolfleet/queue';
import type { Clock } from '@toolfleet/resilience';
import type { AsyncCallJob } from './async-calls.js';
import type { CallStore } from './call-store.js';

/** What the asynchronous door needs. */
export interface CallWorkerPorts {
  executeCall: ExecuteCall;
  store: CallStore;
  clock: Clock;
  /** Publishes a body on a NATS subject; failures are the publisher's to log. */
  publish(subject: string, body: CallBody): void;
}

/** The asynchronous door: a job of `tool-calls` runs the same `executeCall`; its outcome goes to the store and on NATS. */
export function callWorker(ports: CallWorkerPorts): (run: JobRun<AsyncCallJob>) => Promise<CallState> {
  const { executeCall, store, clock, publish } = ports;
  return async ({ data, signal, deadlineAt, queuedMs }) => {
    const sent = data.request as unknown as Omit<CallRequest, 'signal' | 'deadlineAt'>;
    const { callId } = sent;
    await store.append(callId, { type: 'started' });
    const from = clock.monotonic();
    const request: CallRequest = {
      ...sent,
      door: 'queue',
      signal,
      deadlineAt: deadlineAt ?? clock.now(),
      // Nobody holds a connection: a duplicate of a running call waits for its outcome, as long as it may.
      idempotencyWaitMs: Math.max(0, (deadlineAt ?? 0) - clock.now()),
      onProgress: (progress) => void store.append(callId, { type: 'progress', ...progress }).catch(() => undefined),
    };
    const outcome = await executeCall(request).catch(toToolError);
    const result = withQueueTime(isToolError(outcome) ? failed(outcome) : outcome, queuedMs);
    const body = callBody(callId, result, clock.monotonic() - from + queuedMs);
    const state = stateOf(result, signal);
    await store.finish(callId, state, body);
    publish(resultSubject(request.principal.tenantId, callId), body);
    // The result is in the store; in the job record it would be there twice.
    return state;
  };
}

function withQueueTime(result: CallResult, queuedMs: number): CallResult {
  return { ...result, timing: { ...result.timing, queue_ms: result.timing.queue_ms + queuedMs } };
}

function stateOf(result: CallResult, signal: AbortSignal): CallState {
  if (result.ok) return 'succeeded';
  if (result.failure?.code === 'OUTCOME_UNKNOWN') return 'outcome_unknown';
  if (signal.aborted && signal.reason instanceof ToolError && signal.reason.code === 'CANCELLED') return 'cancelled';
  return result.failure?.code === 'DEADLINE_EXCEEDED' ? 'expired' : 'failed';
}
