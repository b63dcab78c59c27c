import {
  ENGINE_METADATA,
  failedWith,
  succeeded,
  type CallContext,
  type PersonInput,
  type CallResult,
  type ExecutionFailure,
  type Failed,
  type Succeeded,
  type Usage,
} from '../call.js';
import { CATALOGUE } from '../errors/catalogue.js';
import { ToolError } from '../errors/tool-error.js';
import type { Json, JsonObject } from '@toolfleet/base/json';
import {
  choice,
  flag,
  integer,
  maybe,
  number as numberSchema,
  object,
  record,
  text as textSchema,
  type Value,
} from '../json-schema.js';
import type { Binding, McpBinding } from '../tool-definition.js';
import { toMicroUsd, type EpochMs, type Milliseconds } from '../units.js';

/**
 * Everything that a tool can observe of a call, equal in all attempts. Two calls share a result (cache, single flight, session
 * history, idempotency) only if it is equal: the engine derives the key of the result from it.
 */
export interface ToolInput {
  tool: string;
  /** Content hash of the definition, including its binding. */
  revision: string;
  /** Valid arguments, after coercion and defaults. */
  arguments: JsonObject;
  context: CallToolContext;
}

/** Tenant of the call, and the context that the tool's definition requests. */
interface CallToolContext extends CallContext {
  tenant_id: string;
  /** The grant of the user that the tool acts with. Results of one grant answer no call with another. */
  grant?: string;
}

/**
 * Owner of the calls that a breaker counts together: a tenant, or one grant where the tool acts with the credentials of users. What
 * fails for one user opens nothing for others.
 */
export function breakerParty({ tenant_id: tenant, grant }: Pick<CallToolContext, 'tenant_id' | 'grant'>): string {
  return grant === undefined ? tenant : `${tenant}/${grant}`;
}

/** One attempt, as sent to an executor. Complete: the executor needs nothing from the registry. */
/** Contents of a resource as they were approved. Absent members are not pinned. */
export interface ApprovedContents {
  /** Digests of the page of an MCP App (`pageDigest`). */
  pages?: string[] | undefined;
  /** Entries of the skills with this file. */
  skills?: Json[] | undefined;
}

export interface ExecMessage extends ToolInput {
  call_id: string;
  /** Number of the attempt, from 1. */
  attempt: number;
  /** Fencing token with which the executor claims the call in the journal right before the effect. */
  fence: number;
  /** The executor must claim the call: it is not idempotent or has an idempotency key. */
  journalled: boolean;
  /** Present: the call is not in the journal yet, and the claim enters it. */
  entry?: { user_id: string; maker?: string | undefined; remaining_ms: Milliseconds; deadline_at: EpochMs };
  binding: Binding;
  context: ExecContext;
  /** Of a resource of an MCP server that is pinned: other contents await an approval. */
  approved?: ApprovedContents | undefined;
  /** Input of a person for a tool that asks for it. */
  input?: PersonInput;
  /** The caller allows less time than the tool may take, so a timeout must not count against the target's breaker. */
  deadlineShortened?: boolean;
}

/**
 * The members of an `ExecMessage` that executors use before the tool: its claim in the journal, its handler, its breaker. Bindings and
 * arguments were checked when they were registered and sent.
 */
export const EXEC_MESSAGE = record({
  tool: textSchema(),
  revision: textSchema(),
  arguments: object(),
  call_id: textSchema(),
  attempt: integer(),
  fence: integer(),
  journalled: flag(),
  entry: maybe(
    record({
      user_id: textSchema(),
      maker: maybe(textSchema()),
      remaining_ms: numberSchema(),
      deadline_at: numberSchema(),
    }),
  ),
  binding: record({ kind: textSchema() }),
  context: record({ tenant_id: textSchema() }),
});

/**
 * Context of a caller for its tool, limited by its definition. The fields below belong to a single call; tools that
 * receive the token never share results with another call (`callsTools`).
 */
export interface ExecContext extends CallToolContext {
  /** Token (HMAC) for `tool.call`, for tools that call tools. */
  delegation_token?: string;
  /** Token (HMAC) for `identity.grant.token`, for tools that act with the credential of a user. */
  grant_token?: string;
  /** Send the call id to the upstream as `Idempotency-Key`. */
  forward_idempotency_key?: boolean;
}

/**
 * Headers with the session and the user of a call, for upstreams with session-aware tools. Values are percent-encoded where
 * they are not printable ASCII.
 */
