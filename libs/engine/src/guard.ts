import type { ContentBlock, EntryPoint, Json, JsonObject, Milliseconds } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';

/** What a guard sees of a call, whatever its tenant. A copy: what a guard writes into it changes nothing. */
export interface GuardedCall {
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

/** What a guard sees of a result, and what it may change of it: everything but `success`. */
export interface GuardedResult {
  success: boolean;
  output: Json;
  text: string;
  content?: ContentBlock[];
  metadata: JsonObject;
  /** Message and details of a failure. */
  error?: { message: string; details?: JsonObject };
}

/** `deny` refuses the call or withholds the result, for this reason. Undefined lets it pass. */
type Verdict = { deny: string } | undefined;
/** `change` replaces these parts of the result. */
export type ResultVerdict = Verdict | { change: Partial<Omit<GuardedResult, 'success'>> };

/**
 * A step of the operator's own. Its functions run at named places, each within `timeoutMs`; what they throw, and their time-out, refuse
 * the call unless `failsOpen`.
 */
export interface Guard {
  readonly name: string;
  readonly timeoutMs: Milliseconds;
  readonly failsOpen: boolean;
  /** Whether it guards calls of this tool, made through this toolset. */
  watches(tool: RegisteredTool, toolset: string | undefined): boolean;
  /** After the policy: once per call, also for dry runs and before a call is queued. */
  onCall?(call: GuardedCall, signal: AbortSignal): Verdict | Promise<Verdict>;
  /** Before each attempt. */
  onAttempt?(call: GuardedCall, signal: AbortSignal): Verdict | Promise<Verdict>;
  /** After the tool: before the result is cached, kept or returned, and before a replay is returned. */
  onResult?(call: GuardedCall, result: GuardedResult, signal: AbortSignal): ResultVerdict | Promise<ResultVerdict>;
}
