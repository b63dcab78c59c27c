import type { Migration, Migrations } from '@toolfleet/database';
import { PostgresAdapter, sql } from 'kysely';

/**
 * `token_usage` has one row per call or slice; the columns up to `cache_creation_tokens` are those that existing reports read. The
 * primary key makes a repeated delivery harmless. `usage_daily` has the sums of days whose rows are gone, one row per tenant, day,
 * tool, user and agent or several of them; reports add them up. `charged_at` is the start of the day.
 *
 * PostgreSQL partitions `token_usage` by day, which requires the instant of the charge in the key; a repeated delivery does not
 * change it. SQLite, which deletes rows instead, gets an index to find the oldest.
 *
 * Ledgers of builds before 0.1.0 have the tables already.
 */
const ledger: Migration = {
  async up(db) {
    const isPostgres = db.getExecutor().adapter instanceof PostgresAdapter;
    const usage = db.schema
      .createTable('token_usage')
      .ifNotExists()
      .addColumn('user_id', 'text', (column) => column.notNull())
      .addColumn('task_id', 'text')
      .addColumn('agent_id', 'text', (column) => column.notNull())
      .addColumn('provider', 'text', (column) => column.notNull())
      .addColumn('model', 'text', (column) => column.notNull())
      .addColumn('prompt_tokens', 'bigint', (column) => column.notNull())
      .addColumn('completion_tokens', 'bigint', (column) => column.notNull())
      .addColumn('total_tokens', 'bigint', (column) => column.notNull())
      .addColumn('cache_aware_total_tokens', 'bigint', (column) => column.notNull())
      .addColumn('cost_usd', 'double precision', (column) => column.notNull())
      .addColumn('cache_read_tokens', 'bigint', (column) => column.notNull())
      .addColumn('cache_creation_tokens', 'bigint', (column) => column.notNull())
      .addColumn('tenant_id', 'text', (column) => column.notNull())
      .addColumn('call_id', 'text', (column) => column.notNull())
      .addColumn('kind', 'text', (column) => column.notNull())
      .addColumn('tool_name', 'text', (column) => column.notNull())
      .addColumn('caller_agent_id', 'text')
      .addColumn('request_id', 'text')
      .addColumn('real_tokens', 'bigint', (column) => column.notNull())
      .addColumn('micro_usd', 'bigint', (column) => column.notNull())
      .addColumn('success', 'integer', (column) => column.notNull())
      .addColumn('provenance', 'text', (column) => column.notNull())
      .addColumn('ended_at', 'bigint', (column) => column.notNull())
      .addColumn('charged_at', 'bigint', (column) => column.notNull())
      .addColumn('day', 'text', (column) => column.notNull())
      .addColumn('parent_call_id', 'text');
    await (
      isPostgres
        ? usage
            .addPrimaryKeyConstraint('token_usage_call', ['tenant_id', 'call_id', 'charged_at'])
            .modifyEnd(sql`partition by range (charged_at)`)
        : usage.addPrimaryKeyConstraint('token_usage_call', ['tenant_id', 'call_id'])
    ).execute();
    await db.schema
      .createTable('usage_daily')
      .ifNotExists()
      .addColumn('tenant_id', 'text', (column) => column.notNull())
      .addColumn('charged_at', 'bigint', (column) => column.notNull())
      .addColumn('day', 'text', (column) => column.notNull())
      .addColumn('tool_name', 'text', (column) => column.notNull())
      .addColumn('user_id', 'text', (column) => column.notNull())
      .addColumn('caller_agent_id', 'text')
      .addColumn('calls', 'bigint', (column) => column.notNull())
      .addColumn('total_tokens', 'bigint', (column) => column.notNull())
      .addColumn('real_tokens', 'bigint', (column) => column.notNull())
      .addColumn('micro_usd', 'bigint', (column) => column.notNull())
      .execute();
    const index = (name: string, table: string, columns: string[]) =>
      db.schema.createIndex(name).ifNotExists().on(table).columns(columns).execute();
    await index('token_usage_time', 'token_usage', ['tenant_id', 'charged_at']);
    await index('usage_daily_time', 'usage_daily', ['tenant_id', 'charged_at']);
    if (!isPostgres) await index('token_usage_charged', 'token_usage', ['charged_at']);
  },
};

/** Who is billed by key, and where tools come from. Rows of earlier releases, and days that they summed, have neither. */
const keysAndSources: Migration = {
  async up(db) {
    for (const table of ['token_usage', 'usage_daily'])
      for (const column of ['key_id', 'source']) await db.schema.alterTable(table).addColumn(column, 'text').execute();
  },
};

/** Limits that were set over the API, one row per tenant, subject and period. */
const setBudgets: Migration = {
  async up(db) {
    await db.schema
      .createTable('set_budget')
      .addColumn('tenant_id', 'text', (column) => column.notNull())
      .addColumn('subject', 'text', (column) => column.notNull())
      .addColumn('subject_id', 'text', (column) => column.notNull())
      .addColumn('period', 'text', (column) => column.notNull())
      .addColumn('micro_usd', 'bigint')
      .addColumn('tokens', 'bigint')
      .addColumn('changed_at', 'bigint', (column) => column.notNull())
      .addColumn('changed_by', 'text', (column) => column.notNull())
      .addPrimaryKeyConstraint('set_budget_name', ['tenant_id', 'subject', 'subject_id', 'period'])
      .execute();
  },
};

/** The migrations of the ledger. */
export const LEDGER_MIGRATIONS: Migrations = {
  name: 'the ledger',
  table: 'ledger_migration',
  all: { '0001-ledger': ledger, '0002-keys-and-sources': keysAndSources, '0003-set-budgets': setBudgets },
};
