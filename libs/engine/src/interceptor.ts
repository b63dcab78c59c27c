import type { ContentBlock, EntryPoint, Json, JsonObject, Milliseconds } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';

/**
 * Where interceptors run. `call`: once per call, after the policy and around everything that may answer it. `result`: around the execution,
 * inside everything that keeps or shares results, and around replays. `attempt`: around each attempt.
 */
export type InterceptorPlace = 'call' | 'result' | 'attempt';

/** The part of a call that an interceptor sees, whatever its tenant. A copy: writing to it changes nothing. */
export interface InterceptedCall {
  at: InterceptorPlace;
  /** `dry` and `admit`: nothing runs. The interceptor may refuse the call and change its arguments; its answers are not used. */
  mode: 'run' | 'dry' | 'admit';
  call_id: string;
  tenant_id: string;
  user_id: string;
  entry_point: EntryPoint;
  /** Original name of the tool. */
  tool: string;
  category: string;
  source: { kind: string; name: string };
  toolset?: string;
  /** Coerced and valid, with defaults. */
  arguments: JsonObject;
  /** Counts from 1. */
  attempt: number;
}

/** The parts of a result that an interceptor sees, and changes except for `success`. Usage, charge and codes are not among them. */
export interface InterceptedAnswer {
  success: boolean;
  output: Json;
  text: string;
  content?: ContentBlock[];
  metadata: JsonObject;
  /** Message and details of a failure. */
  error?: { message: string; details?: JsonObject };
}

/** `deny` refuses the call or withholds its result, for this reason. Otherwise the parts of the answer that change; others stay. */
export type InterceptorVerdict = { deny: string } | Partial<InterceptedAnswer>;

/**
 * Goes on with the call, once. Arguments replace all that it has, at `call` only.
 * @returns the answer. Rejects with the ToolError of a refusal; it ends the call whatever the interceptor returns
 */
export type GoOn = (change?: { arguments?: JsonObject }) => Promise<InterceptedAnswer>;

/**
 * A step of the operator. It has `timeoutMs` until it goes on or answers, and again after what it went on to has ended. If it fails or is
 * late, `failsOpen` lets the call or result pass unchanged; otherwise the call is refused or its result withheld.
 */
export interface Interceptor {
  readonly name: string;
  readonly at: readonly InterceptorPlace[];
  readonly timeoutMs: Milliseconds;
  readonly failsOpen: boolean;
  /** Also asked about what other interceptors made of an answer. Must leave answers that it has seen before unchanged. */
  readonly inspectsChanges?: boolean;
  /** Whether it intercepts calls of this tool, made through this toolset. */
  watches(tool: RegisteredTool, toolset: string | undefined): boolean;
  /** @param signal aborted when the interceptor is late or its call has ended */
  intercept(call: InterceptedCall, next: GoOn, signal: AbortSignal): InterceptorVerdict | Promise<InterceptorVerdict>;
}

/** An intervention, as records and metadata show it. */
export interface Interception {
  readonly interceptor: string;
  readonly did: 'refused' | 'changed_arguments' | 'answered' | 'changed_answer' | 'failed_open' | 'failed_closed';
}
