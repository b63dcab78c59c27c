import type { Json, JsonObject } from '@toolfleet/base/json';
import type { EpochMs, MicroUsd, Milliseconds } from './units.js';
import type { ContextKey, RegisteredTool } from './tool-definition.js';
import type { Origin, Principal } from './principal.js';
import type { ErrorClass, ErrorCode } from './errors/catalogue.js';
import type { FailureFacts, ToolError } from './errors/tool-error.js';
import type { Approval } from './approval.js';
import type { PlannedEffect, ProgramState } from './program-state.js';
import type { ToolView } from './toolset.js';

/** Transport that a call came through. */
export type EntryPoint = 'http' | 'mcp' | 'nats' | 'queue' | 'program';

/**
 * Session fields and trusted context that came with a call, already stripped for its origin. `create_project` accompanies
 * `project_id`: true for a project that exists by declaration or may be created, false for one that must have a workspace.
 */
export type CallContext = Partial<Record<ContextKey | 'create_project', Json>>;

/** Session that a call has by its connection, or by its caller where the protocol has no connections. */
export interface ExchangeSession {
  id: string;
  /** `principal`: all calls of a user share it. Sandbox runs do not receive it, because they would share variables and queue up. */
  scope: 'connection' | 'principal';
}

/**
 * How a caller reads a part of a kept result, by the tools it sees: with a tool by its name, with a tool through MCP's
 * `call_tool`, with a function of its programs, or only as an MCP resource.
 */
export type ResultReading =
  | { by: 'tool' | 'call_tool'; tool: string }
  | { by: 'program'; function: string }
  | { by: 'resource' };

/**
 * How far a call goes.
 * - `run`: to its end.
 * - `dry`: its admission and its price, without running the tool. Not an execution: no metric counts it and the log marks it.
 * - `admit`: its admission, before it is queued. Only a refusal ends the call here and is recorded; the execution is recorded when it
 *   happens.
 * - `resume`: to its end, after it was accepted for later. `mayHaveBegun`: an earlier run may have begun, and the store may have lost its
 *   record; without a record, a tool that must not be repeated ends as OUTCOME_UNKNOWN.
 * - `refused`: nowhere, because its credential was revoked or has expired since it was accepted, or a person declined it. The call is
 *   audited, traced and metered like any other and costs nothing.
 */
export type CallMode =
  | { kind: 'run' | 'dry' | 'admit' }
  | { kind: 'resume'; acceptedAt: EpochMs; mayHaveBegun: boolean }
  | { kind: 'refused'; reason: ToolError };

/** The tool that a call runs. */
export interface CallTarget {
  toolName: string;
  /** How the caller's toolset shows the tool. `toolName` is the original name then. */
  view?: ToolView;
  /** Runs this definition in place of the one in effect: one that awaits an approval is tried with calls of the past. */
  definition?: RegisteredTool;
}

/** The caller's arguments for the tool. */
export interface CallInput {
  /** As sent, before coercion. */
  rawArguments: JsonObject;
  /** JSONPath or JMESPath expression; its caller gets the part of the result that it selects. Overrides the tool's. */
  select?: string;
}

export interface CallLimits {
  /** The call must finish by then. */
  deadlineAt: EpochMs;
  /** Upper bound of one attempt, requested by the caller. */
  timeoutMs?: Milliseconds;
  /** Makes one attempt only. */
  noRetry?: boolean;
  /** Maximum number of bytes of a result that the caller takes whole; a larger one is kept, and the caller gets its handle. */
  inlineBytes?: number;
}

/** Which earlier results may answer a call, and which later calls its own may answer. */
export interface CallReuse {
  idempotencyKey?: string;
  /** The key counts only for a tool with effects; of others the caller remembers the results itself. */
  keyForEffects?: boolean;
  /** How long a duplicate of an unfinished call waits for it (`Prefer: wait=<s>`). */
  idempotencyWaitMs?: Milliseconds;
  /** Runs the tool instead of reusing an earlier result; `no-store` also does not keep the new one for other calls. */
  cache?: 'no-store' | 'reload';
  /** The finished call that this one runs again. */
  repeats?: string;
}

