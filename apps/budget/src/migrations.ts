/**
 * Migrations of the ledger, the same for SQLite and PostgreSQL. A build runs those that are new to the ledger and accepts those that
 * are new to the build, so that the previous release starts on a ledger that the next one has migrated.
 */
import { FatalStartupError } from '@toolfleet/service';
import { PostgresAdapter, sql, type Kysely, type Transaction } from 'kysely';

/**
 * One change of the schema. Builds that do not know it go on writing, so it only adds: tables, and columns that are nullable or have
 * a default.
 */
export interface LedgerMigration {
  up(db: Kysely<unknown>): Promise<void>;
  /**
   * Set when older builds cannot work with the change: the first release that can, such as `0.4.0`. The ledger records it, and a
   * build that does not know the migration refuses to start. A release with such a migration cannot be rolled back.
   */
  readonly needsRelease?: string;
}

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
const ledger: LedgerMigration = {
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

/** All migrations by name, in order. A released migration is never edited. */
export const MIGRATIONS: Readonly<Record<string, LedgerMigration>> = { '0001-ledger': ledger };

/** Any number that no other program uses for advisory locks in this database. */
const LOCK = 7_305_991_204_418;

interface MigrationTable {
  ledger_migration: { name: string; executed_at: string; needs_release: string | null };
}

/**
 * Brings the ledger up to date in one transaction, by one replica at a time.
 * @throws FatalStartupError when a migration that this build does not know needs a newer release
 */
export async function migrateLedger(db: Kysely<unknown>, migrations = MIGRATIONS): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    const tx = transaction as Transaction<unknown> & Transaction<MigrationTable>;
    if (tx.getExecutor().adapter instanceof PostgresAdapter) {
      await sql`set local statement_timeout = 0`.execute(tx);
      await sql`select pg_advisory_xact_lock(${LOCK})`.execute(tx);
    }
    await tx.schema
      .createTable('ledger_migration')
      .ifNotExists()
      .addColumn('name', 'text', (column) => column.primaryKey())
      .addColumn('executed_at', 'text', (column) => column.notNull())
      .addColumn('needs_release', 'text')
      .execute();
    const executed = await tx
      .selectFrom('ledger_migration')
      .select(['name', 'needs_release'])
      .orderBy('name')
      .execute();
    const names = new Set(executed.map(({ name }) => name));
    const beyond = executed.findLast(
      ({ name, needs_release: needed }) => needed !== null && !Object.hasOwn(migrations, name),
    );
    if (beyond)
      throw new FatalStartupError(
        `the ledger needs release ${beyond.needs_release} or newer (migration ${beyond.name}); ` +
          'start that release, or restore a backup from before its upgrade',
      );
    for (const [name, { up, needsRelease }] of Object.entries(migrations)) {
      if (names.has(name)) continue;
      await up(tx);
      const executedAt = sql<string>`cast(current_timestamp as text)`;
      const row = { name, executed_at: executedAt, needs_release: needsRelease ?? null };
      await tx.insertInto('ledger_migration').values(row).execute();
    }
  });
}
