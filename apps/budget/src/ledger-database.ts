import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { PostgresDialect, SqliteDialect, type Dialect, type SqliteDatabase, type SqliteStatement } from 'kysely';
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
      return Promise.resolve(withStatementCache(database));
    },
  });
}

/** Statements kept prepared. The service uses a handful; reports with their filters make some more. */
const MOST_STATEMENTS = 64;

/** Prepares each text once: parsing an INSERT of 64 rows costs about as much as running it. */
function withStatementCache(database: Database.Database): SqliteDatabase {
  const prepared = new Map<string, Database.Statement>();
  return {
    close: () => void database.close(),
    prepare: (text) => {
      let statement = prepared.get(text);
      if (!statement) {
        if (prepared.size >= MOST_STATEMENTS) prepared.delete(prepared.keys().next().value as string);
        statement = database.prepare(text);
        prepared.set(text, statement);
      }
      return statement as unknown as SqliteStatement;
    },
  };
}

/** What goes into the URL, where the driver looks first. */
export interface PostgresLogin {
  password?: string | undefined;
  /** File with the CA of the server; asks for TLS with a checked name. */
  tlsCa?: string | undefined;
}

/** PostgreSQL, for more than one replica. A statement that hangs is given up, so that the drain can try again. */
export function postgresDialect(url: string, login: PostgresLogin = {}): Dialect {
  const pool = new pg.Pool({
    connectionString: withLogin(url, login),
    max: 4,
    connectionTimeoutMillis: 5_000,
    statement_timeout: 30_000,
    application_name: 'toolfleet-budget',
  });
  // An idle connection that breaks is replaced on next use; without a listener it would end the process.
  pool.on('error', () => undefined);
  return new PostgresDialect({ pool });
}

function withLogin(url: string, { password, tlsCa }: PostgresLogin): string {
  if (!password && !tlsCa) return url;
  const address = new URL(url);
  if (password) address.password = encodeURIComponent(password);
  if (tlsCa) {
    address.searchParams.set('sslmode', 'verify-full');
    address.searchParams.set('sslrootcert', tlsCa);
  }
  return address.href;
}
