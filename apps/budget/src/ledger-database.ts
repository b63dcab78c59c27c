import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { PostgresDialect, SqliteDialect, type Dialect } from 'kysely';
import pg from 'pg';

/**
 * The embedded database: one process owns the file. WAL with synchronous=FULL, so that an acknowledged row survives the loss
 * of power as far as the disk keeps its word.
 */
export function sqliteDialect(file: string): Dialect {
  return new SqliteDialect({
    database: () => {
      if (file !== ':memory:') mkdirSync(dirname(file), { recursive: true });
      const database = new Database(file);
      database.pragma('journal_mode = WAL');
      database.pragma('synchronous = FULL');
      database.pragma('busy_timeout = 5000');
      return Promise.resolve(database);
    },
  });
}

/** PostgreSQL, for more than one replica. A statement that hangs is given up, so that the drain can try again. */
export function postgresDialect(url: string): Dialect {
  const pool = new pg.Pool({
    connectionString: url,
    max: 4,
    connectionTimeoutMillis: 5_000,
    statement_timeout: 30_000,
    application_name: 'toolfleet-budget',
  });
  // An idle connection that breaks is replaced on next use; without a listener it would end the process.
  pool.on('error', () => undefined);
  return new PostgresDialect({ pool });
}
