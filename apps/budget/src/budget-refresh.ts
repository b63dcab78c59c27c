import { Rounds, type Clock } from '@toolfleet/resilience';
import type { LifecycleComponent } from '@toolfleet/service';
import type { Logger } from '@toolfleet/telemetry';
import type { BudgetService } from './budget.js';

/** As often as the configuration file is read. */
const EVERY_MS = 3_000;

/**
 * Reads the budgets that were set over the API, at the start and again and again, because other replicas set them as well. The start
 * rejects when they cannot be read: without them, calls would run that a budget refuses. Later, those that were read last apply.
 */
export function budgetRefresh(
  budget: Pick<BudgetService, 'readBudgets'>,
  { clock, logger }: { clock: Clock; logger: Pick<Logger, 'info' | 'warn'> },
): LifecycleComponent {
  const rounds = new Rounds({
    clock,
    everyMs: EVERY_MS,
    work: () => budget.readBudgets(),
    onFailure: (error) => logger.warn({ error }, 'budgets cannot be read; those that were read last apply'),
    onRecovery: () => logger.info('budgets can be read again'),
  });
  const start = async () => {
    await budget.readBudgets();
    rounds.start();
  };
  return { name: 'budgets', start, stop: () => rounds.stop() };
}
