import type { ErrorCode, JsonObject } from '@toolfleet/contracts';
import type { ErrorBody } from '@toolfleet/contracts/wire';

/** Codes of this client itself: the fleet could not be asked at all, or answered something that is not its protocol. */
export type ClientErrorCode = 'CONNECTION_FAILED' | 'BAD_ANSWER';

/** Why a request was refused or could not be made. What a tool itself did wrong is in the body (`success: false`). */
export class ToolCallError extends Error {
  /** Code of the catalogue (docs/errors.md), or of this client. */
  readonly code: ErrorCode | ClientErrorCode | (string & {});
  /** HTTP status, or its NATS equivalent; 0 when there was no answer. */
  readonly status: number;
  readonly hint?: string;
  readonly details?: JsonObject;
  readonly callId?: string;
  /** Milliseconds after which a repeat makes sense. */
  readonly retryAfterMs?: number;

  constructor(
    code: ToolCallError['code'],
    message: string,
    facts: {
      status?: number;
      hint?: string | undefined;
      details?: JsonObject | undefined;
      callId?: string | undefined;
      retryAfterMs?: number | undefined;
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

/** The error of an answer; bodies of others (a proxy's page, a dangerous tool's bare message) keep their text. */
export function errorOfBody(status: number, body: unknown, retryAfter?: string | null): ToolCallError {
  const fields = (typeof body === 'object' && body !== null ? body : {}) as Partial<ErrorBody>;
  const seconds = Number(retryAfter);
  const fallback = retryAfter && Number.isFinite(seconds) ? seconds * 1_000 : undefined;
  return new ToolCallError(fields.code ?? codeOfStatus(status), fields.error ?? `The fleet answered ${status}`, {
    status,
    hint: fields.hint,
    details: fields.details,
    callId: fields.call_id,
    retryAfterMs: fields.retry_after_ms ?? fallback,
  });
}

function codeOfStatus(status: number): string {
  if (status === 401) return 'UNAUTHENTICATED';
  if (status === 403) return 'PERMISSION_DENIED';
  if (status === 404) return 'NOT_FOUND';
  if (status === 413) return 'PAYLOAD_TOO_LARGE';
  if (status === 429) return 'RATE_LIMITED';
  if (status === 502 || status === 503 || status === 504) return 'SERVICE_UNAVAILABLE';
  return status >= 500 ? 'INTERNAL' : 'REQUEST_INVALID';
}
