import type { CallFields } from './call-fields.js';
import type { Json, JsonObject } from './json.js';
import type { EpochMs, MicroUsd, Milliseconds } from './units.js';
import type { ContextKey } from './tool-definition.js';
import type { Origin, Principal } from './principal.js';
import type { ErrorClass, ErrorCode } from './errors/catalogue.js';
import type { ToolError } from './errors/tool-error.js';

/** Which protocol entry a call came through. */
export type Door = 'http' | 'mcp' | 'nats' | 'queue';

/** Session fields and trusted context that came with a call, already stripped for its origin. */
export type CallContext = Partial<Record<ContextKey, Json>>;

/** One request to run a tool, as a door hands it to the engine. */
export interface CallRequest {
  callId: string;
  toolName: string;
  /** As sent, before coercion. */
  rawArguments: JsonObject;
  principal: Principal;
  origin: Origin;
  door: Door;
  context: CallContext;
  /** The call must finish by then. */
  deadlineAt: EpochMs;
  /** Aborted when the caller goes away or cancels. */
  signal: AbortSignal;
  requestId?: string;
  agentId?: string;
  taskId?: string;
  idempotencyKey?: string;
  /** How long a duplicate of an unfinished call waits for it (`Prefer: wait=<s>`). */
  idempotencyWaitMs?: Milliseconds;
  /** Upper bound of one attempt asked for by the caller. */
  timeoutMs?: Milliseconds;
  /** Forces one attempt. */
  noRetry?: boolean;
  /** Everything up to the price, nothing run. */
  dryRun?: boolean;
  /** What a person agreed to for this very call; only transports that asked one set it. */
  approved?: Approval;
  /**
   * An earlier run of this call may have begun, and the store may have lost its record. Without a record, a tool that must not
   * be repeated ends as OUTCOME_UNKNOWN. Only the queue of asynchronous calls sets it.
   */
  mayHaveBegun?: boolean;
  /**
   * Why the call may not start although it was accepted: its credential is void by now. It is observed like every other call
   * and charged nothing.
   */
  refusal?: ToolError;
  /** Receives progress of a long call, if the door shows it. */
  onProgress?: (progress: CallProgress) => void;
}

/** A person's yes to questions of the policy. It counts for the definition that the person was shown, and for no later one. */
export interface Approval {
  questions: readonly string[];
  /** Revision of the tool's definition when the questions were asked. */
  revision: string;
}

/** Progress of a running call. */
export interface CallProgress {
  message?: string;
  progress?: number;
  total?: number;
}

/** Where an answer comes from; present on every result. */
export type Provenance = 'live' | 'cache' | 'stale_cache' | 'stub';

/** Tokens and money a call really consumed. `tokens` is 0 when the tool reports none. */
export interface Usage {
  tokens: number;
  microUsd: MicroUsd;
  /** The tool held and settled these amounts in slices; only what exceeds them is still to be charged. */
  settled?: boolean;
}

/** Where the time of a call went. */
export interface CallTiming {
  queue_ms: Milliseconds;
  wait_ms: Milliseconds;
  execute_ms: Milliseconds;
}

/** What a tool itself did wrong, in-band. */
export interface ExecutionFailure {
  code: ErrorCode;
  /** Class that models and metrics see. */
  errorType: ErrorClass;
  message: string;
  retryable: boolean;
  details?: JsonObject;
  /** Asked for by the upstream (`Retry-After`) or by a breaker. */
  retryAfterMs?: Milliseconds;
}

/** Content blocks of MCP that are not text, kept as received (image, audio, resource, resource_link). */
export type ContentBlock = JsonObject;

/** Outcome of one attempt and of one call: a value, never an exception. */
export interface CallResult {
  ok: boolean;
  /** JSON value of the tool; null when there is none. */
  output: Json;
  /** Human-readable summary for the model, at most 6,000 characters. */
  text: string;
  failure?: ExecutionFailure;
  provenance: Provenance;
  usage: Usage;
  /** Tool-specific facts, shown as `metadata`. */
  metadata: JsonObject;
  /** Rich content for MCP clients. */
  content?: ContentBlock[];
  timing: CallTiming;
  /** Attempts begun, 0 for a cached answer. */
  attempts: number;
}

/** Body of a finished call on every plain door. */
export interface CallBody {
  success: boolean;
  output: Json;
  text: string;
  error: string | null;
  metadata: JsonObject;
  /** Images, audio, links and embedded resources, as MCP has them, when the tool gave any: at most `SIZES.toolResult` bytes. */
  content?: ContentBlock[];
  execution_time_ms: Milliseconds;
  usage: { tokens: number; cost_usd: number };
  call_id: string;
}

/** Body of a call accepted for asynchronous execution (HTTP 202). */
export interface AcceptedBody {
  call_id: string;
  status: 'accepted';
}

/** A call as sent over NATS: tool, arguments and the fields of `CALL_FIELDS`. */
export interface CallMessage extends CallFields {
  name: string;
  arguments: JsonObject;
}

/** Unified call record for storage and streaming. */
export interface CallRecord {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
  result: string;
  success: boolean;
  skipped: boolean;
  execution_time: Milliseconds;
}

/** States of an asynchronous or journalled call. */
export type CallState = 'accepted' | 'claimed' | 'succeeded' | 'failed' | 'cancelled' | 'expired' | 'outcome_unknown';
