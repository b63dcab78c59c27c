import { Rounds, type Clock } from '@toolfleet/resilience';
import type { ApprovalRecords, ParkedCalls } from './parked-calls.js';

/** How often a gateway looks for decided calls that nothing has woken, and lets others expire. */
const SWEEP_MS = 2_000;
/** Calls that one look wakes. */
const MAX_WOKEN = 100;

interface ApprovalWakesDeps {
  records: ApprovalRecords;
  calls: Pick<ParkedCalls, 'wake'>;
  clock: Clock;
  /** Whether the service of the record is in the fleet; it is not asked otherwise. */
  isServed: () => boolean;
}

/**
 * Wakes parked calls with lost jobs: the gateway that stored a decision died, or Redis lost the job. A lifecycle component of every
 * gateway; the record of approvals gives each call to one of them at a time. A call that cannot be woken is due again some seconds later.
 */
export function approvalWakes({ records, calls, clock, isServed }: ApprovalWakesDeps): Rounds {
  return new Rounds({
    name: 'wakes of approved calls',
    clock,
    everyMs: SWEEP_MS,
    work: async () => {
      if (!isServed()) return;
      const { approvals } = await records.ask('records.approval.due', { limit: MAX_WOKEN });
      await Promise.allSettled(approvals.map((approval) => calls.wake(approval)));
    },
  });
}
