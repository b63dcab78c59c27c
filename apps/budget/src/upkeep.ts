import type { Milliseconds } from '@toolfleet/contracts';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { Logger, Metrics } from '@toolfleet/telemetry';
import type { BudgetService } from './budget.js';
import { drainOutbox } from './drain-outbox.js';
import type { UsageOutbox } from './redis-usage-outbox.js';
import type { UsageLedger } from './usage-ledger.js';

interface UpkeepTimes {
  /** Pause between two rounds over tenants with recent traffic. */
  roundMs: Milliseconds;
  /** Time between two rounds over all tenants, to finish the work of replicas that ended. */
  fullRoundMs: Milliseconds;
}

/** Consecutive failures after which a round ends. */
const MAX_FAILURES = 3;
/** Tenants of a round that are served at the same time: their rows share commits. */
const LANES = 24;
/** Those whose sums are asked of the ledger first; one connection of PostgreSQL is left for other questions. */
const LANES_OF_NEW = 3;
/** Longest pause after a failed round. */
const MAX_PAUSE_MS = 10_000;

/**
 * Background work of the budget: charges expired leases, moves charged usage to the ledger, and raises counters that are below the
 * ledger (Redis was restored from an older copy, or a lagging replica took over). Each round covers the tenants that this process
 * served recently, and every `fullRoundMs` all tenants. All steps are idempotent, so several replicas may run them at once.
 */
export class Upkeep {
  readonly name = 'upkeep';
  private readonly active = new Set<string>();
  /** Tenants with counters that were compared with the ledger since the last connect to Redis. */
  private readonly compared = new Set<string>();
  /** Tenants with reached limits that were reported since the start. */
  private readonly reported = new Set<string>();
  private readonly held = new Map<string, { microUsd: number; outboxRows: number }>();
  private cancelTimer: CancelTimer | undefined;
  private running: Promise<void> = Promise.resolve();
  private fullRoundDue = 0;
  private failures = 0;
  private stopped = false;

  constructor(
    private readonly budget: BudgetService,
    private readonly outbox: UsageOutbox,
    private readonly ledger: UsageLedger,
    private readonly times: UpkeepTimes,
    private readonly host: { clock: Clock; logger: Logger; metrics: Metrics },
  ) {
    // Prometheus sees no increase in a series that starts above 0.
    host.metrics.budgetLeaseExpired.inc(0);
  }

  /** Includes a tenant with traffic in the next round. */
  notice(tenantId: string): void {
    this.active.add(tenantId);
  }

  /** Compares a tenant again: its budgets count earlier spending. */
  compareAgain(tenantId: string): void {
    this.compared.delete(tenantId);
    this.active.add(tenantId);
  }

  /** Compares all tenants again: after a reconnect Redis may have lost data. */
  reconnected(): void {
    this.compared.clear();
    this.fullRoundDue = 0;
  }

  async start(): Promise<void> {
    this.schedule(0);
  }

  /** Finishes the current round and runs a last one, so that a planned stop leaves no row in the outbox. */
  async drain(): Promise<void> {
    this.stopped = true;
    this.cancelTimer?.();
    await this.running;
    await this.round();
  }

  private schedule(delayMs: Milliseconds): void {
    if (this.stopped) return;
    this.cancelTimer = this.host.clock.after(delayMs, () => {
      this.running = this.round().then(() => {
        this.schedule(Math.min(this.times.roundMs * 2 ** Math.min(this.failures, 10), MAX_PAUSE_MS));
      });
    });
  }

  /** One round over the tenants. Never rejects; a tenant that failed is retried in the next round. */
  async round(): Promise<void> {
    const tenants = new Set(this.active);
    let failedInARow = 0;
    let problem: unknown;
    try {
      if (this.host.clock.monotonic() >= this.fullRoundDue) {
        for (const tenantId of await this.outbox.tenants()) tenants.add(tenantId);
        this.fullRoundDue = this.host.clock.monotonic() + this.times.fullRoundMs;
      }
    } catch (error) {
      problem = error;
    }
    const lane = async (waiting: Iterable<string>): Promise<void> => {
      for (const tenantId of waiting) {
        try {
          await this.runTenant(tenantId);
          failedInARow = 0;
        } catch (error) {
          problem = error;
          failedInARow += 1;
        }
        // One failing tenant must not stop the others, but an unavailable store fails for all of them.
        if (failedInARow >= MAX_FAILURES) return;
      }
    };
    const isNew = (tenantId: string): boolean => !this.compared.has(tenantId) || !this.reported.has(tenantId);
    const { known = [], fresh = [] } = Object.groupBy(tenants, (tenantId) => (isNew(tenantId) ? 'fresh' : 'known'));
    const serve = (tenantIds: Iterable<string>, lanes: number) => Array.from({ length: lanes }, () => lane(tenantIds));
    await Promise.all([...serve(known.values(), LANES), ...serve(fresh.values(), LANES_OF_NEW)]);
    this.logOutcome(problem);
    this.updateGauges();
  }

  private logOutcome(problem: unknown): void {
    if (problem === undefined) {
      if (this.failures > 0) this.host.logger.info('usage is written to the ledger again');
      this.failures = 0;
      return;
    }
    this.failures += 1;
    if (this.failures > 1) return;
    this.host.logger.warn({ error: problem }, 'usage cannot be written to the ledger; it stays in the outbox');
  }

  private async runTenant(tenantId: string): Promise<void> {
    this.active.delete(tenantId);
    try {
      await this.compareWithLedger(tenantId);
      let outcome = await this.budget.sweep(tenantId);
      let expired = outcome.expired;
      while (outcome.more) {
        outcome = await this.budget.sweep(tenantId);
        expired += outcome.expired;
      }
      if (expired > 0) {
        this.host.metrics.budgetLeaseExpired.inc(expired);
        this.host.logger.warn(
          { tenant_id: tenantId, leases: expired },
          'leases expired unsettled and were charged in full',
        );
      }
      // Before the ledger is asked: while it is down, the outbox grows and the gauge has to show it.
      this.note(tenantId, outcome.heldMicroUsd, outcome.outboxRows);
      const moved = await drainOutbox(tenantId, this.outbox, this.ledger, this.host.logger);
      if (!this.reported.has(tenantId)) await this.budget.reportReached(tenantId);
      this.reported.add(tenantId);
      if (outcome.openLeases > 0) this.active.add(tenantId);
      this.note(tenantId, outcome.heldMicroUsd, Math.max(0, outcome.outboxRows - moved));
    } catch (error) {
      this.active.add(tenantId);
      throw error;
    }
  }

  private async compareWithLedger(tenantId: string): Promise<void> {
    if (this.compared.has(tenantId)) return;
    const raised = await this.budget.catchUp(tenantId);
    this.compared.add(tenantId);
    if (raised === 0) return;
    this.host.logger.warn(
      { tenant_id: tenantId, scopes: raised },
      'counters in Redis were below the ledger and have been raised',
    );
  }

  private note(tenantId: string, microUsd: number, outboxRows: number): void {
    if (microUsd > 0 || outboxRows > 0) this.held.set(tenantId, { microUsd, outboxRows });
    else this.held.delete(tenantId);
  }

  private updateGauges(): void {
    let rows = 0;
    let microUsd = 0;
    for (const one of this.held.values()) {
      rows += one.outboxRows;
      microUsd += one.microUsd;
    }
    this.host.metrics.ledgerOutbox.set(rows);
    this.host.metrics.budgetReserved.set({ scope: 'tenant' }, microUsd);
  }
}
