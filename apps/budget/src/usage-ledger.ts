import { toUsd, type EpochMs } from '@toolfleet/contracts';
import type { UsageRow, UsageSum } from '@toolfleet/contracts/budget';
import { Kysely, sql, type CompiledQuery, type Dialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import { epochDay } from './limits.js';
import { MIGRATIONS } from './migrations.js';
import type { LedgerSum } from './reservation-store.js';

/** A ledger row: the usage of a call as it was charged. */
export interface LedgerRow extends UsageRow {
  kind: 'settled' | 'expired';
  /** When it was charged, by the clock of the reservation store. */
  charged_at: EpochMs;
}

/** Filters and grouping of a usage report. */
export interface UsageQuery {
  /** Absent: all tenants. */
  tenantId?: string;
  fromAt?: EpochMs;
  toAt?: EpochMs;
  toolName?: string;
  userId?: string;
  groupBy: readonly UsageGroup[];
}
export const USAGE_GROUPS = ['day', 'tool', 'user', 'agent', 'tenant'] as const;
export type UsageGroup = (typeof USAGE_GROUPS)[number];

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
}

/**
 * Rows per INSERT. Statements are compiled once per size, because building one costs more than running it. 64 rows of 26 columns
 * stay far below SQLite's limit of 32,766 parameters.
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

/**
 * The ledger of record, in the embedded SQLite or PostgreSQL with the same schema and portable SQL. Rows are only appended, one per
 * call or slice. Database failures reject.
 */
export class UsageLedger {
  private readonly db: Kysely<{ token_usage: TokenUsageTable }>;
  private readonly inserts = new Map<number, CompiledQuery>();

  constructor(dialect: Dialect) {
    this.db = new Kysely<{ token_usage: TokenUsageTable }>({ dialect });
  }

  /** Migrates the schema to the latest version. */
  async open(): Promise<void> {
    const migrator = new Migrator({ db: this.db, provider: { getMigrations: () => Promise.resolve(MIGRATIONS) } });
    const { error } = await migrator.migrateToLatest();
    if (error) throw error;
  }

  /** Appends rows. Rows that are already in the ledger are skipped, so it may be repeated. Durable when it resolves. */
  async append(rows: readonly LedgerRow[]): Promise<void> {
    if (rows.length === 0) return;
    const values = rows.map(tableRow);
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

  /** Sums per group, ordered by group. Days are UTC days of the charge. */
  async sums(query: UsageQuery): Promise<UsageSum[]> {
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

  /**
   * What a tenant has spent in total, on the UTC day of `now`, and per request, agent and task since `since`. Tokens are those really
   * used, without the tokens derived from costs.
   */
  async spentSince(tenantId: string, now: EpochMs, since: EpochMs): Promise<LedgerSum[]> {
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
      sum(`day:${epochDay(now)}`, await spent().where('day', '=', utcDay(now)).executeTakeFirst()),
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

  async close(): Promise<void> {
    await this.db.destroy();
  }
}

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
  };
}
