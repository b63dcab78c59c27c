import {
  CATALOGUE,
  toToolError,
  ToolError,
  type CallResult,
  type CallTiming,
  type ExecutionFailure,
  type JsonObject,
} from '@toolfleet/contracts';
import { toFailure } from '@toolfleet/contracts/execution';

const NO_TIME: CallTiming = { queue_ms: 0, wait_ms: 0, execute_ms: 0 };

/** A failed result without output. */
export function failed(error: unknown, timing: CallTiming = NO_TIME, metadata: JsonObject = {}): CallResult {
  return {
    ok: false,
    output: null,
    text: '',
    failure: toFailure(toToolError(error)),
    provenance: 'live',
    usage: { tokens: 0, microUsd: 0 },
    metadata,
    timing,
    attempts: 0,
  };
}

/** True for a failure that refuses the call before its tool ran: the doors show it as a status, not in-band. */
export function isRefusal(failure: ExecutionFailure): boolean {
  return CATALOGUE[failure.code].origin === 'request';
}

/** A failure as the error it came from. */
export function errorOf(failure: ExecutionFailure): ToolError {
  return new ToolError(failure.code, {
    message: failure.message,
    ...(failure.details ? { details: failure.details } : {}),
    ...(failure.retryAfterMs === undefined ? {} : { retryAfterMs: failure.retryAfterMs }),
  });
}
