import { DEFAULT_QUOTAS } from '@toolfleet/contracts/account';
import { toUsd, type EpochMs } from '@toolfleet/contracts';
import type { BudgetUsage, UsageRow, UsageSum } from '@toolfleet/contracts/budget';
import { migrate, DAY_MS, epochDay } from '@toolfleet/database';
import { periodStart } from '@toolfleet/resilience';
import { Kysely, PostgresAdapter, sql, type CompiledQuery, type Dialect } from 'kysely';
import { DeletedDays, PartitionedDays, type LedgerDays } from './ledger-days.js';
import { LEDGER_MIGRATIONS } from './migrations.js';
import type { LedgerSum } from './reservation-store.js';
import { budgetScope, StoredBudgets, type SetBudget } from './set-budgets.js';

/** A ledger row: the usage of a call as it was charged. */
export interface LedgerRow extends UsageRow {
  kind: 'settled' | 'expired';
  /** When it was charged, by the clock of the reservation store. */
  charged_at: EpochMs;
}

type UsageGroup = BudgetUsage['group_by'][number];

/** Filters and grouping of a usage report. */
interface UsageQuery {
  /** Absent: all tenants. */
  tenantId?: string;
  fromAt?: EpochMs;
  toAt?: EpochMs;
  toolName?: string;
  owner?: BudgetUsage['owner'];
  groupBy: readonly UsageGroup[];
}

/** Columns of `token_usage`. PostgreSQL returns bigint as text, so values are converted where they are read. */
interface TokenUsageTable {
  user_id: string;
  task_id: string | null;
  agent_id: string;
  provider: string;
  model: string;
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  cache_aware_total_tokens: number;
  cost_usd: number;
  cache_read_tokens: number;
  cache_creation_tokens: number;
  tenant_id: string;
  call_id: string;
  kind: string;
  tool_name: string;
  caller_agent_id: string | null;
  request_id: string | null;
  real_tokens: number;
  micro_usd: number;
  success: number;
  provenance: string;
  ended_at: number;
  charged_at: number;
  day: string;
  /** Set for a slice: the call it belongs to. A slice has an amount but does not count as a call. */
  parent_call_id: string | null;
  key_id: string | null;
  source: string | null;
}

/**
 * Rows per INSERT. Statements are compiled once per size, because building one costs more than running it. 64 rows of 28 columns
 * stay far below SQLite's limit of 32,766 parameters.
 */
const INSERT_SIZES = [64, 8, 1] as const;

const GROUP_COLUMN = {
  day: 'day',
  tool: 'tool_name',
  source: 'source',
  user: 'user_id',
  key: 'key_id',
  agent: 'caller_agent_id',
  tenant: 'tenant_id',
} as const satisfies Record<UsageGroup, keyof UsageDailyTable>;
const GROUP_FIELD = { ...GROUP_COLUMN, agent: 'agent_id' } as const satisfies Record<UsageGroup, keyof UsageSum>;

/** Columns of `usage_daily`: sums of a day whose rows are gone. `charged_at` is the start of the day. */
type UsageDailyTable = Pick<
  TokenUsageTable,
  | 'tenant_id'
  | 'charged_at'
  | 'day'
  | 'tool_name'
  | 'user_id'
  | 'caller_agent_id'
  | 'key_id'
  | 'source'
  | 'real_tokens'
  | 'micro_usd'
> & { calls: number };

/** A tenant, or one of its users. */
interface LedgerScope {
  tenantId: string;
  userId?: string;
}

const LEDGER_TABLES = ['token_usage', 'usage_daily'] as const;

interface LedgerTables {
  token_usage: TokenUsageTable;
  usage_daily: UsageDailyTable;
}

/**
 * The ledger of record, in the embedded SQLite or PostgreSQL with the same columns and portable SQL. Rows are appended, one per
 * call or slice, and days that are older than the retention become sums. Database failures reject.
 */
export class UsageLedger {
  private readonly db: Kysely<LedgerTables>;
  private readonly days: LedgerDays;
  /** Limits that were set over the API. */
  readonly budgets: StoredBudgets;
  private readonly inserts = new Map<number, CompiledQuery>();

