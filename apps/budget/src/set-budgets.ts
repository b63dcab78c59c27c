import { quotaExceeded } from '@toolfleet/contracts/account';
import type { EpochMs } from '@toolfleet/contracts';
import type { BudgetSubject } from '@toolfleet/contracts/budget';
import { periodName, type ScopeLimit } from '@toolfleet/resilience';
import { sql, type Insertable, type Selectable } from 'kysely';
import type { LedgerDb, LedgerTables } from './ledger-tables.js';
import type { SetScope } from './limits.js';

/** A limit on the spending of a tenant, user or key in a period, set over the API. */
export type SetBudget = Selectable<LedgerTables['set_budget']>;

/** Names a budget; two with the same name replace each other. */
export type BudgetName = Pick<SetBudget, 'tenant_id' | 'subject' | 'subject_id' | 'period'>;

/** Name of the counters of a budget in its current period: `user/2026-11:ada`, `tenant/total`. `lua/sweep.lua` reads the period. */
export function scopeName({ subject, subject_id: id, period }: Omit<BudgetName, 'tenant_id'>, at: EpochMs): string {
  return `${subject}/${periodName(period, at)}${id === '' ? '' : `:${id}`}`;
}

/** The limit of a budget. */
export const limitOfSet = ({ micro_usd, tokens }: SetBudget): ScopeLimit => ({
  microUsd: micro_usd ?? null,
  tokens: tokens ?? null,
});

/** The current counters of a budget with its limit. */
export const budgetScope = (budget: SetBudget, at: EpochMs): SetScope => ({
  kind: 'budget',
  name: scopeName(budget, at),
  limit: limitOfSet(budget),
});

const subjectOf = (subject: BudgetSubject, id: string): string => `${subject} ${id}`;
const ofTenant = subjectOf('tenant', '');

/** The budgets of one tenant. */
class TenantBudgets {
  /** By what shared leases must be apart, so that each spends from the budgets of one user and key. */
  readonly separateBy: readonly ('user' | 'key')[];
  readonly #bySubject: ReadonlyMap<string, readonly SetBudget[]>;

  constructor(readonly all: readonly SetBudget[]) {
    this.#bySubject = Map.groupBy(all, ({ subject, subject_id }) => subjectOf(subject, subject_id));
    this.separateBy = (['user', 'key'] as const).filter((kind) => all.some(({ subject }) => subject === kind));
  }

  /** The budgets that a call of this user with this key spends from. */
  of({ user_id, key_id }: { user_id?: string | undefined; key_id?: string | undefined }): readonly SetBudget[] {
    if (this.all.length === 0) return this.all;
    const subjects = [ofTenant, user_id && subjectOf('user', user_id), key_id && subjectOf('key', key_id)];
    return subjects.flatMap((subject) => (subject ? (this.#bySubject.get(subject) ?? []) : []));
  }
}

const NO_BUDGETS = new TenantBudgets([]);

/** All budgets by tenant, replaced as a whole. */
export class SetBudgets {
  #byTenant: ReadonlyMap<string, TenantBudgets> = new Map();

  of(tenantId: string): TenantBudgets {
    return this.#byTenant.get(tenantId) ?? NO_BUDGETS;
  }

  /** @returns the tenants with budgets that are new or changed */
  replace(all: readonly SetBudget[]): string[] {
    const before = this.#byTenant;
    const byTenant = Map.groupBy(all, ({ tenant_id }) => tenant_id);
    this.#byTenant = new Map([...byTenant].map(([tenantId, budgets]) => [tenantId, new TenantBudgets(budgets)]));
    return [...byTenant]
      .filter(([tenantId, budgets]) => JSON.stringify(budgets) !== JSON.stringify(before.get(tenantId)?.all))
      .map(([tenantId]) => tenantId);
  }
}

/** The budgets in the database of the ledger. Database failures reject. */
export class StoredBudgets {
  constructor(
    private readonly db: LedgerDb,
    private readonly most: number,
  ) {}

  /** Every budget, in the order of their names. */
  all(): Promise<SetBudget[]> {
    const rows = this.db.selectFrom('set_budget').selectAll();
    return NAME.reduce((ordered, column) => ordered.orderBy(column), rows).execute();
  }

  /** Sets a budget in place of the one with its name. @throws ToolError QUOTA_EXCEEDED */
  async put(budget: Insertable<LedgerTables['set_budget']>): Promise<void> {
    const own = this.db.selectFrom('set_budget').where('tenant_id', '=', budget.tenant_id);
    const { count } = await own.select((row) => row.fn.countAll().as('count')).executeTakeFirstOrThrow();
    if (Number(count) >= this.most) {
      const known = await own.select('tenant_id').where(isNamed(budget)).executeTakeFirst();
      if (!known) throw quotaExceeded('budgets', this.most);
    }
    const { micro_usd, tokens, changed_at, changed_by } = budget;
    await this.db
      .insertInto('set_budget')
      .values(budget)
      .onConflict((conflict) => conflict.columns(NAME).doUpdateSet({ micro_usd, tokens, changed_at, changed_by }))
      .execute();
  }

  /** @returns false if there was none */
  async remove(name: BudgetName): Promise<boolean> {
    const removed = await this.db.deleteFrom('set_budget').where(isNamed(name)).executeTakeFirstOrThrow();
    return removed.numDeletedRows > 0n;
  }
}

const NAME = ['tenant_id', 'subject', 'subject_id', 'period'] as const;

const isNamed = (name: BudgetName) =>
  sql<boolean>`${sql.join(
    NAME.map((column) => sql`${sql.ref(column)} = ${name[column]}`),
    sql` and `,
  )}`;
