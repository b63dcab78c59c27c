import type { CallRequest, CallResult, JsonObject, Milliseconds } from '@toolfleet/contracts';
import type { ToolInput } from '@toolfleet/contracts/execution';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { Deadline } from '@toolfleet/resilience';
import type { Coercion } from '@toolfleet/schema';
import type { CallIdentity } from './call-identity.js';
import type { ToolPlan } from './tool-plan.js';

/**
 * A call as observers see it: complete from the first line on, filled as the call gets further. One object per call,
 * shared by all attempts; everything that is written on it is for reports, nothing is decided from it.
 */
export interface CallTrace {
  readonly request: CallRequest;
  /** Monotonic ms at which the engine took the call. */
  readonly startedAt: Milliseconds;
  tool?: RegisteredTool;
  arguments?: JsonObject;
  /** Lossless conversions that were made on the arguments. */
  coercions: readonly Coercion[];
  /** Names of arguments the tool does not know. */
  dropped: readonly string[];
  /** Monotonic ms at which it was found, allowed and valid; absent when it was refused before. */
  admittedAt?: Milliseconds;
  /** Attempts that reached an executor. */
  attempts: number;
  /** Milliseconds spent waiting between attempts and for a rate limit. */
  waitedMs: Milliseconds;
  /** How an answer came that no executor gave to this call. */
  answeredBy?: 'cache' | 'coalesced' | 'replay' | 'history';
}

/** One attempt of one call, as it goes through the chain. A repeat passes a copy on, so nothing leaks into the next one. */
export interface Call {
  readonly callId: string;
  readonly request: CallRequest;
  readonly seen: CallTrace;
  readonly tool: RegisteredTool;
  /** What the engine derived from the definition, once per revision. */
  readonly plan: ToolPlan;
  /** Coerced, valid, with defaults. */
  readonly arguments: JsonObject;
  /** All that the tool can observe, in every attempt. */
  readonly input: ToolInput;
  /** Which other calls may have the answer of this one. */
  readonly identity: CallIdentity;
  /** Aborted by the caller, by the deadline, by an attempt timeout: stop the work. */
  readonly signal: AbortSignal;
  readonly deadline: Deadline;
  /** Numbered from 1. */
  readonly attempt: number;
  /** Fence of the journal; 0 when not journalled. */
  readonly fence: number;
  /** True: the executor claims `(callId, fence)` right before the effect. */
  readonly journalled: boolean;
  /** Longest run of this attempt, without time spent in a queue. */
  readonly timeoutMs: Milliseconds;
}

/** The rest of the chain. May be called again, or not at all. */
export type Next = (call: Call) => Promise<CallResult>;

/** One link of the chain: may answer, alter, reject or repeat. */
export type Interceptor = (call: Call, next: Next) => Promise<CallResult>;

/** Sees every call, refused and cached ones too, and cannot be skipped. */
export type Observer = (seen: CallTrace, next: (seen: CallTrace) => Promise<CallResult>) => Promise<CallResult>;
