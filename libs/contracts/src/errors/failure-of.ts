import type { ExecutionFailure } from '../call.js';
import type { ToolError } from './tool-error.js';

/** An error of the catalogue as the failure of a call: once an attempt began outcomes are values. */
export function failureOf(error: ToolError): ExecutionFailure {
  return {
    code: error.code,
    errorType: error.entry.class,
    message: error.message,
    retryable: error.entry.retryable,
    ...(error.details ? { details: error.details } : {}),
    ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
  };
}
