import type { Binding } from '@toolfleet/contracts/tool-definition';
import type { CallStatus } from '../engine/call-status.js';

/** Where the time of a call went, in ms. */
export interface CallStages {
  /** Finding the tool, permission, arguments, policy. */
  admit_ms: number;
  /** Waiting for a rate limit and between attempts. */
  wait_ms: number;
  /** In a queue, before a worker took it. */
  queue_ms: number;
  /** The executor's own work. */
  execute_ms: number;
  /** Cache, limits, budget, the way to the executor and back. */
  rest_ms: number;
}

/** One finished call as operators' views show it: who, what, how it ended, where the time went. No arguments, no results. */
export interface RecentCall {
  call_id: string;
  /** Instant of its end, epoch ms. */
  ended_at: number;
  tenant_id: string;
  user_id: string;
  /** Id of the API key that made it; absent for calls made without one. */
  key_id?: string;
  tool: string;
  /** Kind of binding; absent when no such tool was found. */
  kind?: Binding['kind'];
  door: string;
  origin: string;
  status: CallStatus;
  code?: string;
  /** Message of the failure, without what the caller had sent. */
  error?: string;
  provenance?: string;
  dry_run?: true;
  attempts: number;
  duration_ms: number;
  stages: CallStages;
  cost_usd: number;
  trace_id?: string;
}

/** A stored call with its place in the order of calls. */
export interface StoredRecentCall extends RecentCall {
  /** Grows with time; a reader asks for what came after the last one it has. */
  cursor: string;
}

/** Whose calls are asked for: one tenant's, or the whole fleet's. */
export type CallScope = { tenantId: string } | 'fleet';

/** The last calls of all gateways. Losing some is allowed, slowing a call down is not. */
export abstract class RecentCalls {
  /** Stores calls, oldest first. */
  abstract add(calls: readonly RecentCall[]): Promise<void>;
  /**
   * Calls after `cursor` (oldest first, at most `limit`); without one the last `limit`, oldest first, and of those before
   * `before` where that is given.
   */
  abstract read(scope: CallScope, limit: number, cursor?: string, before?: string): Promise<StoredRecentCall[]>;
}