/** The maker of a call, and the capabilities of its connection. */
export interface CallCaller {
  principal: Principal;
  origin: Origin;
  entryPoint: EntryPoint;
  context: CallContext;
  /**
   * Session of the MCP exchange that the call came in. Session-aware tools receive it when the call names no `session_id`; results
   * are not deduplicated in it.
   */
  exchangeSession?: ExchangeSession;
  /** Program that sent it, as it names itself: `claude-code/2.1`. */
  client?: string;
  /** Aborted when the caller goes away or cancels. */
  signal: AbortSignal;
  /** How the caller can read the parts of a kept result; by default with the tool `read_result`. */
  resultReading?: ResultReading;
  /** Who is asked where the policy wants an approval, and the questions that a person approved. */
  approval?: {
    /**
     * The entry point asks the person of its client and makes the call again with the answer. APPROVAL_REQUIRED is then not the end of
     * the call, and nothing records it. Set by MCP.
     */
    asks: boolean;
    /** The caller can wait for a decision: the call is parked, and runs when it is approved. */
    parks?: boolean;
    given?: Approval;
  };
  /** State that a program kept while it waited for people. */
  program?: ProgramState;
  /** A program plans its effects, or keeps to a plan. */
  effects?: EffectGate;
  /** Input of a person, for servers that ask for it while they run a call. Absent: its caller cannot be asked. Set by MCP. */
  personInput?: PersonInput;
  /** Receives progress of a long call; absent when the transport does not show it. */
  onProgress?: (progress: CallProgress) => void;
}

/** One request to run a tool, as every transport passes it to the engine. `callRequest` builds it. */
export interface CallRequest extends CallCaller {
  callId: string;
  target: CallTarget;
  input: CallInput;
  limits: CallLimits;
  reuse: CallReuse;
  mode: CallMode;
  /** Request, agent and task that the call is charged to. */
  requestId?: string;
  agentId?: string;
  taskId?: string;
}

/** Meets every call of a program with a plan, right before people are asked. */
export interface EffectGate {
  /** A call with effects is only quoted, as by a dry run. */
  dry: boolean;
  /**
   * @param isEffect whether the call has effects or needs an approval
   * @returns the approval of people for it. @throws ToolError OUTSIDE_PLAN
   */
  meet(effect: PlannedEffect, isEffect: boolean): Promise<Approval | undefined>;
}

/** Capabilities of a caller for servers that ask a person for input. */
export interface PersonInput {
  /** Client capabilities of MCP that the caller declared for this (`elicitation`). */
  capabilities: JsonObject;
  /**
   * Where the server of a tool answers with a task: `take` hands it to the caller that makes the call again to follow it; `follow`
   * reports its questions as progress; `answer` only sends it the given answers. Absent: the call waits for the end of the task, and
   * asks its caller like any other.
   */
  tasks?: 'take' | 'follow' | 'answer';
  /** Answers to the tool's questions from the call before. Valid only for the revision of the tool that asked. */
  given?: {
    responses: JsonObject;
    state?: string;
    revision: string;
    /** Id at the server of the task that asked; the call goes on with it. */
    task?: string;
    /** The mcp-executor that holds the call open; the answers have to reach this one. */
    executor?: string;
  };
}

/** A running task of an MCP server. */
export interface ServerTask {
  /** At the server. */
  id: string;
  server: string;
  /** Revision of the tool that began it. */
  revision: string;
  /** Its questions to a person, by key; empty while it asks for nothing. */
  requests: JsonObject;
}

/** Progress of a running call. */
export interface CallProgress {
  message?: string;
  progress?: number;
  total?: number;
  /** The task of an MCP server that the call follows. Reported with `PersonInput.tasks: 'follow'` only. */
  task?: ServerTask;
}

/** Tokens and money that a call consumed. `tokens` is 0 when the tool reports none. */
export interface Usage {
  tokens: number;
  microUsd: MicroUsd;
  /** The tool reserved and settled these amounts in slices; only the excess is still to be charged. */
  settled?: boolean;
}

/** Where the time of a call went. */
interface CallTiming {
  queue_ms: Milliseconds;
  wait_ms: Milliseconds;
  execute_ms: Milliseconds;
}

/** A failure of the tool itself, reported in the result. Refusals before the tool ran are `ToolError`s. */
export interface ExecutionFailure {
  code: ErrorCode;
  /** Class that models and metrics see. */
  errorType: ErrorClass;
  message: string;
  retryable: boolean;
  /** Shown, never read. */
  details?: JsonObject;
  /** Facts besides the code that decide charge, repeats and breakers. */
  facts?: FailureFacts;
  /** Earliest retry, requested by the upstream (`Retry-After`) or a breaker. */
  retryAfterMs?: Milliseconds;
}

