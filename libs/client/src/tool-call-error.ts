import type { ErrorCode, JsonObject } from '@toolfleet/contracts';
import type { ErrorBody } from '@toolfleet/contracts/wire';

/** Codes of the client itself: the fleet is unreachable, or its response is not part of the protocol. */
export type ClientErrorCode = 'CONNECTION_FAILED' | 'BAD_ANSWER';

/** A request that was refused or failed. A failure of the tool itself is a response with `success: false` instead. */
export class ToolCallError extends Error {
  /** Code of the catalogue (docs/errors.md), or of this client. */
  readonly code: ErrorCode | ClientErrorCode | (string & {});
  /** HTTP status, or its equivalent over NATS; 0 without a response. */
  readonly status: number;
  readonly hint?: string;
  readonly details?: JsonObject;
  readonly callId?: string;
  /** Earliest useful retry in milliseconds. */
  readonly retryAfterMs?: number;

  constructor(
    code: ToolCallError['code'],
    message: string,
    facts: {
      status?: number;
      hint?: string;
      details?: JsonObject;
      callId?: string;
      retryAfterMs?: number;
      cause?: unknown;
    } = {},
  ) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.name = 'ToolCallError';
    this.code = code;
    this.status = facts.status ?? 0;
    if (facts.hint !== undefined) this.hint = facts.hint;
    if (facts.details !== undefined) this.details = facts.details;
    if (facts.callId !== undefined) this.callId = facts.callId;
    if (facts.retryAfterMs !== undefined) this.retryAfterMs = facts.retryAfterMs;
  }
}

/**
 * The error of a response.
 * @param body parsed body; one without `code` or `error` gets defaults for the status
 * @param retryAfter header `Retry-After` in seconds, used if the body does not say
 */
export function errorOfBody(status: number, body: unknown, retryAfter?: string | null): ToolCallError {
  const fields = (typeof body === 'object' && body !== null ? body : {}) as Partial<ErrorBody>;
  const seconds = Number(retryAfter);
  const fallback = retryAfter && Number.isFinite(seconds) ? seconds * 1_000 : undefined;
  return new ToolCallError(
    fields.code ?? defaultCode(status),
    fields.error ?? `The gateway responded with status ${status}`,
    {
      status,
      hint: fields.hint,
      details: fields.details,
      callId: fields.call_id,
      retryAfterMs: fields.retry_after_ms ?? fallback,
    },
  );
}

function defaultCode(status: number): string {
  if (status === 401) return 'UNAUTHENTICATED';
  if (status === 403) return 'PERMISSION_DENIED';
  if (status === 404) return 'NOT_FOUND';
  if (status === 413) return 'PAYLOAD_TOO_LARGE';
  if (status === 429) return 'RATE_LIMITED';
  if (status === 502 || status === 503 || status === 504) return 'SERVICE_UNAVAILABLE';
  return status >= 500 ? 'INTERNAL' : 'REQUEST_INVALID';
}
