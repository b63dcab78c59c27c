import type { ExecReply, ToolError } from '@toolfleet/contracts';

/** An error as the outcome of an attempt: what happened after the attempt began is a value, not an exception (K!22). */
export function failureReply(error: ToolError): ExecReply {
  return {
    ok: false,
    output: null,
    text: '',
    metadata: {},
    failure: {
      code: error.code,
      errorType: error.entry.class,
      message: error.message,
      retryable: error.entry.retryable,
      ...(error.details ? { details: error.details } : {}),
    },
    ...(error.retryAfterMs === undefined ? {} : { retry_after_ms: error.retryAfterMs }),
  };
}
