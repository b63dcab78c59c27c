import type { Json } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { Logger, Metrics } from '@toolfleet/telemetry';

/**
 * Something a service starts, checks and drains: a broker connection, a server, a worker. Parts start in the order given
 * and are drained and stopped in reverse, so list what others need first.
 */
export interface LifecycleComponent {
  /** Shown in logs and in `/health/ready`. */
  readonly name: string;
  /** Environment keys that say where it connects or listens, and as whom; a start that fails for good names them. */
  readonly settings?: readonly string[];
  /**
   * Connects or listens. A dependency that cannot be reached is logged in one line and tried again with backoff: brokers may
   * come later than the service. Every other error ends the process; `FatalStartupError` does so as a configuration mistake.
   */
  start?(): Promise<void>;
  /** Whether work can be taken now; asked by `/health/ready`, cheap, bounded to one second. */
  ready?(): boolean | Promise<boolean>;
  /** Stops taking work and finishes what is in flight. Bounded together with the other parts by `DRAIN_TIMEOUT_MS`. */
  drain?(): Promise<void>;
  /** Closes everything. */
  stop?(): Promise<void>;
}

/** A start that cannot succeed by repeating it: the service says why and exits with code 78. */
export class FatalStartupError extends Error {
  /** Errors of other libraries are refused as well when they carry this mark. */
  readonly startRefused = true;
}

/** What the process gives to the parts of a service. */
export interface ServiceHost {
  readonly service: string;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Aborted when draining begins. */
  readonly draining: AbortSignal;
  /** Makes facts such as `{ port: 8080 }` known to whoever started the process (port file, IPC). */
  announce(facts: Record<string, Json>): void;
  /** Reads a secret again from its `KEY_FILE` whenever the file changes, and hands the new value over. No-op for other sources. */
  onSecretChange(key: string, changed: (value: string) => void): void;
  /** Ends the process in an orderly way after a fault that cannot be repaired. */
  fail(error: unknown): void;
}
