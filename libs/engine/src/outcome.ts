import {
  blankResult,
  CATALOGUE,
  toToolError,
  ToolError,
  type CallResult,
  type ExecutionFailure,
} from '@toolfleet/contracts';
import { toFailure } from '@toolfleet/contracts/execution';

/** A failed result without output. */
export function failed(error: unknown, fields: Partial<CallResult> = {}): CallResult {
  return blankResult({ failure: toFailure(toToolError(error)), ...fields });
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
