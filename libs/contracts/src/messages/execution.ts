import { blankResult, type CallContext, type CallResult, type ExecutionFailure } from '../call.js';
import { CATALOGUE, type ErrorCode } from '../errors/catalogue.js';
import { ToolError } from '../errors/tool-error.js';
import type { Json, JsonObject } from '../json.js';
import type { Binding } from '../tool-definition.js';
import type { EpochMs, Milliseconds } from '../units.js';
import type { ErrorBody } from '../wire.js';

/**
 * What a tool can observe of a call, the same in every attempt. Two calls share an answer (cache, single flight, session
 * history, idempotency) only when this is equal: the engine derives their identity from it and executors receive it.
 */
export interface ToolInput {
  tool: string;
  /** Content hash of the definition, binding included. */
  revision: string;
  /** Coerced, valid, with defaults. */
  arguments: JsonObject;
  context: ToolContext;
}

/** Tenant of the call and the context keys that the definition of its tool lists. */
export interface ToolContext extends CallContext {
  tenant_id: string;
}

/** One attempt, as sent to an executor. The binding is the complete plan; executors ask the registry nothing. */
export interface ExecMessage extends ToolInput {
  call_id: string;
  /** Numbered from 1. */
  attempt: number;
  /** Fence of the journal; an executor claims with it right before the effect. */
  fence: number;
  /** True: claim in the journal before the effect (non-idempotent or keyed calls). */
  journalled: boolean;
  binding: Binding;
  context: ExecContext;
  /** The caller gave less time than the tool may take: that it ran out says nothing about the target. */
  deadlineShortened?: boolean;
}

/**
 * What a tool may know about its caller: never more than the definition allows. The fields below are of one call alone; a
 * tool that receives the token or the allowance never gets the answer of another call (`callsTools`).
 */
export interface ExecContext extends ToolContext {
  /** HMAC token that `tool.call` accepts, for tools that call tools. */
  delegation_token?: string;
  /** Pass the call id upstream as `Idempotency-Key`. */
  forward_idempotency_key?: boolean;
}

/** Answer of an executor: the outcome of one attempt. Provenance and attempts are the engine's to set. */
export type ExecResponse = Pick<CallResult, 'ok' | 'output' | 'text' | 'metadata'> &
  Partial<Pick<CallResult, 'failure' | 'content' | 'usage'>> & {
    /** Milliseconds the executor worked. */
    execute_ms?: Milliseconds;
    queue_ms?: Milliseconds;
    /** Upstream asked to wait so long before a repeat (`Retry-After`). */
    retry_after_ms?: Milliseconds;
  };

/** A job of `python-runs` and `agent-runs`: the exec message plus what a queue needs. */
export interface ExecJob extends ExecMessage {
  /** Redis channel on which the gateway waits; the job record is the copy. */
  reply_channel: string;
  /** Instant in Redis TIME. */
  deadline_at: EpochMs;
  /** Instant in Redis TIME at which the job was added. */
  queued_at: EpochMs;
  tenant_id: string;
  traceparent?: string;
  /** Longest run in ms, resolved from call, tool and defaults. */
  timeout_ms: Milliseconds;
  /** Present in jobs of `python-runs`. */
  python?: PythonJobPolicy;
}

/** Strictness policy of a sandbox job, resolved by the gateway from the configuration. */
export interface PythonJobPolicy {
  default_strictness: Strictness;
  extra_allowed_modules: { standard: string[]; strict: string[] };
  memory_limit_mb?: number;
}

/** Levels of `execute_python`: lists of modules and builtins, never the boundary. */
export type Strictness = 'lenient' | 'standard' | 'strict';

/** Message on a reply channel of a job. */
export type JobReply =
  | { type: 'result'; job_id: string; call_id: string; attempt: number; reply: ExecResponse }
  | { type: 'error'; job_id: string; call_id: string; attempt: number; error: ErrorBody }
  | { type: 'progress'; job_id: string; call_id: string; message?: string; progress?: number; total?: number };

