import { isJsonObject, type Json, type JsonObject } from '../json.js';
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

/** Longest message of an error in characters. Tracebacks and upstream messages are shorter. */
export const MAX_ERROR_MESSAGE = 16_384;
/** Longest string, and longest key, inside the details of an error. */
const MAX_DETAIL_STRING = 1_024;
const MAX_DETAIL_KEY = 128;
/** Most members of one list or object in the details. */
const MAX_DETAIL_MEMBERS = 100;
/** Most characters of all details together, keys included. */
const MAX_DETAILS_CHARS = 32_768;
const MAX_DETAILS_DEPTH = 8;
const CUT = '…';

/** Text of at most `chars` characters; what was cut off shows as `…`. */
export function shortened(text: string, chars: number): string {
  return text.length > chars ? `${text.slice(0, chars - 1)}${CUT}` : text;
}

/**
 * Details of an error within the limits above. Messages and details quote what a caller sent, so without limits an error
 * would be as large as the largest request, several times over. The common case, small details, is returned as it is.
 */
export function boundedDetails(details: JsonObject): JsonObject {
  const room = { left: MAX_DETAILS_CHARS };
  return bounded(details, room, 0) as JsonObject;
}

/** The value itself when nothing had to be cut, otherwise a copy. */
function bounded(value: Json, room: { left: number }, depth: number): Json {
  if (typeof value === 'string') {
    const text = shortened(value, Math.max(1, Math.min(MAX_DETAIL_STRING, room.left)));
    room.left -= text.length;
    return text;
  }
  if (Array.isArray(value)) {
    if (depth >= MAX_DETAILS_DEPTH) return CUT;
    const kept: Json[] = [];
    for (const member of value) {
      if (kept.length >= MAX_DETAIL_MEMBERS || room.left <= 0) break;
      kept.push(bounded(member, room, depth + 1));
    }
    return kept.length === value.length && kept.every((member, index) => member === value[index]) ? value : kept;
  }
  if (!isJsonObject(value)) return value;
  if (depth >= MAX_DETAILS_DEPTH) return CUT;
  const kept: [string, Json][] = [];
  let isWhole = true;
  for (const key in value) {
    if (!Object.hasOwn(value, key)) continue;
    if (kept.length >= MAX_DETAIL_MEMBERS || room.left <= 0) {
      isWhole = false;
      break;
    }
    const name = shortened(key, MAX_DETAIL_KEY);
    room.left -= name.length;
    const member = bounded(value[key] as Json, room, depth + 1);
    isWhole &&= name === key && member === value[key];
    kept.push([name, member]);
  }
  return isWhole ? value : Object.fromEntries(kept);
}
