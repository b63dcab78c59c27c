import { DEFAULT_QUOTAS } from '@toolfleet/contracts/account';
import { toUsd, type EpochMs } from '@toolfleet/contracts';
import type { BudgetUsage, UsageRow, UsageSum } from '@toolfleet/contracts/budget';
import { BulkInsert, migrate, DAY_MS, epochDay, ofOwner, type Owner } from '@toolfleet/database';
import { periodStart } from '@toolfleet/resilience';
import { Kysely, sql, type Dialect } from 'kysely';
import { LedgerDays } from './ledger-days.js';
import { LEDGER_MIGRATIONS, USAGE, type LedgerDb, type LedgerTables } from './ledger-tables.js';
import type { LedgerSum } from './reservation-store.js';
import { scopeName, StoredBudgets, type SetBudget } from './set-budgets.js';
import { StoredEpoch } from './redis-store-epoch.js';

/** A ledger row: the usage of a call as it was charged. */
export interface LedgerRow extends UsageRow {
  kind: 'settled' | 'expired';
  /** When it was charged, by the clock of the reservation store. */
  charged_at: EpochMs;
}

type LedgerGroup = BudgetUsage['group_by'][number];

/** Filters and grouping of a usage report; without a tenant, of all. */
type UsageQuery = Omit<BudgetUsage, 'tenant_id'> & Partial<Pick<BudgetUsage, 'tenant_id'>>;

const GROUP_COLUMN = {
  day: 'day',
  tool: 'tool_name',
  source: 'source',
  user: 'user_id',
  key: 'key_id',
  agent: 'caller_agent_id',
  tenant: 'tenant_id',
} as const satisfies Record<LedgerGroup, keyof LedgerTables['usage_daily']>;
const GROUP_FIELD = { ...GROUP_COLUMN, agent: 'agent_id' } as const satisfies Record<LedgerGroup, keyof UsageSum>;

/** A tenant, or one of its users. */
type LedgerScope = Omit<Owner, 'keyIds'>;

/** Transactions that append at a time. One connection of PostgreSQL is left for questions. */
const WRITERS = 3;
/** A commit waits for the disk, so that appends meanwhile share the next one; for 200 tenants that takes two thirds of the CPU of this service. */
const APPENDS_PER_WRITE = 16;

const LEDGER_TABLES = ['token_usage', 'usage_daily'] as const;

/**
 * The ledger of record, in the embedded SQLite or PostgreSQL with the same columns and portable SQL. Rows are appended, one per
 * call or slice, and days that are older than the retention become sums. Database failures reject.
 */
export class UsageLedger {
  private readonly db: LedgerDb;
  private readonly days: LedgerDays;
  /** Limits that were set over the API. */
  readonly budgets: StoredBudgets;
  readonly epoch: StoredEpoch;
  private readonly inserts = new BulkInsert(USAGE, true);
  /** Appends that no writer has taken yet. */
  private readonly waiting: { rows: readonly LedgerRow[]; done: PromiseWithResolvers<void> }[] = [];
  private writers = 0;

  /** @param mostBudgets of one tenant */
  constructor(dialect: Dialect, mostBudgets: number = DEFAULT_QUOTAS.budgets) {
    this.db = new Kysely<LedgerTables>({ dialect });
    this.budgets = new StoredBudgets(this.db, mostBudgets);
    this.epoch = new StoredEpoch(this.db);
    this.days = new LedgerDays(this.db);
  }

  /**
   * Runs the migrations that are new to this ledger.
   * @throws FatalStartupError when the ledger needs a newer release
   */
  open(): Promise<void> {
    return migrate(this.db, LEDGER_MIGRATIONS);
  }

  /** Resolves when the database answers. */
  async ping(): Promise<void> {
    await sql`select 1`.execute(this.db);
  }

  /** Appends rows. Rows that are already in the ledger are skipped, so it may be repeated. Durable when it resolves. */
  append(rows: readonly LedgerRow[]): Promise<void> {
    if (rows.length === 0) return Promise.resolve();
    const done = Promise.withResolvers<void>();
    this.waiting.push({ rows, done });
    if (this.writers < WRITERS) void this.writeWaiting();
    return done.promise;
  }

  /** Writes what waits in groups, until nothing does. Rows of a group that fails are tried by themselves: those of one tenant may be at fault. */
  private async writeWaiting(): Promise<void> {
    this.writers += 1;
    while (this.waiting.length > 0) {
      const group = this.waiting.splice(0, APPENDS_PER_WRITE);
      try {
        await this.write(group.flatMap(({ rows }) => rows));
        for (const { done } of group) done.resolve();
      } catch (error) {
        for (const { rows, done } of group) {
          if (group.length === 1) done.reject(error);
          else await this.write(rows).then(done.resolve, done.reject);
        }
      }
    }
    this.writers -= 1;
  }

