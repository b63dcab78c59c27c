import {
  CATALOGUE,
  toToolError,
  ToolError,
  type CallResult,
  type CallTiming,
  type ExecReply,
  type ExecutionFailure,
  type JsonObject,
} from '@toolfleet/contracts';

const NO_TIME: CallTiming = { queue_ms: 0, wait_ms: 0, execute_ms: 0 };

/** An error of the catalogue as the failure of a call: inside the chain outcomes are values (K!22). */
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

/** A failed result without output. */
export function failed(error: unknown, timing: CallTiming = NO_TIME, metadata: JsonObject = {}): CallResult {
  return {
    ok: false,
    output: null,
    text: '',
    failure: failureOf(toToolError(error)),
    provenance: 'live',
    usage: { tokens: 0, microUsd: 0 },
    metadata,
    timing,
    attempts: 0,
  };
}

/** The reply of an executor as a result; a failed reply without a failure becomes TOOL_ERROR. */
export function resultOf(reply: ExecReply, executeMs: number): CallResult {
  const result: CallResult = {
    ok: reply.ok,
    output: reply.output ?? null,
    text: reply.text ?? '',
    provenance: 'live',
    usage: reply.usage ?? { tokens: 0, microUsd: 0 },
    metadata: reply.metadata ?? {},
    timing: { queue_ms: reply.queue_ms ?? 0, wait_ms: 0, execute_ms: reply.execute_ms ?? executeMs },
    attempts: 1,
  };
  if (reply.content) result.content = reply.content;
  if (!reply.ok) result.failure = failureIn(reply);
  return result;
}

function failureIn(reply: ExecReply): ExecutionFailure {
  const failure =
    reply.failure ?? failureOf(new ToolError('TOOL_ERROR', { message: reply.text || CATALOGUE.TOOL_ERROR.hint }));
  return reply.retry_after_ms === undefined || failure.retryAfterMs !== undefined
    ? failure
    : { ...failure, retryAfterMs: reply.retry_after_ms };
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
