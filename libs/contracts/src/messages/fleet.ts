import type { Milliseconds } from '../units.js';

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

/** `fleet.status`: the state of one process for operators. Every gateway and executor publishes it every few seconds. */
export interface FleetStatus {
  /** Name of the service, e.g. `mcp-executor`. */
  service: string;
  /** Random id of the process. */
  instance: string;
  /** Milliseconds after which a process that has published nothing else counts as gone. */
  ttl_ms: number;
  slots?: SlotStatus;
  breakers: BreakerStatus[];
}

/** Most breakers in one message; those that stay open longest come first. */
export const MAX_REPORTED_BREAKERS = 100;
