import type { BreakerStatus, ServiceFault, SlotStatus } from '../resources/operations.js';
import type { Milliseconds } from '../units.js';

export type { BreakerStatus, ServiceFault, SlotStatus } from '../resources/operations.js';
export type {
  CallOutcome as CallStatus,
  CallOutcomes,
  CallStages,
  RetriedAttempt,
} from '../resources/finished-calls.js';

/**
 * `breaker.changed.<service>`: a breaker opened. Replicas of the service may open theirs for at most this time, and never for
 * longer than their own recovery time.
 */
export interface BreakerChanged {
  /** The protected target: a tool at gateways, a base URL or server at executors. */
  key: string;
  /** The only refused tenant; absent: all tenants. */
  tenant_id?: string;
  open_for_ms: Milliseconds;
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
  /** At most `MAX_REPORTED_FAULTS`. */
  faults: ServiceFault[];
}

/** Maximum number of breakers in one message; the longest open ones come first. */
export const MAX_REPORTED_BREAKERS = 100;
/** Maximum number of faults in one message. */
export const MAX_REPORTED_FAULTS = 50;
