/** Migrations of the ledger, the same for SQLite and PostgreSQL. */
import { PostgresAdapter, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import { partitionByDay } from './ledger-days.js';

/**
 * The ledger, one row per call. The columns up to `cache_creation_tokens` are those that existing reports read. The primary key
 * makes a repeated delivery harmless.
 */
const tokenUsage: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('token_usage')
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
      .addPrimaryKeyConstraint('token_usage_call', ['tenant_id', 'call_id'])
      .execute();
    await db.schema.createIndex('token_usage_time').on('token_usage').columns(['tenant_id', 'charged_at']).execute();
  },
  async down(db: Kysely<unknown>): Promise<void> {
    await db.schema.dropTable('token_usage').execute();
  },
};

/** A call that is charged in slices has a row per slice. The row names the call, so that reports count calls, not slices. */
const slices: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema.alterTable('token_usage').addColumn('parent_call_id', 'text').execute();
  },
  async down(db: Kysely<unknown>): Promise<void> {
    await db.schema.alterTable('token_usage').dropColumn('parent_call_id').execute();
  },
};

/**
 * Sums of days whose rows are gone, one row per tenant, day, tool, user and agent or several of them; reports add them up.
 * `charged_at` is the start of the day. PostgreSQL gets its partitions; SQLite, which deletes rows instead, an index to find the oldest.
 */
const days: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('usage_daily')
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
    await db.schema.createIndex('usage_daily_time').on('usage_daily').columns(['tenant_id', 'charged_at']).execute();
    if (db.getExecutor().adapter instanceof PostgresAdapter) return partitionByDay(db);
    await db.schema.createIndex('token_usage_charged').on('token_usage').column('charged_at').execute();
  },
};

/** All migrations by name, in order. A released migration is never edited. */
export const MIGRATIONS: Record<string, Migration> = {
  '0001-token-usage': tokenUsage,
  '0002-slices': slices,
  '0003-days': days,
};
