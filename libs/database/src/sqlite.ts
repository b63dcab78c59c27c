import { Worker } from 'node:worker_threads';
import { childProgram, programFlags } from '@toolfleet/resilience/child-pool';
import {
  CompiledQuery,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
} from 'kysely';
import { toParameter } from './parameters.js';
import type { SqliteReply, SqliteRequest } from './sqlite-thread.js';

/** The embedded SQLite, owned by one process. With WAL and synchronous=FULL, a committed row survives a power failure. */
export function sqliteDialect(file: string): Dialect {
  return {
    createDriver: () => new SqliteThread(file),
    createQueryCompiler: () => new SqliteQueryCompiler(),
    createAdapter: () => new SqliteAdapter(),
    createIntrospector: (db) => new SqliteIntrospector(db),
  };
}

/**
 * The one connection to a file, in a thread of its own: neither a slow disk nor a sum over a million rows delays the calls of this process.
 * Kysely sends one statement after the other; only the end may come while one runs.
 */
class SqliteThread implements Driver, DatabaseConnection {
  #worker: Worker | undefined;
  /** Of the statements that were sent, in their order. */
  readonly #replies: PromiseWithResolvers<SqliteReply>[] = [];

  constructor(private readonly file: string) {}

  init(): Promise<void> {
    return Promise.resolve();
  }

  acquireConnection(): Promise<DatabaseConnection> {
    return Promise.resolve(this);
  }

  async beginTransaction(): Promise<void> {
    await this.executeQuery(CompiledQuery.raw('begin'));
  }

  async commitTransaction(): Promise<void> {
    await this.executeQuery(CompiledQuery.raw('commit'));
  }

  async rollbackTransaction(): Promise<void> {
    await this.executeQuery(CompiledQuery.raw('rollback'));
  }

  releaseConnection(): Promise<void> {
    return Promise.resolve();
  }

  async destroy(): Promise<void> {
    if (!this.#worker) return;
    const closed = this.#ask('close', []);
    this.#worker = undefined;
    await closed;
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const moved: ArrayBuffer[] = [];
    const reply = await this.#ask({ sql, parameters: toValues(parameters, moved) }, moved);
    if ('error' in reply) throw Object.assign(reply.error, reply.code !== undefined && { code: reply.code });
    if ('changes' in reply) return { rows: [], numAffectedRows: BigInt(reply.changes) };
    return { rows: readRows(reply) as R[] };
  }

  streamQuery(): never {
    throw new Error('rows are not streamed');
  }

  #ask(request: SqliteRequest, moved: ArrayBuffer[]): Promise<SqliteReply> {
    const worker = (this.#worker ??= this.#start());
    worker.postMessage(request, moved);
    const reply = Promise.withResolvers<SqliteReply>();
    this.#replies.push(reply);
    // A process that ends waits for what it writes, and not for an idle thread.
    worker.ref();
    return reply.promise;
  }

  #start(): Worker {
    const program = childProgram(import.meta.url, 'sqlite-thread');
    const worker = new Worker(program, { workerData: this.file, execArgv: programFlags(program) });
    // A fault of the thread itself ends the process, as one of SQLite's own code would.
    return worker.on('message', (reply: SqliteReply) => {
      this.#replies.shift()?.resolve(reply);
      if (this.#replies.length === 0) worker.unref();
    });
  }
}

/** Values as SQLite takes them; it has no booleans. @param moved gets the memory of binary values, which the thread takes over */
function toValues(parameters: readonly unknown[], moved: ArrayBuffer[]): unknown[] {
  const values: unknown[] = [];
  // An INSERT has thousands of parameters, nearly all of them numbers and texts.
  for (const value of parameters) {
    if (typeof value === 'number') values.push(value);
    else if (typeof value === 'boolean') values.push(value ? 1 : 0);
    else if (value === undefined || value === null) values.push(null);
    else if (value instanceof Uint8Array) {
      // Else the memory that it shares with others would be copied as well.
      const bytes = new Uint8Array(value);
      moved.push(bytes.buffer);
      values.push(bytes);
    } else if (typeof value === 'string' && !value.includes('\0')) values.push(value);
    else values.push(toParameter(value));
  }
  return values;
}

/** SQLite has neither booleans nor JSON values; the declared types of the columns tell. It writes its own types in capitals. */
const READERS: Readonly<Record<string, (value: never) => unknown>> = {
  boolean: (value: number) => value === 1,
  json_text: (value: string): unknown => JSON.parse(value),
  BLOB: ({ buffer, byteOffset, byteLength }: Uint8Array) => Buffer.from(buffer, byteOffset, byteLength),
};

/** Members that are null are absent. */
function readRows({ columns, rows }: Extract<SqliteReply, { rows: unknown }>): Record<string, unknown>[] {
  const readers = columns.map(({ type }) => READERS[type ?? '']);
  return rows.map((values) => {
    const row: Record<string, unknown> = {};
    for (const [index, { name }] of columns.entries()) {
      const value = values[index];
      if (value !== null) row[name] = readers[index]?.(value as never) ?? value;
    }
    return row;
  });
}
