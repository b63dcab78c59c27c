import { SUBJECTS } from '@toolfleet/contracts/subjects';
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
 * gateway; the record of approvals gives each call to one of them at a time.
 */
export class ApprovalWakes {
  readonly name = 'wakes of approved calls';
  readonly #sweeps: Rounds;

  constructor(private readonly deps: ApprovalWakesDeps) {
    this.#sweeps = new Rounds({ clock: deps.clock, everyMs: SWEEP_MS, work: () => this.sweep() });
  }

  async start(): Promise<void> {
    this.#sweeps.start();
  }

  async stop(): Promise<void> {
    void this.#sweeps.stop();
  }

  /** Wakes due calls. A call that cannot be woken is due again some seconds later. */
  async sweep(): Promise<void> {
    if (!this.deps.isServed()) return;
    const { approvals } = await this.deps.records.ask(SUBJECTS.approvalDue, { limit: MAX_WOKEN });
    await Promise.allSettled(approvals.map((approval) => this.deps.calls.wake(approval)));
  }
}
