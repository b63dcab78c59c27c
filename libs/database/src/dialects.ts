import { join } from 'node:path';
import {
  PostgresAdapter,
  PostgresDialect,
  type Dialect,
  type Kysely,
  type PostgresPoolClient,
  type QueryExecutorProvider,
} from 'kysely';
import pg from 'pg';
import { sqliteDialect } from './sqlite.js';
import { toParameter } from './parameters.js';

/*
 * Both drivers read values as written, by the types of the columns: numbers, booleans and JSON values arrive as such, and a null as an absent
 * member. So rows need no mapping.
 */

/** Whether a database is PostgreSQL, and not the embedded SQLite. */
export const isPostgres = (db: QueryExecutorProvider): boolean => db.getExecutor().adapter instanceof PostgresAdapter;

/** A database with any tables. */
// oxlint-disable-next-line typescript/no-explicit-any -- each service has its own
export type AnyDb = Kysely<any>;

type StoredRow = Record<string, unknown>;

/** Removes the members that are null. */
function readRow(row: StoredRow): StoredRow {
  const read: StoredRow = {};
  for (const name in row) if (row[name] !== null) read[name] = row[name];
  return read;
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