export function sessionHeaders(context: CallContext): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [header, value] of [
    ['x-session-id', context.session_id],
    ['x-user-id', context.user_id],
  ] as const) {
    if (typeof value !== 'string') continue;
    headers[header] = value.toWellFormed().replaceAll(/[^!-$&-~]+/g, encodeURIComponent);
  }
  return headers;
}

/** Response of an executor: the outcome of one attempt. The engine adds provenance and number of attempts. */
export type ExecResponse = Pick<Succeeded, 'output' | 'text' | 'metadata'> &
  Partial<Pick<Succeeded, 'content' | 'usage'>> & {
    ok: boolean;
    failure?: ExecutionFailure;
    /** Milliseconds that the executor worked. */
    execute_ms?: Milliseconds;
    queue_ms?: Milliseconds;
    /** Earliest retry, requested by the upstream (`Retry-After`). */
    retry_after_ms?: Milliseconds;
    /** How long the upstream lets the result be reused (`Cache-Control`); 0: not at all. Absent: it does not say. */
    cache_ttl_ms?: Milliseconds;
    /** A program was stopped because nothing else of it can run: its questions of calls that wait for people. */
    waits?: JsonObject[];
  };

/** A job of `python-runs`, `program-runs` or `agent-runs`: an attempt with its queue options. */
export interface ExecJob extends ExecMessage {
  /** Redis channel on which the gateway waits. The job record keeps the reply as well, in case the message is lost. */
  reply_channel: string;
  /** By the clock of Redis. */
  deadline_at: EpochMs;
  /** When the job was added, by the clock of Redis. */
  queued_at: EpochMs;
  tenant_id: string;
  traceparent?: string;
  /** Maximum duration of a run in milliseconds, from call, tool and defaults. */
  timeout_ms: Milliseconds;
  /** Only in jobs of `python-runs` and `program-runs`. */
  python?: PythonJobPolicy;
  /** Only in jobs of `program-runs`. */
  program?: ProgramSeed;
}

/** Inputs that make a second run of a program take the path of the first. */
interface ProgramSeed {
  seed: string;
  started_at: EpochMs;
}

/** Sandbox policy of a job, from the configuration of the gateway. */
export interface PythonJobPolicy {
  /** Level of `execute_python`: `strict` has lists of modules and builtins, `lenient` is another name of `standard`. */
  default_strictness: 'lenient' | 'standard' | 'strict';
  extra_allowed_modules: { strict: string[] };
  memory_limit_mb?: number;
}

/**
 * `exec.mcp.discover`: `server`, `transport` (default `streamable-http`), `url`, and the connection options of the registration
 * (`headers`, `oauth`, `command`, `prior`, …), with variables not expanded.
 */
export const DISCOVER = record({
  server: textSchema(undefined, { minLength: 1 }),
  url: maybe(textSchema()),
  transport: maybe(choice(['streamable-http', 'stdio', 'auto'])),
});
export type DiscoverMessage = Value<typeof DISCOVER> & JsonObject;

/** A tool as its MCP server lists it, with unchanged schemas. */
export interface RemoteTool {
  name: string;
  title?: string;
  description: string;
  input_schema: JsonObject;
  output_schema?: JsonObject;
  annotations?: JsonObject;
  /** Icons and `_meta` for MCP clients, not for models. */
  listing?: JsonObject;
}

/** Response to `exec.mcp.discover`. */
export interface DiscoverReply {
  server: string;
  /** Protocol revision negotiated with the server. */
  protocol_version: string;
  /** Detected protocol revision. Stored as `options.prior` of the bindings to spare later connections the detection. */
  prior: JsonObject;
  /** How long the server's list stays valid; 0 when the server does not say. */
  ttl_ms: Milliseconds;
  tools: RemoteTool[];
  /** Items and members of the lists that could not be read, and how the session was opened if not as usual, as lines for an administrator. */
  notes?: string[];
  /** Prompts as the server lists them. */
  prompts?: JsonObject[];
  /** Resources and templates as the server lists them; absent when it has no resources. */
  resources?: {
    resources: JsonObject[];
    resourceTemplates: JsonObject[];
    /** Whether clients can subscribe to them. */
    subscribe?: boolean;
    /** Whether the server lists the children of directories. */
    directoryRead?: boolean;
  };
  /** Skills as the server lists them, and why others are left out. */
  skills?: { skills: JsonObject[]; refused: string[] };
}

