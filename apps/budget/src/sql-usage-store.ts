import { toUsd, type EpochMs } from '@toolfleet/contracts';
import type { UsageSum } from '@toolfleet/contracts/budget';
import { Kysely, sql, type CompiledQuery, type Dialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import { epochDay } from './limits.js';
import type { LedgerTables, TokenUsageTable } from './ledger-tables.js';
import { MIGRATIONS } from './migrations/migrations.js';
import type { LedgerSum } from './reservation-store.js';
import { UsageStore, type LedgerRow, type UsageGroup, type UsageQuery } from './usage-store.js';

/**
 * Rows per INSERT. A statement is compiled once per size and used again: building one for each batch costs more than
 * running it. 64 rows of 26 columns stay far below the 32,766 parameters SQLite takes.
 */
const INSERT_SIZES = [64, 8, 1] as const;

const GROUP_COLUMN: Record<UsageGroup, keyof TokenUsageTable> = {
  day: 'day',
  tool: 'tool_name',
  user: 'user_id',
  agent: 'caller_agent_id',
  tenant: 'tenant_id',
};
const GROUP_FIELD: Record<UsageGroup, 'day' | 'tool_name' | 'user_id' | 'agent_id' | 'tenant_id'> = {
  day: 'day',
  tool: 'tool_name',
  user: 'user_id',
  agent: 'agent_id',
  tenant: 'tenant_id',
};

/** The ledger in SQL: the embedded SQLite or PostgreSQL, one schema, one set of migrations, portable SQL only. */
export class SqlUsageStore extends UsageStore {
  private readonly db: Kysely<LedgerTables>;
  private readonly inserts = new Map<number, CompiledQuery>();

  constructor(dialect: Dialect) {
    super();
    this.db = new Kysely<LedgerTables>({ dialect });
  }

  override async open(): Promise<void> {
    const migrator = new Migrator({ db: this.db, provider: { getMigrations: () => Promise.resolve(MIGRATIONS) } });
    const { error } = await migrator.migrateToLatest();
    if (error) throw error;
  }

  override async append(rows: readonly LedgerRow[]): Promise<void> {
    if (rows.length === 0) return;
    const values = rows.map(tableRow);
    await this.db.transaction().execute(async (transaction) => {
      let start = 0;
      for (const size of INSERT_SIZES) {
        for (; values.length - start >= size; start += size) {
          const parameters = values.slice(start, start + size).flatMap((row) => Object.values(row));
          await transaction.executeQuery({ ...this.insertOf(size), parameters });
        }
      }
    });
  }

  /** The INSERT of so many rows; rows in the ledger already are skipped. */
  private insertOf(size: number): CompiledQuery {
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

  override async sums(query: UsageQuery): Promise<UsageSum[]> {
    const columns = query.groupBy.map((group) => GROUP_COLUMN[group]);
    let select = this.db
      .selectFrom('token_usage')
      .select(columns)
      .select([
        sql<number>`cast(coalesce(sum(case when parent_call_id is null then 1 else 0 end), 0) as bigint)`.as('calls'),
        sql<number>`cast(coalesce(sum(total_tokens), 0) as bigint)`.as('tokens'),
        sql<number>`cast(coalesce(sum(micro_usd), 0) as bigint)`.as('micro_usd'),
      ]);
    if (query.tenantId !== undefined) select = select.where('tenant_id', '=', query.tenantId);
    if (query.fromAt !== undefined) select = select.where('charged_at', '>=', query.fromAt);
    if (query.toAt !== undefined) select = select.where('charged_at', '<', query.toAt);
    if (query.toolName !== undefined) select = select.where('tool_name', '=', query.toolName);
    if (query.userId !== undefined) select = select.where('user_id', '=', query.userId);
    for (const column of columns) select = select.groupBy(column).orderBy(column);
    const rows = await select.execute();
    return rows.map((row) => {
      const sum: UsageSum = {
        calls: Number(row.calls),
        tokens: Number(row.tokens),
        micro_usd: Number(row.micro_usd),
      };
      for (const group of query.groupBy) {
        const value = (row as Partial<TokenUsageTable>)[GROUP_COLUMN[group]];
        if (value !== null && value !== undefined) sum[GROUP_FIELD[group]] = String(value);
      }
      return sum;
    });
  }

  override async spentSince(tenantId: string, now: EpochMs, since: EpochMs): Promise<LedgerSum[]> {
    const spent = () =>
      this.db
        .selectFrom('token_usage')
        .where('tenant_id', '=', tenantId)
        .select([
          sql<number>`cast(coalesce(sum(micro_usd), 0) as bigint)`.as('micro_usd'),
          sql<number>`cast(coalesce(sum(real_tokens), 0) as bigint)`.as('tokens'),
        ]);
    const sum = (scope: string, row: { micro_usd: number; tokens: number } | undefined): LedgerSum => ({
      scope,
      microUsd: Number(row?.micro_usd ?? 0),
      tokens: Number(row?.tokens ?? 0),
    });
    const sums = [
      sum('tenant', await spent().executeTakeFirst()),
      sum(`day:${epochDay(now)}`, await spent().where('day', '=', dayOf(now)).executeTakeFirst()),
    ];
    for (const [prefix, column] of NAMED_SCOPES) {
      const rows = await spent()
        .where('charged_at', '>=', since)
        .where(column, 'is not', null)
        .select(column)
        .groupBy(column)
        .execute();
      sums.push(...rows.map((row) => sum(`${prefix}:${String(row[column])}`, row)));
    }
    return sums;
  }

  override async close(): Promise<void> {
    await this.db.destroy();
  }
}

const NAMED_SCOPES = [
  ['request', 'request_id'],
  ['agent', 'caller_agent_id'],
  ['task', 'task_id'],
] as const;

/** UTC day of an instant, `2026-11-21`. */
export function dayOf(at: EpochMs): string {
  return new Date(at).toISOString().slice(0, 10);
}

/** Gives a compiled INSERT its columns. No value may be undefined, or the columns of rows would differ. */
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

/** A ledger row as stored, always with the same keys in the same order; provider and agent are the constants existing reports filter on. */
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
    // A call without a request id of its own is its own request: nothing to add up.
    request_id: row.request_id === row.call_id ? null : (row.request_id ?? null),
    real_tokens: row.real_tokens,
    micro_usd: row.micro_usd,
    success: row.success ? 1 : 0,
    provenance: row.provenance,
    ended_at: row.at,
    charged_at: row.charged_at,
    day: dayOf(row.charged_at),
    parent_call_id: row.parent_call_id ?? null,
  };
}
