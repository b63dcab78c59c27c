/** The program of the thread that owns a SQLite file, its `workerData`. It runs statements one by one and replies to each. */
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import Database from 'better-sqlite3';

/** A statement with its parameters as SQLite takes them; `close` is the last. */
export type SqliteRequest = { sql: string; parameters: readonly unknown[] } | 'close';

/** Rows as they are stored, the number of changed ones, or what SQLite says against it. */
export type SqliteReply =
  | { columns: readonly { name: string; type: string | null }[]; rows: unknown[][] }
  | { changes: number }
  | { error: Error; code: string | undefined };

/** Prepared statements to keep. The service uses a handful, and reports with filters some more. */
const MAX_STATEMENTS = 64;

const port = parentPort!;
const prepared = new Map<string, Database.Statement>();
let database: Database.Database | undefined;

function open(file: string): Database.Database {
  if (file !== ':memory:') mkdirSync(dirname(file), { recursive: true });
  const opened = new Database(file);
  opened.pragma('journal_mode = WAL');
  opened.pragma('synchronous = FULL');
  opened.pragma('busy_timeout = 5000');
  return opened;
}

/** Prepares each statement once, because parsing an INSERT of 64 rows costs about as much as running it. */
function prepare(text: string): Database.Statement {
  let statement = prepared.get(text);
  if (!statement) {
    database ??= open(workerData as string);
    if (prepared.size >= MAX_STATEMENTS) prepared.delete(prepared.keys().next().value as string);
    statement = database.prepare(text);
    if (statement.reader) statement.raw();
    prepared.set(text, statement);
  }
  return statement;
}

function run({ sql, parameters }: Exclude<SqliteRequest, 'close'>): SqliteReply {
  try {
    const statement = prepare(sql);
    if (!statement.reader) return { changes: statement.run(...parameters).changes };
    const columns = statement.columns().map(({ name, type }) => ({ name, type }));
    return { columns, rows: statement.all(...parameters) as unknown[][] };
  } catch (error) {
    // The copy of an error that is sent loses its code.
    return { error: error as Error, code: (error as { code?: string }).code };
  }
}

port.on('message', (request: SqliteRequest) => {
  if (request !== 'close') return port.postMessage(run(request));
  database?.close();
  port.postMessage({ changes: 0 } satisfies SqliteReply);
  port.close();
});
