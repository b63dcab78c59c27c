import { isJsonObject, type Json, type JsonObject } from '../json.js';
import type { RequiredApproval } from '../approval.js';
import { CATALOGUE, type ErrorCode, type ErrorEntry } from './catalogue.js';

/**
 * What the fleet knows about one failure beyond its code. Decides what the call is charged, whether it is sent again and what
 * breakers count, so only the fleet's own code sets it: nothing that a tool or an upstream reports can. An absent fact is as the
 * catalogue says of the code.
 */
export interface FailureFacts {
  /** `no`: the attempt provably never began; it is free and may be sent again. `ended`: its executor ended it, so its outcome is known. */
  begun?: 'no' | 'ended';
  /** Whether the request may have reached the upstream before the connection failed. */
  delivered?: boolean;
  /**
   * `caller`: the target was the caller's choice. `target`: the upstream failed. `tool`: it was slower than its limit. `executor`: the
   * executor did not respond.
   */
  blame?: 'caller' | 'target' | 'tool' | 'executor';
  /** No executor is subscribed. The broker reports that at once, so no breaker has to. */
  noResponders?: true;
  /** Names that may have been meant by one that does not exist. */
  similar?: readonly string[];
  /** HTTP status of the upstream. */
  status?: number;
  /** JSON-RPC code of the error that an MCP server answered with. */
  rpcCode?: number;
  /** What the fleet tells apart within one code. */
  reason?: FailureReason;
  /** APPROVAL_REQUIRED: what a person has to approve, and for which revision of the tool. */
  approval?: RequiredApproval;
  /** INPUT_REQUIRED: what to ask a person for. Absent where the caller cannot be asked. */
  input?: RequiredInput;
  /** AUTHORIZATION_REQUIRED: where the user connects an account before the call is made again. */
  connect?: { source: string; url: string };
}

/** What a tool asks for before it runs. Its entry point asks, and makes the same call again with the answers. */
export interface RequiredInput {
  /** The server that asks. */
  server: string;
  /** Revision of the tool that asks. */
  revision: string;
  /** Requests of MCP (`elicitation/create`) by key. */
  requests: JsonObject;
  /** To be sent back unchanged with the answers. */
  state?: string;
  /** Id at the server of the task that asks, or that the caller takes over if there are no requests. */
  task?: string;
  /** The mcp-executor that holds the call open until the answers, because its server does. They have to reach this one. */
  executor?: string;
}

/**
 * `auth_failed`: an upstream refused the fleet's own credential. `missing`: a file does not exist. `superseded`: a registration was
 * removed or replaced meanwhile. `unparsable`: a document has a syntax error. `too_slow`: a computation reached its time limit.
 */
type FailureReason = 'auth_failed' | 'missing' | 'superseded' | 'unparsable' | 'too_slow';

/** True for an HTTP status that says that an upstream is failing or overloaded; any other is an answer. */
export function isServerFault(status: number): boolean {
  return status >= 500 || status === 408 || status === 429;
}

/** What an error carries in addition to its code. */
interface ToolErrorOptions {
  /** For people; default: the hint of the code. */
  message?: string;
  /** Shown to programs: fields, limits, locations. Never secrets, and never read by the fleet to decide anything. */
  details?: JsonObject;
  facts?: FailureFacts;
  /** Earliest useful retry in milliseconds; sent as `Retry-After`. */
  retryAfterMs?: number;
  cause?: unknown;
}

/** Messages for codes whose hint does not describe what happened. */
const DEFAULT_MESSAGES: Partial<Record<ErrorCode, string>> = { CANCELLED: 'The call was cancelled by its caller' };

/**
 * The only error class that crosses functions and services. Its code determines status, retryability and charge; every
 * transport renders it in one place. Message and details are truncated to the limits below, because errors quote what callers
 * sent and responses, log lines and spans must not grow with it.
 */
export class ToolError extends Error {
  readonly code: ErrorCode;
  readonly details?: JsonObject;
  readonly facts?: Readonly<FailureFacts>;
  readonly retryAfterMs?: number;

  constructor(code: ErrorCode, options: ToolErrorOptions = {}) {
    super(
      truncate(options.message ?? DEFAULT_MESSAGES[code] ?? CATALOGUE[code].hint, MAX_ERROR_MESSAGE),
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.name = 'ToolError';
    this.code = code;
    if (options.details) this.details = boundedDetails(options.details);
    if (options.facts) this.facts = options.facts;
    if (options.retryAfterMs !== undefined) this.retryAfterMs = Math.max(0, Math.ceil(options.retryAfterMs));
  }

  /** The same error with more known about it. */
  withFacts(facts: FailureFacts, details?: JsonObject): ToolError {
    return new ToolError(this.code, {
      message: this.message,
      details: details ? { ...this.details, ...details } : this.details,
      facts: { ...this.facts, ...facts },
      retryAfterMs: this.retryAfterMs,
      cause: this.cause,
    });
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

/** Converts any thrown value. Anything but a ToolError becomes INTERNAL with the original as `cause`. */
export function toToolError(error: unknown): ToolError {
  if (isToolError(error)) return error;
  return new ToolError('INTERNAL', { message: `Internal error: ${toText(error)}`, cause: error });
}

/** Never throws, unlike `String`, which does for objects without a prototype. */
function toText(error: unknown): string {
  try {
    return error instanceof Error ? error.message : String(error);
  } catch {
    return 'a value without a message was thrown';
  }
}

/** Longest message in characters; long enough for tracebacks and upstream messages. */
const MAX_ERROR_MESSAGE = 16_384;
/** Longest string, and longest key, inside the details of an error. */
const MAX_DETAIL_STRING = 1_024;
const MAX_DETAIL_KEY = 128;
/** Most members of one list or object in the details. */
const MAX_DETAIL_MEMBERS = 100;
/** Most characters of all details together, keys included. */
const MAX_DETAILS_CHARS = 32_768;
const MAX_DETAILS_DEPTH = 8;
const CUT = '…';

/** Truncates a text to `chars` characters, ending in `…`. */
function truncate(text: string, chars: number): string {
  return text.length > chars ? `${text.slice(0, chars - 1)}${CUT}` : text;
}

/** Truncates the details of an error to the limits above. Returns the same object when nothing exceeds them, which is the common case. */
function boundedDetails(details: JsonObject): JsonObject {
  const room = { left: MAX_DETAILS_CHARS };
  return bounded(details, room, 0) as JsonObject;
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
