import type { ApprovalRule, CallRequest, CallResult, JsonObject, MicroUsd, Milliseconds } from '@toolfleet/contracts';
import type { ToolInput } from '@toolfleet/contracts/execution';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { JournalEntry } from '@toolfleet/journal';
import type { Deadline } from '@toolfleet/resilience';
import type { Coercion } from '@toolfleet/bounded-schema';
import type { SelectExpression } from '@toolfleet/bounded-schema/select';
import { CallIdentity, toToolInput } from './call-identity.js';
import type { Interception } from './interceptor.js';
import { attemptTimeoutMs, type ToolPlan } from './tool-plan.js';
import type { EngineSettings } from './settings.js';

/** Opaque; each `drop` changes it. */
export type CacheVersion = string;

/**
 * Runs one call. Resolves to its result or a failure of the tool (`ok: false`).
 * @throws ToolError when the call was refused before its tool ran
 */
export type ExecuteCall = (request: CallRequest) => Promise<CallResult>;

/**
 * One call from the moment the engine takes it until it ends: a single mutable object, shared by all attempts and steps and
 * filled in as the call gets further. Records and spans report from it. The engine decides one thing from it: how a call ends that is
 * stopped (`attempts` and `tool`, see `withinDeadline`).
 */
export interface ActiveCall {
  /** As received; from the step `resolve` on under the original name of its tool. */
  request: CallRequest;
  /** Runs another call on behalf of this one: a program calls tools. */
  readonly makeCall: ExecuteCall;
  /** Monotonic ms at which the engine took the call. */
  readonly startedAt: Milliseconds;
  /** The resolved definition; absent until the tool is found. */
  tool?: RegisteredTool;
  /** Arguments after coercion, with defaults; absent until they are valid. */
  arguments?: JsonObject;
  /** The policy's decision, and the places of the rules that denied or asked; absent for a call that ended before. */
  policy?: PolicyVerdict;
  /** Present: the policy allows the call if people approve it. */
  asked?: Allowed | undefined;
  /** What interceptors did to the call. */
  interceptions?: readonly Interception[];
  /** The answer of an interceptor in place of the tool. */
  answer?: CallResult;
  /** Id of the grant that let the call run without asking people. */
  approvalGrant?: string;
  /** Lossless conversions made on the arguments. */
  coercions: readonly Coercion[];
  /** Names of dropped arguments: the tool does not declare them. */
  dropped: readonly string[];
  /** Monotonic ms at which admission ended; absent for a call that was refused before. */
  admittedAt?: Milliseconds;
  /** Attempts handed to an executor. */
  attempts: number;
  /** True while the executor of the current attempt has missed the time to acknowledge it. */
  isUnacknowledged: boolean;
  /** Milliseconds spent waiting for the rate limit and between attempts. */
  waitedMs: Milliseconds;
}

/** A call that may run. `ask`: questions that a person has to approve first. */
export interface Allowed {
  allowed: true;
  ask?: string[];
  approval?: ApprovalRule;
  rules?: readonly string[];
}

/** A decision of the policy, for the record. `rules` are places such as `tools.rego:8`. */
interface PolicyVerdict {
  readonly decision: 'allowed' | 'asked' | 'denied';
  readonly rules?: readonly string[] | undefined;
}

/** Starts to track a request at `startedAt` (monotonic ms). */
export function newActiveCall(request: CallRequest, startedAt: Milliseconds, makeCall: ExecuteCall): ActiveCall {
  return {
    request,
    makeCall,
    startedAt,
    coercions: [],
    dropped: [],
    attempts: 0,
    isUnacknowledged: false,
    waitedMs: 0,
  };
}

/** The charge of a call. A replay shows the charge of the first call and costs nothing. */
export function chargedMicroUsd({ usage, replayOf }: CallResult): MicroUsd {
  return replayOf === undefined ? usage.microUsd : 0;
}

/** A call with its one signal and its end. */
export interface TimedCall {
  /** Shared by all attempts of the call. */
  readonly active: ActiveCall;
  /** Aborted by the caller, the deadline or the attempt timeout. */
  readonly signal: AbortSignal;
  readonly deadline: Deadline;
}

/** A call of a known tool. */
export interface ResolvedCall extends TimedCall {
  readonly tool: RegisteredTool;
  /** The plan derived from the definition, once per revision. */
  readonly plan: ToolPlan;
}

/**
 * One attempt of a call with valid arguments, as it passes through the steps. Immutable: a step that changes something passes a
 * copy on, so that nothing leaks from one attempt into the next.
 */
export interface Call extends ResolvedCall {
  readonly callId: string;
  readonly request: CallRequest;
  /** Coerced and valid, with defaults. */
  readonly arguments: JsonObject;
  /** Everything the tool can observe; the same in every attempt. */
  readonly input: ToolInput;
  /** Decides which calls may share a result with this one. */
  readonly identity: CallIdentity;
  /** Counts from 1. */
  readonly attempt: number;
  /** Fence of the journal entry; 0 for a call that is not journalled. */
  readonly fence: number;
  /** True: the executor must claim `(callId, fence)` immediately before the effect. */
  readonly journalled: boolean;
  /** Present: no record of the call exists yet, and the first move of anyone enters it. */
  readonly entry?: JournalEntry;
  /** Longest run of this attempt, without time spent in a queue. */
  readonly timeoutMs: Milliseconds;
  /** Most that the call is charged besides settled slices; infinite for a tool without a price (it reserves nothing). */
  readonly maxMicroUsd: MicroUsd;
  /** Version of the source's cached results when this call looked its result up; undefined when it did not, or is unknown. */
  readonly cacheVersion?: CacheVersion;
  /** The part of the result that the caller gets; undefined: all of it. */
  readonly select?: SelectExpression;
}

/** The same call with an idempotency key. */
export function withIdempotencyKey(call: Call, idempotencyKey: string): Call {
  const request = { ...call.request, reuse: { ...call.request.reuse, idempotencyKey, keyForEffects: false } };
  call.active.request = request;
  return { ...call, request, identity: new CallIdentity(call.input, request, call.identity.isShareable) };
}

/** The call of a tool that acts with the credential of its user. */
export function withGrant(call: Call, grant: string): Call {
  const input = { ...call.input, context: { ...call.input.context, grant } };
  return { ...call, input, identity: new CallIdentity(input, call.request, call.identity.isShareable) };
}

/** Builds the first attempt of a call from its valid arguments. */
export function buildCall(
  resolved: ResolvedCall,
  args: JsonObject,
  select: SelectExpression | undefined,
  settings: EngineSettings,
): Call {
  const { active, signal, deadline, tool, plan } = resolved;
  const isUnkeyed = active.request.reuse.keyForEffects === true && !plan.hasEffects;
  const request = isUnkeyed
    ? { ...active.request, reuse: { ...active.request.reuse, idempotencyKey: undefined } }
    : active.request;
  const input = toToolInput(tool, request, args);
  // Written out: every attempt copies it, and engines copy an object literal faster than one made by a spread.
  return {
    callId: request.callId,
    request,
    active,
    tool,
    plan,
    signal,
    deadline,
    arguments: args,
    input,
    identity: new CallIdentity(input, request, !plan.callsTools && tool.binding.kind !== 'result'),
    attempt: 1,
    fence: 0,
    journalled: false,
    timeoutMs: attemptTimeoutMs(tool, plan, request, args, settings),
    select,
    maxMicroUsd: plan.reserveMicroUsd > 0 ? plan.reserveMicroUsd : Number.POSITIVE_INFINITY,
  };
}
