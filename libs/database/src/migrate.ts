/**
 * Migrations of a database, the same for SQLite and PostgreSQL. A build runs those that are new to the database and accepts those that
 * are new to the build, so that the previous release starts on a database that the next one has migrated.
 */
import { FatalStartupError } from '@toolfleet/service';
import { sql, type Transaction } from 'kysely';
import { isPostgres, type AnyDb } from './dialects.js';

/**
 * One change of the schema. Builds that do not know it go on writing, so it only adds: tables, and columns that are nullable or have
 * a default.
 */
export interface Migration {
  up(db: AnyDb): Promise<void>;
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
  /** By name, in order; the first makes the tables. A released migration is never edited. */
  readonly all: Readonly<Record<string, Migration>>;
}

/** Any number that no other program uses for advisory locks in this database. */
const LOCK = 7_305_991_204_418;

interface MigrationTable {
  migration: { name: string; executed_at: string; needs_release?: string };
}

/**
 * Brings a database up to date in one transaction, by one replica at a time.
 * @throws FatalStartupError when a migration that this build does not know needs a newer release, or an unreleased build made the database
 */
export async function migrate(db: AnyDb, { name: owner, table, all }: Migrations): Promise<void> {
  const executedTable = table as 'migration';
  await db.transaction().execute(async (transaction) => {
    const tx: Transaction<MigrationTable> = transaction;
    if (isPostgres(tx)) {
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
    const [first = ''] = Object.keys(all);
    if (executed.length > 0 && !names.has(first))
      throw new FatalStartupError(
        `${owner} was made by an unreleased build (migration ${executed[0]!.name}) and cannot be read; start anew: ` +
          'mv .toolfleet .toolfleet.old && npm start, or name an empty database and an empty Redis',
      );
    const beyond = executed.findLast(
      ({ name, needs_release: needed }) => needed !== undefined && !Object.hasOwn(all, name),
    );
    if (beyond)
      throw new FatalStartupError(
        `${owner} needs release ${beyond.needs_release} or newer (migration ${beyond.name}); ` +
          'start that release, or restore a backup from before its upgrade',
      );
    for (const [name, { up, needsRelease }] of Object.entries(all)) {
      if (names.has(name)) continue;
      await up(tx);
      const executedAt = sql<string>`cast(current_timestamp as text)`;
      const row = { name, executed_at: executedAt, needs_release: needsRelease };
      await tx.insertInto(executedTable).values(row).execute();
    }
  });
}
