import type { Milliseconds } from '@toolfleet/contracts';

/** A session of one user of a tenant. */
export interface SessionKey {
  tenantId: string;
  /** The user the call is made for; '' for a caller without one. */
  userId: string;
  sessionId: string;
}

/** The right to run in a session. */
export interface SessionLease {
  /** Variables as JSON text; null for a new or forgotten session. */
  variables: string | null;
  /** Ends the lease. With `variables` they replace the old ones, unless the lease was lost meanwhile. Never rejects. */
  release(variables?: string): Promise<void>;
}

/**
 * Variables between the runs of a session. Runs of one session are serialised: two at once would lose what one of them
 * assigned. The order of runs that wait for each other is not promised.
 */
export abstract class SessionStore {
  /**
   * Takes a session for the job `holder`, or returns null while another job has it. The same holder may take it again:
   * after its worker died, the repeated job must not wait for itself.
   */
  abstract take(key: SessionKey, holder: string, leaseMs: Milliseconds): Promise<SessionLease | null>;
}