  /** @param mostBudgets of one tenant */
  constructor(dialect: Dialect, mostBudgets: number = DEFAULT_QUOTAS.budgets) {
    this.db = new Kysely<LedgerTables>({ dialect });
    const isPostgres = this.db.getExecutor().adapter instanceof PostgresAdapter;
    const db = this.db as unknown as Kysely<unknown>;
    this.budgets = new StoredBudgets(db, mostBudgets);
    this.days = isPostgres ? new PartitionedDays(db) : new DeletedDays(db);
  }

  /**
   * Runs the migrations that are new to this ledger.
   * @throws FatalStartupError when the ledger needs a newer release
   */
  open(): Promise<void> {
    return migrate(this.db as unknown as Kysely<unknown>, LEDGER_MIGRATIONS);
  }

  /** Resolves when the database answers. */
  async ping(): Promise<void> {
    await sql`select 1`.execute(this.db);
  }

  /** Appends rows. Rows that are already in the ledger are skipped, so it may be repeated. Durable when it resolves. */
  async append(rows: readonly LedgerRow[]): Promise<void> {
    if (rows.length === 0) return;
    const values = rows.map(tableRow);
    await this.days.prepare(new Set(rows.map((row) => epochDay(row.charged_at))));
    await this.db.transaction().execute(async (transaction) => {
      let start = 0;
      for (const size of INSERT_SIZES) {
        for (; values.length - start >= size; start += size) {
          const parameters = values.slice(start, start + size).flatMap((row) => Object.values(row));
          await transaction.executeQuery({ ...this.insertStatement(size), parameters });
        }
      }
    });
  }

  private insertStatement(size: number): CompiledQuery {
    const known = this.inserts.get(size);
    if (known) return known;
    const example = tableRow(EXAMPLE);
    const compiled = this.db
      .insertInto('token_usage')
      .values(Array.from({ length: size }, () => example))
      .onConflict((conflict) => conflict.doNothing())
      .compile();
    this.inserts.set(size, compiled);
    return compiled;
  }

