import type { Compilable, CompiledQuery, QueryExecutorProvider, QueryResult } from 'kysely';
import type { AnyDb } from './dialects.js';
import type { TableDefinition } from './table.js';

/**
 * Rows per INSERT. Statements are compiled once per size, because building one costs more than running it. 64 rows of 45 columns stay far below
 * SQLite's limit of 32,766 parameters.
 */
const SIZES = [64, 8, 1] as const;

/** Divides rows into parts, each of the size of a statement. */
export function* inParts<T>(items: readonly T[]): Generator<T[]> {
  let start = 0;
  for (const size of SIZES) for (; items.length - start >= size; start += size) yield items.slice(start, start + size);
}

/** Inserts many rows of one table. */
export class BulkInsert {
  readonly #compiled = new Map<number, CompiledQuery>();
  readonly #columns: readonly string[];

  constructor(
    private readonly table: TableDefinition<object>,
    /** Rows that are stored already are skipped. */
    private readonly isRepeatable = false,
  ) {
    this.#columns = Object.keys(table.columns);
  }

  /** Inserts rows with the members of the table's columns; others are ignored. */
  async run(tx: AnyDb, rows: readonly Readonly<Record<string, unknown>>[]): Promise<void> {
    for (const part of inParts(rows)) {
      const parameters: unknown[] = [];
      for (const row of part) for (const column of this.#columns) parameters.push(row[column]);
      await tx.executeQuery({ ...this.#statement(tx, part.length), parameters });
    }
  }

  #statement(db: AnyDb, size: number): CompiledQuery {
    let compiled = this.#compiled.get(size);
    if (!compiled) {
      const example = Object.fromEntries(this.#columns.map((column) => [column, 0]));
      const insert = db.insertInto(this.table.name).values(Array.from({ length: size }, () => example));
      compiled = (this.isRepeatable ? insert.onConflict((conflict) => conflict.doNothing()) : insert).compile();
      this.#compiled.set(size, compiled);
    }
    return compiled;
  }
}

/** A statement that is compiled at its first run: building it costs more than running it. */
export class Prepared<Row = unknown> {
  #compiled: CompiledQuery<Row> | undefined;

  /** @param statement with any values in place of its parameters */
  constructor(private readonly statement: Compilable<Row>) {}

  /** @param parameters in their order in the statement */
  run(db: QueryExecutorProvider, parameters: readonly unknown[]): Promise<QueryResult<Row>> {
    this.#compiled ??= this.statement.compile();
    return db.getExecutor().executeQuery({ ...this.#compiled, parameters });
  }
}