/** Content blocks of MCP that are not text, kept as received (image, audio, resource, resource_link). */
export type ContentBlock = JsonObject;

/** Members of every outcome. */
interface ResultOutcome {
  /** JSON value of the tool; null when there is none. */
  output: Json;
  /** Human-readable summary for the model, at most 6,000 characters. */
  text: string;
  usage: Usage;
  /** Shown to callers, never read to decide anything. Members of the engine have names that tools cannot use, see `ENGINE_METADATA`. */
  metadata: JsonObject;
  /** Rich content for MCP clients. */
  content?: ContentBlock[];
  /** How long the upstream lets the result be reused (`Cache-Control`); 0: not at all. Absent: it does not say. */
  cacheTtlMs?: Milliseconds;
  timing: CallTiming;
  /** Attempts begun; 0 for a cached result. */
  attempts: number;
  /** The call with the same idempotency key that had this outcome first. This call ran nothing and is not charged. */
  replayOf?: string;
}

/** The tool succeeded, now or when its result was cached. */
export interface Succeeded extends ResultOutcome {
  ok: true;
  provenance: 'live' | 'cache';
  failure?: undefined;
  replaced?: undefined;
}

/** The tool could not be reached; an older result or its stub data answers the call. Free. */
export interface Substituted extends ResultOutcome {
  ok: true;
  provenance: 'stale_cache' | 'stub';
  failure?: undefined;
  /** The failure that the caller does not see. */
  replaced: ExecutionFailure;
}

/** The tool failed, perhaps with partial output. */
export interface Failed extends ResultOutcome {
  ok: false;
  provenance: 'live';
  failure: ExecutionFailure;
  replaced?: undefined;
}

/**
 * Outcome of one attempt, and of one call: once an attempt has begun, failures are values and not exceptions. Inside the
 * fleet; callers receive a `CallBody`.
 */
export type CallResult = Succeeded | Substituted | Failed;

/** Names in `metadata` that only the engine may set, because callers rely on them; tools' are dropped. */
export const ENGINE_METADATA: readonly string[] = [
  'attempts',
  'cache_age_ms',
  'coalesced',
  'coercions',
  'content_omitted',
  'cost_overrun_usd',
  'disclaimer',
  'dropped_arguments',
  'dry_run',
  'fallback',
  'from_cache',
  'idempotent_replay',
  'interceptors',
  'output_schema_mismatch',
  'provenance',
  'repeated_in_session',
  'replaced_code',
  'replaced_error',
  'replayed_call_id',
  'reported_cost_usd',
  'result_handle',
  'result_omitted',
  'select',
  'timing',
  'untrusted',
];

/** A success without output, made by no attempt and at no cost, so that a new field has its default in one place. */
export function succeeded(fields: Partial<Omit<Succeeded, 'ok'>> = {}): Succeeded {
  return { ok: true, output: null, text: '', provenance: 'live', metadata: {}, ...costNothing(), ...fields };
}

/** A failure without output, after no attempt and at no cost. */
export function failedWith(failure: ExecutionFailure, fields: Partial<Omit<Failed, 'ok' | 'failure'>> = {}): Failed {
  return { ok: false, failure, output: null, text: '', provenance: 'live', metadata: {}, ...costNothing(), ...fields };
}

/** The usage part of a result, for an answer that ran nothing. A new object each time. */
export function costNothing(): Pick<CallResult, 'usage' | 'timing' | 'attempts'> {
  return { usage: { tokens: 0, microUsd: 0 }, timing: { queue_ms: 0, wait_ms: 0, execute_ms: 0 }, attempts: 0 };
}

/** Why a stored body has no payload any more, as `metadata.result_omitted` shows it; undefined while it has one. */
export function payloadOmitted({ metadata }: { metadata: JsonObject }): Json | undefined {
  return metadata['result_omitted'];
}

/** The note that a stored body is not a live result; empty for a live one. */
export function disclaimerOf({ metadata }: { metadata: JsonObject }): JsonObject {
  const { disclaimer } = metadata;
  return disclaimer === undefined ? {} : { disclaimer };
}

/** Whether a body shows its tool's own result: no substitute, no explanation of a failure, no selection. */
export function isOwnOutcome({ success, metadata }: { success: boolean; metadata: JsonObject }): boolean {
  return success && metadata['fallback'] === undefined && metadata['select'] === undefined;
}
