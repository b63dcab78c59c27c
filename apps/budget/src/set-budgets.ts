import { quotaExceeded } from '@toolfleet/contracts/account';
import type { EpochMs } from '@toolfleet/contracts';
import type { BudgetPeriod, BudgetSubject } from '@toolfleet/contracts/budget';
import { periodName, type ScopeLimit } from '@toolfleet/resilience';
import { sql } from 'kysely';
import type { LedgerDb } from './ledger-tables.js';
import type { SetScope } from './limits.js';

/** A limit on the spending of a tenant, user or key in a period, set over the API. */
export interface SetBudget extends ScopeLimit {
  tenantId: string;
  subject: BudgetSubject;
  /** Id of the user or key; empty for the tenant. */
  id: string;
  period: BudgetPeriod;
  changedAt: EpochMs;
  changedBy: string;
}

/** Names a budget; two with the same name replace each other. */
export type BudgetName = Pick<SetBudget, 'tenantId' | 'subject' | 'id' | 'period'>;

/** Name of the counters of a budget in its current period: `user/2026-11:ada`, `tenant/total`. `lua/sweep.lua` reads the period. */
export function scopeName({ subject, id, period }: BudgetName, at: EpochMs): string {
  return `${subject}/${periodName(period, at)}${id === '' ? '' : `:${id}`}`;
}

/** The current counters of a budget with its limit. */
export function budgetScope(budget: SetBudget, at: EpochMs): SetScope {
  const { microUsd, tokens } = budget;
  return { kind: 'budget', name: scopeName(budget, at), limit: { microUsd, tokens } };
}

const subjectOf = (subject: BudgetSubject, id: string): string => `${subject} ${id}`;
const ofTenant = subjectOf('tenant', '');

/** The budgets of one tenant. */
class TenantBudgets {
  /** By what shared leases must be apart, so that each spends from the budgets of one user and key. */
  readonly separateBy: readonly ('user' | 'key')[];
  readonly #bySubject: ReadonlyMap<string, readonly SetBudget[]>;

  constructor(readonly all: readonly SetBudget[]) {
    this.#bySubject = Map.groupBy(all, ({ subject, id }) => subjectOf(subject, id));
    this.separateBy = (['user', 'key'] as const).filter((kind) => all.some(({ subject }) => subject === kind));
  }

  /** The budgets that a call of this user with this key spends from. */
  of({ userId, keyId }: { userId?: string | undefined; keyId?: string | undefined }): readonly SetBudget[] {
    if (this.all.length === 0) return this.all;
    const subjects = [ofTenant, userId && subjectOf('user', userId), keyId && subjectOf('key', keyId)];
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
    const byTenant = Map.groupBy(all, ({ tenantId }) => tenantId);
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
  async all(): Promise<SetBudget[]> {
    const rows = await this.db
      .selectFrom('set_budget')
      .selectAll()
      .orderBy('tenant_id')
      .orderBy('subject')
      .orderBy('subject_id')
      .orderBy('period')
      .execute();
    return rows.map((row) => ({
      tenantId: row.tenant_id,
      subject: row.subject,
      id: row.subject_id,
      period: row.period,
      microUsd: row.micro_usd ?? null,
      tokens: row.tokens ?? null,
      changedAt: row.changed_at,
      changedBy: row.changed_by,
    }));
  }

  /** Sets a budget in place of the one with its name. @throws ToolError QUOTA_EXCEEDED */
  async put(budget: SetBudget): Promise<void> {
    const own = this.db.selectFrom('set_budget').where('tenant_id', '=', budget.tenantId);
    const { count } = await own.select((row) => row.fn.countAll().as('count')).executeTakeFirstOrThrow();
    if (Number(count) >= this.most && !(await this.#has(budget))) throw quotaExceeded('budgets', this.most);
    const changed = {
      micro_usd: budget.microUsd,
      tokens: budget.tokens,
      changed_at: budget.changedAt,
      changed_by: budget.changedBy,
    };
    await this.db
      .insertInto('set_budget')
      .values({ ...columnsOf(budget), ...changed })
      .onConflict((conflict) => conflict.columns(['tenant_id', 'subject', 'subject_id', 'period']).doUpdateSet(changed))
      .execute();
  }

  async #has(name: BudgetName): Promise<boolean> {
    let rows = this.db.selectFrom('set_budget').select('tenant_id');
    for (const [column, value] of Object.entries(columnsOf(name)))
      rows = rows.where(sql.ref(column), '=', sql.val(value));
    return (await rows.executeTakeFirst()) !== undefined;
  }

  /** @returns false if there was none */
  async remove(name: BudgetName): Promise<boolean> {
    let rows = this.db.deleteFrom('set_budget');
    for (const [column, value] of Object.entries(columnsOf(name)))
      rows = rows.where(sql.ref(column), '=', sql.val(value));
    return (await rows.executeTakeFirstOrThrow()).numDeletedRows > 0n;
  }
}

const columnsOf = ({ tenantId, subject, id, period }: BudgetName) => ({
  tenant_id: tenantId,
  subject,
  subject_id: id,
  period,
});
