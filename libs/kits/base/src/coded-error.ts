import { isJsonObject, type Json, type JsonMembers, type JsonObject } from './json.js';

/**
 * Codes of the errors that kits throw.
 *
 * - `ARGUMENTS_INVALID`, `REQUEST_INVALID`: what the caller passed; the message names the argument or option
 * - `SPEC_INVALID`: a document or schema
 * - `EGRESS_REFUSED`: a request to an address that is not allowed
 * - `NETWORK_ERROR`, `ATTEMPT_TIMED_OUT`, `RESULT_TOO_LARGE`, `EXECUTION_FAILED`: the other side of a connection
 * - `CANCELLED`: aborted by the caller
 * - `INTERNAL`: a fault of the kit itself
 */
export type KitCode =
  | 'ARGUMENTS_INVALID'
  | 'REQUEST_INVALID'
  | 'SPEC_INVALID'
  | 'EGRESS_REFUSED'
  | 'NETWORK_ERROR'
  | 'ATTEMPT_TIMED_OUT'
  | 'RESULT_TOO_LARGE'
  | 'EXECUTION_FAILED'
  | 'CANCELLED'
  | 'INTERNAL';

/** Facts about one failure beyond its code, for programs that decide by them. */
export interface KitFacts {
  /** Whether the request may have reached the other side before the connection failed. */
  delivered?: boolean;
  /** `unparsable`: a document has a syntax error. */
  reason?: 'unparsable';
}

/** Facts of an error in addition to its code. */
export interface CodedErrorOptions<Facts = KitFacts> {
  /** For people; default: the message that `describeCodes` set for the code. */
  message?: string | undefined;
  /** Shown to programs: fields, limits, locations. Never secrets. */
  details?: JsonMembers | undefined;
  facts?: Facts | undefined;
  /** Earliest useful retry in milliseconds. */
  retryAfterMs?: number | undefined;
  cause?: unknown;
}

const messages = new Map<string, string>();

/** Sets the messages of errors that are constructed without one. A product calls it once, with its catalogue of codes. */
export function describeCodes(byCode: Readonly<Record<string, string>>): void {
  for (const [code, message] of Object.entries(byCode)) messages.set(code, message);
}

/**
 * An error with a code that programs decide by. Kits throw those of {@link KitCode}; a product uses the same class with codes and facts of
 * its own. Message and details are truncated to the limits below, because errors quote what callers sent, and responses, log lines and
 * spans must not grow with it.
 */
export class CodedError<Code extends string = KitCode, Facts extends object = KitFacts> extends Error {
  readonly code: Code;
  readonly details?: JsonObject;
  readonly facts?: Readonly<Facts>;
  readonly retryAfterMs?: number;

  constructor(code: NoInfer<Code>, options: CodedErrorOptions<NoInfer<Facts>> = {}) {
    super(
      truncate(options.message ?? messages.get(code) ?? code, MAX_ERROR_MESSAGE),
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.name = 'CodedError';
    this.code = code;
    if (options.details) this.details = boundedDetails(options.details);
    if (options.facts) this.facts = options.facts;
    if (options.retryAfterMs !== undefined) this.retryAfterMs = Math.max(0, Math.ceil(options.retryAfterMs));
  }

  /** The same error with more known about it. */
  withFacts(facts: Facts, details?: JsonObject): CodedError<Code, Facts> {
    return new CodedError<Code, Facts>(this.code, {
      message: this.message,
      details: details ? { ...this.details, ...details } : this.details,
      facts: { ...this.facts, ...facts },
      retryAfterMs: this.retryAfterMs,
      cause: this.cause,
    });
  }
}

/** True for errors with a code, of a kit or of the product around it. */
export function isCodedError(error: unknown): error is CodedError {
  return error instanceof CodedError;
}

/** Maximum length of a message in characters; long enough for tracebacks and upstream messages. */
const MAX_ERROR_MESSAGE = 16_384;
/** Longest string, and longest key, inside the details of an error. */
const MAX_DETAIL_STRING = 1_024;
const MAX_DETAIL_KEY = 128;
/** Maximum number of members of one list or object in the details. */
const MAX_DETAIL_MEMBERS = 100;
/** Maximum number of characters of all details together, keys included. */
const MAX_DETAILS_CHARS = 32_768;
const MAX_DETAILS_DEPTH = 8;
const CUT = '…';

/** Truncates a text to `chars` characters, ending in `…`. */
function truncate(text: string, chars: number): string {
  return text.length > chars ? `${text.slice(0, chars - 1)}${CUT}` : text;
}

/** Truncates the details of an error to the limits above. Returns the same object when nothing exceeds them, which is the common case. */
function boundedDetails(details: JsonMembers): JsonObject {
  const room = { left: MAX_DETAILS_CHARS };
  return bounded(details as JsonObject, room, 0) as JsonObject;
}

/** The value itself when nothing was truncated, otherwise a copy. `room.left` counts down across the whole value. */
function bounded(value: Json, room: { left: number }, depth: number): Json {
  if (typeof value === 'string') {
    const text = truncate(value, Math.max(1, Math.min(MAX_DETAIL_STRING, room.left)));
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
    if (value[key] === undefined) {
      isWhole = false;
      continue;
    }
    if (kept.length >= MAX_DETAIL_MEMBERS || room.left <= 0) {
      isWhole = false;
      break;
    }
    const name = truncate(key, MAX_DETAIL_KEY);
    room.left -= name.length;
    const member = bounded(value[key] as Json, room, depth + 1);
    isWhole &&= name === key && member === value[key];
    kept.push([name, member]);
  }
  return isWhole ? value : Object.fromEntries(kept);
}
