import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { Budget } from './budget.js';

/** As often as the configuration file is read. */
const EVERY_MS = 3_000;

/** Reads the budgets that were set over the API, at the start and again and again, because other replicas set them as well. */
export class BudgetRefresh {
  readonly name = 'budgets';
  #cancelTimer: CancelTimer | undefined;
  #running: Promise<void> = Promise.resolve();
  #isFailing = false;

  constructor(
    private readonly budget: Pick<Budget, 'readBudgets'>,
    private readonly host: { clock: Clock; logger: Pick<Logger, 'info' | 'warn'> },
  ) {}

  /** Rejects when they cannot be read: without them, calls would run that a budget refuses. */
  async start(): Promise<void> {
    await this.budget.readBudgets();
    this.#schedule();
  }

  async stop(): Promise<void> {
    this.#cancelTimer?.();
    await this.#running;
  }

  #schedule(): void {
    this.#cancelTimer = this.host.clock.after(EVERY_MS, () => {
      this.#schedule();
      this.#running = this.#running.then(() => this.#read());
    });
  }

  /** While the ledger is unavailable, the budgets that were read last apply. */
  async #read(): Promise<void> {
    const { logger } = this.host;
    try {
      await this.budget.readBudgets();
      if (this.#isFailing) logger.info('budgets can be read again');
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) logger.warn({ error }, 'budgets cannot be read; those that were read last apply');
      this.#isFailing = true;
    }
  }
}
