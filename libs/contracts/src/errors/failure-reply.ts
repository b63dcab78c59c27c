import type { ExecResponse } from '../messages/execution.js';
import { failureOf } from './failure-of.js';
import type { ToolError } from './tool-error.js';

/**
 * An error as the outcome of an attempt: what happened after the attempt began is a value, not an exception.
 * @param text what a model is shown; by default nothing but the failure itself
 */
export function failureReply(error: ToolError, text = ''): ExecResponse {
  return {
    ok: false,
    output: null,
    text,
    metadata: {},
    failure: failureOf(error),
    ...(error.retryAfterMs === undefined ? {} : { retry_after_ms: error.retryAfterMs }),
  };
}