/** How often an executor that follows the task of a server reports to the gateway, whether anything has changed or not. */
export const TASK_REPORT_MS = 3_000;
/** An executor that follows a task and reports nothing for this long is gone: another one follows the task. */
export const TASK_SILENT_MS = 12_000;

/** How often a gateway renews a `ResourceLease`, and an executor its `ResourceClaim`. */
export const LEASE_RENEWAL_MS = 10_000;
/** A lease or claim that is not renewed for this long is over: its process is gone. */
export const LEASE_MS = 3 * LEASE_RENEWAL_MS;

/** `exec.mcp.watch`: all resources of a source that the clients of one gateway subscribe to; none ends the lease. */
export interface ResourceLease {
  gateway: string;
  /** Identifies the source and its connection in all three messages. */
  source: string;
  binding: McpBinding;
  /** Addresses at the server. */
  uris: string[];
}

/** `exec.mcp.claim`: this executor subscribes at the source. Of two claims the one with the lower name stands. */
export interface ResourceClaim {
  source: string;
  executor: string;
}

/** `mcp.updated`: a resource has changed, or may have while there was no connection. */
export interface ResourceUpdate {
  source: string;
  uri: string;
}

/** An error as the failure of a call, for use once an attempt has begun and outcomes are values. */
export function toFailure(error: ToolError): ExecutionFailure {
  return {
    code: error.code,
    errorType: CATALOGUE[error.code].class,
    message: error.message,
    retryable: CATALOGUE[error.code].retryable,
    details: error.details,
    facts: error.facts,
    retryAfterMs: error.retryAfterMs,
  };
}

/**
 * An error as the response of an executor.
 * @param text for a model, in addition to the failure
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
 * The response of an executor as the result of a call. A response that failed without a failure becomes TOOL_ERROR. The cost that a
 * tool reports in `metadata.cost_usd` becomes its usage, and names that belong to the engine are dropped from its metadata.
 * @param executeMs time that the caller measured, for executors that report none
 */
export function toCallResult(response: ExecResponse, executeMs: Milliseconds): CallResult {
  const { ok, output, text, content, metadata } = response;
  const fields: Partial<Omit<Succeeded, 'ok' | 'provenance'>> = {
    output: output ?? null,
    text: text ?? '',
    metadata: toOwnMetadata(metadata),
    timing: { queue_ms: response.queue_ms ?? 0, wait_ms: 0, execute_ms: response.execute_ms ?? executeMs },
    attempts: 1,
  };
  const usage = readUsage(response);
  if (usage) fields.usage = usage;
  if (content) fields.content = content;
  if (response.cache_ttl_ms !== undefined) fields.cacheTtlMs = response.cache_ttl_ms;
  return ok ? succeeded(fields) : failedWith(readFailure(response), fields as Partial<Omit<Failed, 'ok' | 'failure'>>);
}

function toOwnMetadata(metadata: JsonObject | undefined): JsonObject {
  if (!metadata) return {};
  // Tools have few names or none, and the engine has many.
  if (!Object.keys(metadata).some((name) => ENGINE_METADATA.includes(name))) return metadata;
  return Object.fromEntries(Object.entries(metadata).filter(([name]) => !ENGINE_METADATA.includes(name)));
}

function readUsage({ usage, metadata }: ExecResponse): Usage | undefined {
  const usd = metadata?.cost_usd;
  if (usage?.settled || typeof usd !== 'number' || !(usd > 0) || !Number.isFinite(usd)) return usage;
  return { tokens: 0, ...usage, microUsd: toMicroUsd(usd) };
}

function readFailure({ failure, text, retry_after_ms }: ExecResponse): ExecutionFailure {
  const found = failure ?? toFailure(new ToolError('TOOL_ERROR', { message: text || CATALOGUE.TOOL_ERROR.hint }));
  return { ...found, retryAfterMs: found.retryAfterMs ?? retry_after_ms };
}

/** True when a failure leaves open whether the effect took place. */
export function leavesOutcomeOpen({ code, facts = {} }: Pick<ExecutionFailure, 'code' | 'facts'>): boolean {
  if (facts.begun !== undefined || facts.delivered === false) return false;
  if (code === 'NETWORK_ERROR') return facts.delivered === true;
  return CATALOGUE[code].leavesOutcomeOpen;
}

/** A job as the gateway adds it. The queue adds the reply channel, the job id and the instants in Redis TIME. */
export type NewExecJob = Omit<ExecJob, 'reply_channel' | 'deadline_at' | 'queued_at'>;
