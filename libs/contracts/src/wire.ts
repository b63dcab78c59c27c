import type { JsonObject } from './json.js';
import { CATALOGUE, isErrorCode } from './errors/catalogue.js';
import { ToolError } from './errors/tool-error.js';

/** NATS header that carries the message of an error (NATS micro services, ADR-32). */
export const ERROR_HEADER = 'Nats-Service-Error';
/** NATS header that carries the HTTP-like status of an error. */
export const ERROR_CODE_HEADER = 'Nats-Service-Error-Code';

/** Body of every error on HTTP and NATS: `error` is the message. */
export interface ErrorBody {
  error: string;
  code: string;
  hint?: string;
  details?: JsonObject;
  call_id?: string;
  retry_after_ms?: number;
}

/** Renders an error for HTTP and NATS. */
export function errorBody(error: ToolError, callId?: string): ErrorBody {
  return {
    error: error.message,
    code: error.code,
    hint: CATALOGUE[error.code].hint,
    ...(error.details ? { details: error.details } : {}),
    ...(callId ? { call_id: callId } : {}),
    ...(error.retryAfterMs === undefined ? {} : { retry_after_ms: error.retryAfterMs }),
  };
}

/** Rebuilds an error from a body received from another process; unknown codes become INTERNAL. */
export function errorFromBody(body: unknown): ToolError {
  const fields = (typeof body === 'object' && body !== null ? body : {}) as Partial<ErrorBody>;
  const code = isErrorCode(fields.code) ? fields.code : 'INTERNAL';
  return new ToolError(code, {
    message: typeof fields.error === 'string' ? fields.error : undefined,
    details: typeof fields.details === 'object' && fields.details !== null ? fields.details : undefined,
    retryAfterMs: typeof fields.retry_after_ms === 'number' ? fields.retry_after_ms : undefined,
  });
}