  private async write(rows: readonly LedgerRow[]): Promise<void> {
    await this.days.prepare(new Set(rows.map((row) => epochDay(row.charged_at))));
    await this.db.transaction().execute((tx) => this.inserts.run(tx, rows.map(toRow)));
  }

  /** Replaces the rows of the days before the day of `at` by sums of each day. Returns the number of rows replaced. */
  rollUpBefore(at: EpochMs): Promise<number> {
    return this.days.rollUpBefore(epochDay(at));
  }

  /** Number of rows and sums that name a tenant, or one of its users. */
  async rowsOf(scope: LedgerScope): Promise<number> {
    let rows = 0;
    for (const table of LEDGER_TABLES) {
      const found = await this.named(table, scope)
        .select(sql<number>`count(*)`.as('rows'))
        .executeTakeFirst();
      rows += found?.rows ?? 0;
    }
    return rows;
  }

  /**
   * Replaces the id of a tenant, or of one of its users, and removes the ids of keys and those that callers chose (task, agent,
   * request). Amounts, tools and days stay. Works day by day until `isOver`; may be repeated.
   * @returns the rows changed, and whether some are left
   */
  async pseudonymise(
    scope: LedgerScope,
    pseudonym: string,
    isOver: () => boolean,
  ): Promise<{ rows: number; more: boolean }> {
    const erased = scope.userId === undefined ? { tenant_id: pseudonym, user_id: pseudonym } : { user_id: pseudonym };
    let rows = 0;
    for (const table of LEDGER_TABLES) {
      const days = await this.named(table, scope).select('day').distinct().execute();
      for (const { day } of days) {
        if (isOver()) return { rows, more: true };
        const startAt = Date.parse(`${day}T00:00:00Z`);
        const ids = table === 'token_usage' ? { task_id: null, request_id: null } : {};
        const update = this.db
          .updateTable(table as 'token_usage')
          .set({ ...erased, ...ids, caller_agent_id: null, key_id: null })
          .where(ofOwner(scope))
          .where('charged_at', '>=', startAt)
          .where('charged_at', '<', startAt + DAY_MS);
        rows += Number((await update.executeTakeFirst()).numUpdatedRows);
      }
    }
    return { rows, more: false };
  }

  private named(table: (typeof LEDGER_TABLES)[number], scope: LedgerScope) {
    return this.db.selectFrom(table as 'usage_daily').where(ofOwner(scope));
  }

  /**
   * Sums per group, ordered by group. Tokens are reported ones, as budgets count them. Days are UTC days of the charge. A day whose rows are gone is in a report from the instant it
   * started, as a whole.
   */
  async sums(query: UsageQuery): Promise<UsageSum[]> {
    const columns = query.group_by.map((group) => GROUP_COLUMN[group]);
    const all = this.usage('token_usage', query).unionAll(this.usage('usage_daily', query));
    let select = this.db
      .selectFrom(all.as('usage'))
      .select(columns)
      .select([
        sql<number>`cast(coalesce(sum(calls), 0) as bigint)`.as('calls'),
        sql<number>`cast(coalesce(sum(real_tokens), 0) as bigint)`.as('tokens'),
        sql<number>`cast(coalesce(sum(micro_usd), 0) as bigint)`.as('micro_usd'),
      ]);
    for (const column of columns) select = select.groupBy(column).orderBy(column);
    const rows = await select.execute();
    return rows.map((row) => {
      const sum: UsageSum = { calls: row.calls, tokens: row.tokens, micro_usd: row.micro_usd };
      for (const group of query.group_by) {
        const value = row[GROUP_COLUMN[group]];
        if (value !== undefined) sum[GROUP_FIELD[group]] = value;
      }
      return sum;
    });
  }

  /** The rows of a query in one table. Both tables have the columns that reports use, except `calls`. */
  private usage(table: (typeof LEDGER_TABLES)[number], query: Omit<UsageQuery, 'group_by'>) {
    const calls =
      table === 'usage_daily' ? sql<number>`calls` : sql<number>`case when parent_call_id is null then 1 else 0 end`;
    let select = this.db
      .selectFrom(table as 'usage_daily')
      .select([
        'tenant_id',
        'user_id',
        'caller_agent_id',
        'key_id',
        'source',
        'tool_name',
        'day',
        'real_tokens',
        'micro_usd',
      ])
      .select(calls.as('calls'));
    if (query.tenant_id !== undefined) select = select.where('tenant_id', '=', query.tenant_id);
    if (query.from_at !== undefined) select = select.where('charged_at', '>=', query.from_at);
    if (query.to_at !== undefined) select = select.where('charged_at', '<', query.to_at);
    if (query.tool_name !== undefined) select = select.where('tool_name', '=', query.tool_name);
    const { owner } = query;
    if (owner)
      select = select.where(sql<boolean>`(user_id = ${owner.user_id ?? null} or key_id = ${owner.key_id ?? null})`);
    return select;
  }

