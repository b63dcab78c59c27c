import type { Milliseconds } from '../units.js';

/**
 * `breaker.changed.<service>`: a breaker opened; replicas of the same service may open theirs, for at most so long and never for
 * longer than their own rule.
 */
export interface BreakerChanged {
  /** A tool at the gateways; a base URL or server at executors. */
  key: string;
  /** The one tenant whose calls are refused; absent: those of all. */
  tenant_id?: string;
  open_for_ms: Milliseconds;
}

/** A breaker that is not closed, as its process tells it. */
export interface BreakerStatus {
  /** A tool at the gateways; a base URL or server at executors. */
  key: string;
  /** The one tenant whose calls are refused; absent: those of all. */
  tenant_id?: string;
  state: 'half_open' | 'open';
  /** Milliseconds until a probe is let through; wall clocks of hosts are never compared. 0 when half open. */
  open_for_ms: number;
}

/** Work a process can do at once, and does. */
export interface SlotStatus {
  busy: number;
  total: number;
}

/** `fleet.status`, published by every gateway and executor every few seconds: what operators see of its state. */
export interface FleetStatus {
  /** Name of the service, e.g. `mcp-executor`. */
  service: string;
  /** Random, per process. */
  instance: string;
  /** Milliseconds after which a process that told nothing more is gone. */
  ttl_ms: number;
  slots?: SlotStatus;
  breakers: BreakerStatus[];
}

/** Most breakers in one message; the ones that open longest come first. */
export const MAX_REPORTED_BREAKERS = 100;
