import type { CallProgress, EpochMs } from '@toolfleet/contracts';
import type { ExecContext } from '@toolfleet/contracts/execution';
import type { Clock } from '@toolfleet/resilience';
/** Key of the tenant of a run, for services of the process (workspaces, fair queues). A tool cannot name it. */
export const TENANT: unique symbol = Symbol('tenant');

/** The call that a handler serves. */
export interface ToolRun {
  callId: string;
  /** The name by which the tool was called. */
  tool: string;
  /** The context keys that this tool declares; the tenant only if it declares `tenant_id`. */
  context: Partial<ExecContext>;
  readonly [TENANT]: string;
  /** Aborted at the deadline and when the caller cancels. Pass it to everything that waits. */
  signal: AbortSignal;
  clock: Clock;
  /** When the call must have ended, in epoch ms of `clock`. */
  deadlineAt: EpochMs;
  /** Reports progress to the caller; never fails. */
  progress(progress: CallProgress): void;
}