  /**
   * Spending of a tenant in total, on the UTC day of `now`, and per request, agent and task since `since`. Tokens are those really
   * used, without the tokens derived from costs.
   */
  async spentSince(tenantId: string, now: EpochMs, since: EpochMs): Promise<LedgerSum[]> {
    const amounts = [
      sql<number>`cast(coalesce(sum(micro_usd), 0) as bigint)`.as('micro_usd'),
      sql<number>`cast(coalesce(sum(real_tokens), 0) as bigint)`.as('tokens'),
    ];
    const query = { tenant_id: tenantId };
    const ever = this.usage('token_usage', query).unionAll(this.usage('usage_daily', query));
    // Rows of the last days are always there, so that today and the scopes of `since` need no sums of days.
    const recent = () => this.db.selectFrom('token_usage').where('tenant_id', '=', tenantId).select(amounts);
    const today = epochDay(now);
    const sum = (scope: string, row: { micro_usd: number; tokens: number } | undefined): LedgerSum => ({
      scope,
      microUsd: row?.micro_usd ?? 0,
      tokens: row?.tokens ?? 0,
    });
    const sums = [
      sum('tenant', await this.db.selectFrom(ever.as('usage')).select(amounts).executeTakeFirst()),
      sum(
        `day:${today}`,
        await recent()
          .where('charged_at', '>=', today * DAY_MS)
          .where('charged_at', '<', (today + 1) * DAY_MS)
          .executeTakeFirst(),
      ),
    ];
    for (const [prefix, column] of NAMED_SCOPES) {
      const rows = await recent()
        .where('charged_at', '>=', since)
        .where(column, 'is not', null)
        .select(column)
        .groupBy(column)
        .execute();
      sums.push(...rows.map((row) => sum(`${prefix}:${String(row[column])}`, row)));
    }
    return sums;
  }

  /** Spending from budgets of a tenant in their periods. Tokens are those really used. */
  async spentFrom(tenantId: string, budgets: readonly SetBudget[], now: EpochMs): Promise<LedgerSum[]> {
    const found: LedgerSum[] = [];
    const groups = Map.groupBy(budgets, ({ subject, period }) => `${subject} ${period}`);
    for (const group of groups.values()) {
      const [{ subject, period }] = group as [SetBudget];
      const column = SUBJECT_COLUMN[subject];
      const query = { tenant_id: tenantId, from_at: periodStart(period, now) };
      const rows = await this.db
        .selectFrom(this.usage('token_usage', query).unionAll(this.usage('usage_daily', query)).as('usage'))
        .select(column)
        .select([
          sql<number>`cast(coalesce(sum(micro_usd), 0) as bigint)`.as('micro_usd'),
          sql<number>`cast(coalesce(sum(real_tokens), 0) as bigint)`.as('real_tokens'),
        ])
        .groupBy(column)
        .execute();
      const byId = new Map(rows.map((row) => [row[column], row]));
      for (const budget of group) {
        const row = byId.get(subject === 'tenant' ? tenantId : budget.subject_id);
        if (!row) continue;
        found.push({ scope: scopeName(budget, now), microUsd: row.micro_usd, tokens: row.real_tokens });
      }
    }
    return found;
  }

  async close(): Promise<void> {
    await this.db.destroy();
  }
}

const SUBJECT_COLUMN = { tenant: 'tenant_id', user: 'user_id', key: 'key_id' } as const;

const NAMED_SCOPES = [
  ['request', 'request_id'],
  ['agent', 'caller_agent_id'],
  ['task', 'task_id'],
] as const;

/** UTC day, such as `2026-11-21`. */
function utcDay(at: EpochMs): string {
  return new Date(at).toISOString().slice(0, 10);
}

/** A stored row. Existing reports filter on the constants of `provider` and `agent_id`. */
function toRow({ agent_id, tokens, success, at, request_id, ...row }: LedgerRow) {
  const agent = `tool_${row.tool_name}`;
  return {
    ...row,
    ...{ agent_id: agent, provider: 'shannon-tools', model: agent, prompt_tokens: 0, completion_tokens: tokens },
    ...{ total_tokens: tokens, cache_aware_total_tokens: tokens, cost_usd: toUsd(row.micro_usd) },
    ...{ cache_read_tokens: 0, cache_creation_tokens: 0, caller_agent_id: agent_id },
    // A call without a request id is its own request, whose usage needs no sum.
    request_id: request_id === row.call_id ? undefined : request_id,
    ...{ success: success ? 1 : 0, ended_at: at, day: utcDay(row.charged_at) },
  };
}
