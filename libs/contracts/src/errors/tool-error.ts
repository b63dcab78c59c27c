import type { JsonObject } from '../json.js';
import { CATALOGUE, type ErrorCode, type ErrorEntry } from './catalogue.js';

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

/** The one error class of the fleet. Meaning lives in the code; each door renders it once. */
export class ToolError extends Error {
  readonly code: ErrorCode;
  readonly details?: JsonObject;
  readonly retryAfterMs?: number;

  constructor(code: ErrorCode, options: ToolErrorOptions = {}) {
    super(
      options.message ?? DEFAULT_MESSAGES[code] ?? CATALOGUE[code].hint,
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.name = 'ToolError';
    this.code = code;
    if (options.details) this.details = options.details;
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
  const message = error instanceof Error ? error.message : String(error);
  return new ToolError('INTERNAL', { message: `Internal error: ${message}`, cause: error });
}
