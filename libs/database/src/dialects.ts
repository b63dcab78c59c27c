import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { PostgresDialect, SqliteDialect, type Dialect, type SqliteDatabase, type SqliteStatement } from 'kysely';
import pg from 'pg';

/** The embedded SQLite, owned by one process. With WAL and synchronous=FULL, a committed row survives a power failure. */
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

/** Prepared statements to keep. The service uses a handful, and reports with filters some more. */
const MAX_STATEMENTS = 64;

/** Prepares each statement once, because parsing an INSERT of 64 rows costs about as much as running it. */
function withStatementCache(database: Database.Database): SqliteDatabase {
  const prepared = new Map<string, Database.Statement>();
  return {
    close: () => void database.close(),
    prepare: (text) => {
      let statement = prepared.get(text);
      if (!statement) {
        if (prepared.size >= MAX_STATEMENTS) prepared.delete(prepared.keys().next().value as string);
        statement = database.prepare(text);
        prepared.set(text, statement);
      }
      return statement as unknown as SqliteStatement;
    },
  };
}

/** How a service signs in to PostgreSQL. */
interface PostgresLogin {
  /** Name of the connections, as `pg_stat_activity` shows it. */
  application: string;
  password?: string;
  /** File with the CA of the server; requires TLS with a verified host name. */
  tlsCa?: string;
}

/** PostgreSQL, required for more than one replica. A hanging statement is aborted, and the caller repeats it. */
export function postgresDialect(url: string, login: PostgresLogin = { application: 'spec' }): Dialect {
  const pool = new pg.Pool({
    connectionString: withLogin(url, login),
    max: 4,
    connectionTimeoutMillis: 5_000,
    statement_timeout: 30_000,
    application_name: `toolfleet-${login.application}`,
  });
  // A connection that breaks is replaced at its next use, and a statement that it runs fails. Without listeners the error would end
  // the process: that of the pool hears of idle connections only, so that a server killed within a transaction needs the other one.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  return new PostgresDialect({ pool });
}

/** The settings of a service's database. */
interface DatabaseSettings {
  DATABASE_URL?: string | undefined;
  DATABASE_PASSWORD?: string | undefined;
  DATABASE_TLS_CA?: string | undefined;
}

/** PostgreSQL if `DATABASE_URL` is set, else the embedded SQLite in `file`. */
export function serviceDialect(application: string, settings: DatabaseSettings, file: string): Dialect {
  const { DATABASE_URL: url, DATABASE_PASSWORD: password, DATABASE_TLS_CA: tlsCa } = settings;
  return url ? postgresDialect(url, { application, password, tlsCa }) : sqliteDialect(file);
}

/** The settings that may be wrong when the database cannot be opened. */
export function databaseSettings({ DATABASE_URL: url }: DatabaseSettings, fileSetting: string): string[] {
  return url ? ['DATABASE_URL', 'DATABASE_PASSWORD', 'DATABASE_TLS_CA'] : [fileSetting];
}

/** Adds the login to the URL, because the driver reads the URL first. */
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
