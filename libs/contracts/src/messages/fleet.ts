import type { Milliseconds } from '../units.js';
import type { Binding } from '../tool-definition.js';

/**
 * `breaker.changed.<service>`: a breaker opened. Replicas of the service may open theirs for at most this time, and never for
 * longer than their own recovery time.
 */
export interface BreakerChanged {
  /** The protected target: a tool at gateways, a base URL or server at executors. */
  key: string;
  /** The only tenant whose calls are refused; absent: all tenants. */
  tenant_id?: string;
  open_for_ms: Milliseconds;
}

/** A breaker that is not closed. */
export interface BreakerStatus {
  /** The protected target: a tool at gateways, a base URL or server at executors. */
  key: string;
  /** The only tenant whose calls are refused; absent: all tenants. */
  tenant_id?: string;
  state: 'half_open' | 'open';
  /** Milliseconds until the next probe, 0 when half open. A duration, because clocks of different hosts are not comparable. */
  open_for_ms: number;
}

/** Milliseconds that a finished call spent in each stage, as the views of operators show them. */
export interface CallStages {
  /** Finding the tool, permission, arguments, policy. */
  admit_ms: number;
  /** Waiting for a rate limit and between attempts. */
  wait_ms: number;
  /** In a queue, before a worker took it. */
  queue_ms: number;
  /** In the executor. */
  execute_ms: number;
  /** Cache, limits, budget, transport to the executor and back. */
  rest_ms: number;
}

/** How many calls or jobs a process can run at once, and how many it runs. */
export interface SlotStatus {
  busy: number;
  total: number;
}

/** Something wrong with the configuration or a policy of a running service, which works on with what it had. */
export interface ServiceFault {
  /** What it concerns: `policy`, `configuration file`, `source mcp/crm`. */
  subject: string;
  message: string;
  /** When it was noticed, ISO 8601. */
  since: string;
}

/** `fleet.status`: the state of one process for operators. Every service with NATS publishes it every few seconds. */
export interface FleetStatus {
  /** Name of the service, e.g. `mcp-executor`. */
  service: string;
  /** Random id of the process. */
  instance: string;
  /** Milliseconds after which a process that has published nothing else counts as gone. */
  ttl_ms: number;
  slots?: SlotStatus;
  breakers: BreakerStatus[];
  /** At most `MAX_REPORTED_FAULTS`; absent in messages of releases before 0.2. */
  faults?: ServiceFault[];
}

/** Most breakers in one message; those that stay open longest come first. */
export const MAX_REPORTED_BREAKERS = 100;
/** Most faults in one message. */
export const MAX_REPORTED_FAULTS = 50;

/**
 * How a call ended: `refused` before its tool ran, `cancelled` by its caller, `tool_error` because of the tool or its upstream,
 * `system_error` because of the fleet. Only `system_error` uses up the error budget.
 */
export type CallStatus = 'success' | 'tool_error' | 'refused' | 'cancelled' | 'system_error';

/** An attempt that failed and was made again. */
export interface RetriedAttempt {
  /** Counted from 1. */
  attempt: number;
  /** Message of its failure, without values that the caller sent. */
  error: string;
  /** Wait before the next attempt. */
  delay_ms: number;
}

/** A finished call as operators' views show it, without arguments and results. */
export interface RecentCall {
  call_id: string;
  /** The call of the tool that made this one. */
  parent_call_id?: string;
  /** Instant of its end, epoch ms. */
  ended_at: number;
  tenant_id: string;
  user_id: string;
  /** Id of the API key that made it; absent for calls without one. */
  key_id?: string;
  tool: string;
  /** Kind of binding; absent if the tool was not found. */
  kind?: Binding['kind'];
  door: string;
  origin: string;
  status: CallStatus;
  code?: string;
  /** Message of the failure, without values that the caller sent. */
  error?: string;
  provenance?: string;
  attempts: number;
  /** The attempts before the last one; absent when there were none. */
  retried?: RetriedAttempt[];
  duration_ms: number;
  stages: CallStages;
  cost_usd: number;
  trace_id?: string;
}