  /** Replaces the rows of the days before that of `at` by sums of each day. Returns the number of rows replaced. */
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
      rows += Number(found?.rows ?? 0);
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
        let update = this.db
          .updateTable(table as 'token_usage')
          .set({ ...erased, ...ids, caller_agent_id: null, key_id: null })
          .where('tenant_id', '=', scope.tenantId)
          .where('charged_at', '>=', startAt)
          .where('charged_at', '<', startAt + DAY_MS);
        if (scope.userId !== undefined) update = update.where('user_id', '=', scope.userId);
        rows += Number((await update.executeTakeFirst()).numUpdatedRows);
      }
    }
    return { rows, more: false };
  }

  private named(table: keyof LedgerTables, { tenantId, userId }: LedgerScope) {
    const rows = this.db.selectFrom(table as 'usage_daily').where('tenant_id', '=', tenantId);
    return userId === undefined ? rows : rows.where('user_id', '=', userId);
  }

  /**
   * Sums per group, ordered by group. Tokens are those that tools reported, as budgets count them. Days are UTC days of the charge. A day whose rows are gone is in a report from the instant it
   * started, as a whole.
   */
  async sums(query: UsageQuery): Promise<UsageSum[]> {
    const columns = query.groupBy.map((group) => GROUP_COLUMN[group]);
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
      const sum: UsageSum = {
        calls: Number(row.calls),
        tokens: Number(row.tokens),
        micro_usd: Number(row.micro_usd),
      };
      for (const group of query.groupBy) {
        const value = (row as Partial<UsageDailyTable>)[GROUP_COLUMN[group]];
        if (value !== null && value !== undefined) sum[GROUP_FIELD[group]] = String(value);
      }
      return sum;
    });
  }

  /** The rows of a query in one table. Both tables have the columns that reports use, except `calls`. */
  private usage(table: keyof LedgerTables, query: Omit<UsageQuery, 'groupBy'>) {
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
    if (query.tenantId !== undefined) select = select.where('tenant_id', '=', query.tenantId);
    if (query.fromAt !== undefined) select = select.where('charged_at', '>=', query.fromAt);
    if (query.toAt !== undefined) select = select.where('charged_at', '<', query.toAt);
    if (query.toolName !== undefined) select = select.where('tool_name', '=', query.toolName);
    const { owner } = query;
    if (owner)
      select = select.where(sql<boolean>`(user_id = ${owner.user_id ?? null} or key_id = ${owner.key_id ?? null})`);
    return select;
  }

  /**
   * What a tenant has spent in total, on the UTC day of `now`, and per request, agent and task since `since`. Tokens are those really
   * used, without the tokens derived from costs.
   */
  async spentSince(tenantId: string, now: EpochMs, since: EpochMs): Promise<LedgerSum[]> {
    const amounts = [
      sql<number>`cast(coalesce(sum(micro_usd), 0) as bigint)`.as('micro_usd'),
      sql<number>`cast(coalesce(sum(real_tokens), 0) as bigint)`.as('tokens'),
    ];
    const ever = this.usage('token_usage', { tenantId }).unionAll(this.usage('usage_daily', { tenantId }));
    // Rows of the last days are always there, so that today and the scopes of `since` need no sums of days.
    const recent = () => this.db.selectFrom('token_usage').where('tenant_id', '=', tenantId).select(amounts);
    const today = epochDay(now);
    const sum = (scope: string, row: { micro_usd: number; tokens: number } | undefined): LedgerSum => ({
      scope,
      microUsd: Number(row?.micro_usd ?? 0),
      tokens: Number(row?.tokens ?? 0),
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

  /** What was spent from budgets of a tenant in their periods. Tokens are those really used. */
  async spentFrom(tenantId: string, budgets: readonly SetBudget[], now: EpochMs): Promise<LedgerSum[]> {
    const found: LedgerSum[] = [];
    const groups = Map.groupBy(budgets, ({ subject, period }) => `${subject} ${period}`);
    for (const group of groups.values()) {
      const [{ subject, period }] = group as [SetBudget];
      const column = SUBJECT_COLUMN[subject];
      const query = { tenantId, fromAt: periodStart(period, now) };
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
        const row = byId.get(subject === 'tenant' ? tenantId : budget.id);
        if (!row) continue;
        const { name: scope } = budgetScope(budget, now);
        found.push({ scope, microUsd: Number(row.micro_usd), tokens: Number(row.real_tokens) });
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

/** Determines the columns of a compiled INSERT. No value may be undefined, or rows would have different columns. */
const EXAMPLE: LedgerRow = {
  call_id: '',
  tenant_id: '',
  user_id: '',
  tool_name: '',
  tokens: 0,
  real_tokens: 0,
  micro_usd: 0,
  success: true,
  provenance: '',
  at: 0,
  kind: 'settled',
  charged_at: 0,
};

/** A stored row, with all keys always in the same order. Existing reports filter on the constants of `provider` and `agent_id`. */
function tableRow(row: LedgerRow): TokenUsageTable {
  return {
    user_id: row.user_id,
    task_id: row.task_id ?? null,
    agent_id: `tool_${row.tool_name}`,
    provider: 'shannon-tools',
    model: `tool_${row.tool_name}`,
    prompt_tokens: 0,
    completion_tokens: row.tokens,
    total_tokens: row.tokens,
    cache_aware_total_tokens: row.tokens,
    cost_usd: toUsd(row.micro_usd),
    cache_read_tokens: 0,
    cache_creation_tokens: 0,
    tenant_id: row.tenant_id,
    call_id: row.call_id,
    kind: row.kind,
    tool_name: row.tool_name,
    caller_agent_id: row.agent_id ?? null,
    // A call without a request id is its own request, whose usage needs no sum.
    request_id: row.request_id === row.call_id ? null : (row.request_id ?? null),
    real_tokens: row.real_tokens,
    micro_usd: row.micro_usd,
    success: row.success ? 1 : 0,
    provenance: row.provenance,
    ended_at: row.at,
    charged_at: row.charged_at,
    day: utcDay(row.charged_at),
    parent_call_id: row.parent_call_id ?? null,
    key_id: row.key_id ?? null,
    source: row.source ?? null,
  };
}
