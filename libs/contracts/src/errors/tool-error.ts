import type { JsonObject } from '../json.js';
import { CATALOGUE, type ErrorCode, type ErrorEntry } from './catalogue.js';
import { boundedDetails, MAX_ERROR_MESSAGE, shortened } from './error-limits.js';

/** Facts of an error beside its code. */
export interface ToolErrorOptions {
  /** Human-readable; a default is made from the code. */
  message?: string;
  /** Facts for programs: fields, limits, places. Never secrets. */
  details?: JsonObject;
  /** Milliseconds after which a repeat makes sense; becomes `Retry-After`. */
  retryAfterMs?: number;
  cause?: unknown;
}

/** Where the hint does not say what happened. */
const DEFAULT_MESSAGES: Partial<Record<ErrorCode, string>> = { CANCELLED: 'The call was cancelled by its caller' };

/**
 * The one error class of the fleet. Meaning lives in the code; each door renders it once. Message and details are cut to the
 * limits of `error-limits.ts`: errors quote what callers sent, and no reply, log line or span may grow with it.
 */
export class ToolError extends Error {
  readonly code: ErrorCode;
  readonly details?: JsonObject;
  readonly retryAfterMs?: number;

  constructor(code: ErrorCode, options: ToolErrorOptions = {}) {
    super(
      shortened(options.message ?? DEFAULT_MESSAGES[code] ?? CATALOGUE[code].hint, MAX_ERROR_MESSAGE),
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.name = 'ToolError';
    this.code = code;
    if (options.details) this.details = boundedDetails(options.details);
    if (options.retryAfterMs !== undefined) this.retryAfterMs = Math.max(0, Math.ceil(options.retryAfterMs));
  }

  /** The catalogue's entry of this code. */
  get entry(): ErrorEntry {
    return CATALOGUE[this.code];
  }
}

/** True for errors of the catalogue. */
export function isToolError(error: unknown): error is ToolError {
  return error instanceof ToolError;
}

/** Any thrown value as a ToolError; unknown ones become INTERNAL with the original as cause. */
export function toToolError(error: unknown): ToolError {
  if (isToolError(error)) return error;
  return new ToolError('INTERNAL', { message: `Internal error: ${textOf(error)}`, cause: error });
}

/** What a thrown value says about itself; `String` throws on objects without a prototype. */
function textOf(error: unknown): string {
  try {
    return error instanceof Error ? error.message : String(error);
  } catch {
    return 'a value without a message was thrown';
  }
}
