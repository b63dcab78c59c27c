/**
 * Migrations of a database, the same for SQLite and PostgreSQL. A build runs those that are new to the database and accepts those that
 * are new to the build, so that the previous release starts on a database that the next one has migrated.
 */
import { FatalStartupError } from '@toolfleet/service';
import { PostgresAdapter, sql, type Kysely, type Transaction } from 'kysely';

/**
 * One change of the schema. Builds that do not know it go on writing, so it only adds: tables, and columns that are nullable or have
 * a default.
 */
export interface Migration {
  up(db: Kysely<unknown>): Promise<void>;
  /**
   * Set when older builds cannot work with the change: the first release that can, such as `0.4.0`. The database records it, and a
   * build that does not know the migration refuses to start. A release with such a migration cannot be rolled back.
   */
  readonly needsRelease?: string;
}

/** The migrations of one service. Several services may share a database. */
export interface Migrations {
  /** What holds the data, for messages: `the ledger`. */
  readonly name: string;
  /** The table that lists the executed migrations. */
  readonly table: string;
  /** By name, in order. A released migration is never edited. */
  readonly all: Readonly<Record<string, Migration>>;
}

/** Any number that no other program uses for advisory locks in this database. */
const LOCK = 7_305_991_204_418;

interface MigrationTable {
  migration: { name: string; executed_at: string; needs_release: string | null };
}

/**
 * Brings a database up to date in one transaction, by one replica at a time.
 * @throws FatalStartupError when a migration that this build does not know needs a newer release
 */
export async function migrate(db: Kysely<unknown>, { name: owner, table, all }: Migrations): Promise<void> {
  const executedTable = table as 'migration';
  await db.transaction().execute(async (transaction) => {
    const tx = transaction as Transaction<unknown> & Transaction<MigrationTable>;
    if (tx.getExecutor().adapter instanceof PostgresAdapter) {
      await sql`set local statement_timeout = 0`.execute(tx);
      await sql`select pg_advisory_xact_lock(${LOCK})`.execute(tx);
    }
    await tx.schema
      .createTable(executedTable)
      .ifNotExists()
      .addColumn('name', 'text', (column) => column.primaryKey())
      .addColumn('executed_at', 'text', (column) => column.notNull())
      .addColumn('needs_release', 'text')
      .execute();
    const executed = await tx.selectFrom(executedTable).select(['name', 'needs_release']).orderBy('name').execute();
    const names = new Set(executed.map(({ name }) => name));
    const beyond = executed.findLast(({ name, needs_release: needed }) => needed !== null && !Object.hasOwn(all, name));
    if (beyond)
      throw new FatalStartupError(
        `${owner} needs release ${beyond.needs_release} or newer (migration ${beyond.name}); ` +
          'start that release, or restore a backup from before its upgrade',
      );
    for (const [name, { up, needsRelease }] of Object.entries(all)) {
      if (names.has(name)) continue;
      await up(tx);
      const executedAt = sql<string>`cast(current_timestamp as text)`;
      const row = { name, executed_at: executedAt, needs_release: needsRelease ?? null };
      await tx.insertInto(executedTable).values(row).execute();
    }
  });
}
