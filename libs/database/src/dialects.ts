import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import {
  PostgresAdapter,
  PostgresDialect,
  SqliteDialect,
  type Dialect,
  type Kysely,
  type PostgresPoolClient,
  type QueryExecutorProvider,
  type SqliteDatabase,
  type SqliteStatement,
} from 'kysely';
import pg from 'pg';

/*
 * Both drivers read values as written, by the types of the columns: numbers, booleans and JSON values arrive as such, and a null as an absent
 * member. So rows need no mapping.
 */

/** Whether a database is PostgreSQL, and not the embedded SQLite. */
export const isPostgres = (db: QueryExecutorProvider): boolean => db.getExecutor().adapter instanceof PostgresAdapter;

/** A database with any tables. */
// oxlint-disable-next-line typescript/no-explicit-any -- each service has its own
export type AnyDb = Kysely<any>;

/** A value as a driver takes it. PostgreSQL cannot store the character NUL, and texts of upstreams may have it. */
function toParameter(value: unknown): unknown {
  if (typeof value === 'string') return value.includes('\0') ? value.replaceAll('\0', '\uFFFD') : value;
  return typeof value === 'object' && value !== null && !Buffer.isBuffer(value) ? JSON.stringify(value) : value;
}

type StoredRow = Record<string, unknown>;

/** Removes the members that are null, and reads others in place. */
function readRow(row: StoredRow, readers: Readonly<Record<string, (value: never) => unknown>> = {}): StoredRow {
  const read: StoredRow = {};
  for (const name in row) {
    const value = row[name];
    if (value !== null) read[name] = readers[name]?.(value as never) ?? value;
  }
  return read;
}

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
  const prepared = new Map<string, SqliteStatement>();
  return {
    close: () => void database.close(),
    prepare: (text) => {
      let statement = prepared.get(text);
      if (!statement) {
        if (prepared.size >= MAX_STATEMENTS) prepared.delete(prepared.keys().next().value as string);
        statement = readingStatement(database.prepare(text));
        prepared.set(text, statement);
      }
      return statement;
    },
  };
}

/** SQLite has neither booleans nor JSON values; the declared types of the columns tell. */
const SQLITE_READERS: Readonly<Record<string, (value: never) => unknown>> = {
  boolean: (value: number) => value === 1,
  json_text: (value: string): unknown => JSON.parse(value),
};

function readingStatement(statement: Database.Statement): SqliteStatement {
  const sent = (parameters: readonly unknown[]) => {
    const values: unknown[] = [];
    // A loop, because an INSERT has thousands of parameters.
    for (const value of parameters) {
      if (typeof value === 'number') values.push(value);
      else if (typeof value === 'boolean') values.push(value ? 1 : 0);
      else if (value === undefined || value === null) values.push(null);
      else if (typeof value === 'string' && !value.includes('\0')) values.push(value);
      else values.push(toParameter(value));
    }
    return values;
  };
  const columns = statement.reader ? statement.columns() : [];
  const readers = Object.fromEntries(
    columns.flatMap(({ name, type }) => {
      const reader = SQLITE_READERS[type ?? ''];
      return reader ? [[name, reader]] : [];
    }),
  );
  return {
    reader: statement.reader,
    all: (parameters) => statement.all(...sent(parameters)).map((row) => readRow(row as StoredRow, readers)),
    run: (parameters) => statement.run(...sent(parameters)),
    iterate: () => {
      throw new Error('rows are not streamed');
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

/** Type of `bigint`. Values are instants, amounts and counts below 2^53. */
const BIGINT = pg.types.builtins.INT8;

function readingClient(client: pg.PoolClient): PostgresPoolClient {
  const query = async (text: string, parameters: readonly unknown[] = []) => {
    const result = await client.query<StoredRow>(text, parameters.map(toParameter));
    return { ...result, rows: result.rows.map((row) => readRow(row)) };
  };
  return Object.create(client, { query: { value: query } }) as PostgresPoolClient;
}

/** PostgreSQL, required for more than one replica. A hanging statement is aborted, and the caller repeats it. */
export function postgresDialect(url: string, login: PostgresLogin = { application: 'spec' }): Dialect {
  const pool = new pg.Pool({
    connectionString: withLogin(url, login),
    max: 4,
    connectionTimeoutMillis: 5_000,
    statement_timeout: 30_000,
    application_name: `toolfleet-${login.application}`,
    types: { getTypeParser: (type, format) => (type === BIGINT ? Number : pg.types.getTypeParser(type, format)) },
  });
  // A connection that breaks is replaced at its next use, and a statement that it runs fails. Without listeners the error would end
  // the process: the pool's hears of idle connections only, so that a server killed within a transaction needs the other one.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  const connect = async () => readingClient(await pool.connect());
  return new PostgresDialect({ pool: { options: pool.options, connect, end: () => pool.end() } });
}

/** The settings of a service's database. */
interface DatabaseSettings {
  DATABASE_DIR: string;
  DATABASE_URL?: string | undefined;
  DATABASE_PASSWORD?: string | undefined;
  DATABASE_TLS_CA?: string | undefined;
}

/** PostgreSQL if `DATABASE_URL` is set, else the embedded SQLite in `file`. */
export function serviceDialect(application: string, settings: DatabaseSettings): Dialect {
  const { DATABASE_URL: url, DATABASE_PASSWORD: password, DATABASE_TLS_CA: tlsCa } = settings;
  return url
    ? postgresDialect(url, { application, password, tlsCa })
    : sqliteDialect(join(settings.DATABASE_DIR, `${application}.db`));
}

/** The settings that may be wrong when the database cannot be opened. */
export function databaseSettings({ DATABASE_URL: url }: DatabaseSettings): string[] {
  return url ? ['DATABASE_URL', 'DATABASE_PASSWORD', 'DATABASE_TLS_CA'] : ['DATABASE_DIR'];
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