/** Cancels a call everywhere. */
export interface CancelMessage {
  call_id: string;
  /** Only this attempt; absent: every attempt of the call. */
  attempt?: number;
}

/**
 * Body of `exec.mcp.discover`: `server`, `transport` (default `streamable-http`), `url`, and the connection options of the
 * registration (`headers`, `oauth`, `command`, `prior`, …) with variables unexpanded.
 */
export interface DiscoverMessage {
  server: string;
  [option: string]: Json;
}

/** A tool as a remote MCP server lists it; schemas unchanged. */
export interface RemoteTool {
  name: string;
  title?: string;
  description: string;
  input_schema: JsonObject;
  output_schema?: JsonObject;
  annotations?: JsonObject;
}

/** Answer of `exec.mcp.discover`. */
export interface DiscoverReply {
  server: string;
  /** Revision spoken with the server. */
  protocol_version: string;
  /** Era verdict; stored as `options.prior` of the bindings, it saves the probe of every later connection. */
  prior: JsonObject;
  /** Time the server promises not to change its list; 0 when it promises nothing. */
  ttl_ms: Milliseconds;
  tools: RemoteTool[];
}

/** An error as the failure of a call, for use once an attempt has begun and outcomes are values. */
export function toFailure(error: ToolError): ExecutionFailure {
  return {
    code: error.code,
    errorType: error.entry.class,
    message: error.message,
    retryable: error.entry.retryable,
    details: error.details,
    retryAfterMs: error.retryAfterMs,
  };
}

/**
 * An error as the response of an executor.
 * @param text what a model reads in addition to the failure
 */
export function failedResponse(error: ToolError, text = ''): ExecResponse {
  return {
    ok: false,
    output: null,
    text,
    metadata: {},
    failure: toFailure(error),
    retry_after_ms: error.retryAfterMs,
  };
}

/**
 * The response of an executor as the result of a call. A response that failed without a failure becomes TOOL_ERROR.
 * @param executeMs time that the caller measured, for executors that report none
 */
export function toCallResult(response: ExecResponse, executeMs: Milliseconds): CallResult {
  const { ok, output, text, usage, metadata, content } = response;
  const result = blankResult({
    ok,
    output: output ?? null,
    text: text ?? '',
    metadata: metadata ?? {},
    timing: { queue_ms: response.queue_ms ?? 0, wait_ms: 0, execute_ms: response.execute_ms ?? executeMs },
    attempts: 1,
  });
  if (usage) result.usage = usage;
  if (content) result.content = content;
  if (!ok) result.failure = readFailure(response);
  return result;
}

function readFailure({ failure, text, retry_after_ms }: ExecResponse): ExecutionFailure {
  const found = failure ?? toFailure(new ToolError('TOOL_ERROR', { message: text || CATALOGUE.TOOL_ERROR.hint }));
  return { ...found, retryAfterMs: found.retryAfterMs ?? retry_after_ms };
}

/** After these failures it is unknown whether the effect took place. All others are answers of the tool. */
const LEAVES_OUTCOME_OPEN: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'ATTEMPT_TIMED_OUT',
  'CANCELLED',
  'DEADLINE_EXCEEDED',
  'EXECUTOR_UNAVAILABLE',
  'WORKER_LOST',
  'INTERNAL',
  'SERVICE_UNAVAILABLE',
]);

/**
 * True when a failure leaves open whether the effect took place. Executors add what they know to `details`: `stopped: true`
 * when they ended the work themselves, `delivered: true` when the connection broke after the request had been sent.
 */
export function leavesOutcomeOpen({ code, details }: Pick<ExecutionFailure, 'code' | 'details'>): boolean {
  if (code === 'NETWORK_ERROR') return details?.delivered === true;
  return LEAVES_OUTCOME_OPEN.has(code) && details?.stopped !== true;
}
