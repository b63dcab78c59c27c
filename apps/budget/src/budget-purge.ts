import { PURGE_TURN_MS, type PurgeMessage, type PurgeReply } from '@toolfleet/contracts/purge';
import type { Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import type { BudgetService } from './budget.js';
import { drainOutbox } from './drain-outbox.js';
import type { UsageOutbox } from './redis-usage-outbox.js';
import type { UsageLedger } from './usage-ledger.js';

/**
 * Removes a tenant or a user from the budget: rows of the ledger get a pseudonym, because their amounts are bills; budgets that were set
 * over the API, and the counters of a tenant in Redis, are deleted. Rows that still wait in the outbox move to the ledger first.
 */
export class BudgetPurge {
  constructor(
    private readonly stores: {
      ledger: UsageLedger;
      outbox: UsageOutbox;
      budget: Pick<BudgetService, 'budgetsOf' | 'dropBudget'>;
    },
    private readonly host: { clock: Clock; logger: Logger },
  ) {}

  /** One turn; see PurgeMessage. Rejects when a store is unavailable. */
  async run({ tenant_id, user_id, key_ids = [], dry_run, pseudonym }: PurgeMessage): Promise<PurgeReply> {
    const { ledger, outbox, budget } = this.stores;
    const { clock, logger } = this.host;
    const until = clock.monotonic() + PURGE_TURN_MS;
    const scope = { tenantId: tenant_id, userId: user_id };
    const budgets = budget
      .budgetsOf(tenant_id)
      .filter(
        ({ subject, subject_id: id }) =>
          user_id === undefined || (subject === 'key' ? key_ids.includes(id) : id === user_id),
      );
    const set_budgets = budgets.length;
    await drainOutbox(tenant_id, outbox, ledger, logger);
    if (dry_run) {
      const budget_keys = user_id === undefined ? await outbox.eraseTenant(tenant_id, true) : 0;
      return { counts: { ledger_rows: await ledger.rowsOf(scope), budget_keys, set_budgets }, more: false };
    }
    const { rows, more } = await ledger.pseudonymise(scope, pseudonym, () => clock.monotonic() > until);
    if (more) return { counts: { ledger_rows: rows }, more };
    for (const one of budgets) await budget.dropBudget(one);
    const budget_keys = user_id === undefined ? await outbox.eraseTenant(tenant_id, false) : 0;
    return { counts: { ledger_rows: rows, budget_keys, set_budgets }, more };
  }
}
