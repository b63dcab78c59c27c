import { sql, type ColumnType, type Generated } from 'kysely';
import { isPostgres, type AnyDb } from './dialects.js';

declare const TYPE: unique symbol;

/** A column with values of the type `T`; the drivers give them back as stored (`dialects.ts`). */
export interface Column<T> {
  readonly sqlite: string;
  readonly postgres: string;
  readonly isNullable?: true;
  readonly [TYPE]?: T;
}

const column = <T>(sqlite: string, postgres = sqlite): Column<T> => ({ sqlite, postgres });

export const text = column<string>('text');
/** A text that indexes find by its start. */
export const prefixedText = column<string>('text', 'text collate "C"');
/** A text of a union. */
export const oneOf = <T extends string>(): Column<T> => text as Column<T>;
/** Exact up to 2^53; for instants, amounts and positions. */
export const integer = column<number>('integer', 'bigint');
export const real = column<number>('double precision');
export const flag = column<boolean>('boolean');
export const bytes = column<Buffer>('blob', 'bytea');
/** A number that the database gives. */
export const serial = column<Generated<number>>('integer', 'bigserial');
/** Any JSON value. Databases do not compare it. */
export const json = <T>(): Column<T> => column('json_text', 'json');
/** A column that may be null: the member of a row is absent then, and `undefined` when it is inserted. */
export const maybe = <T>(of: Column<T>): Column<ColumnType<T | undefined, T | null | undefined, T | null>> =>
  ({ ...of, isNullable: true }) as Column<never>;
/** Several columns of one kind. */
export const each = <T, Name extends string>(of: Column<T>, ...names: Name[]): Record<Name, Column<T>> =>
  Object.fromEntries(names.map((name) => [name, of])) as Record<Name, Column<T>>;

interface TableOptions<Name extends string> {
  /** Columns of the primary key; default: the first column. None: rows may be equal. */
  readonly key?: readonly Name[];
  /** PostgreSQL partitions by ranges of this column, and adds it to the key. */
  readonly partitionBy?: Name;
  /** By name: columns, and a condition in SQL for a partial index. */
  readonly indexes?: { readonly [name: string]: { on: readonly Name[]; where?: string; unique?: true } };
}

/** A table, each column of which is declared once: its type in both databases and in TypeScript. */
export interface TableDefinition<Columns> {
  readonly name: string;
  readonly columns: Columns;
  readonly options: TableOptions<string>;
}

/** Declares a table. @param name as in SQL; an index is called `<table>_<index>` */
export function table<Columns extends Record<string, Column<unknown>>>(
  name: string,
  columns: Columns,
  options: TableOptions<keyof Columns & string> = {},
): TableDefinition<Columns> {
  return { name, columns, options };
}

/** Columns of a table for Kysely. `Selectable` of it is a row. */
type ColumnsOf<T> =
  T extends TableDefinition<infer Columns>
    ? { [Name in keyof Columns]: Columns[Name] extends Column<infer V> ? V : never }
    : never;

/** The tables of a database for Kysely, by name. */
export type TablesOf<Tables extends Record<string, TableDefinition<object>>> = {
  [Name in keyof Tables]: ColumnsOf<Tables[Name]>;
};

/** Creates tables with their indexes. */
export async function createTables(db: AnyDb, tables: readonly TableDefinition<object>[]): Promise<void> {
  const of = isPostgres(db) ? 'postgres' : 'sqlite';
  for (const { name, columns, options } of tables) {
    const { partitionBy, indexes = {}, key = Object.keys(columns).slice(0, 1) } = options;
    const isPartitioned = partitionBy !== undefined && of === 'postgres';
    let create = db.schema.createTable(name);
    for (const [label, { [of]: type, isNullable }] of Object.entries(columns as Record<string, Column<unknown>>))
      create = create.addColumn(label, sql.raw(type), (made) => (isNullable ? made : made.notNull()));
    const whole = isPartitioned ? [...new Set([...key, partitionBy])] : key;
    if (key.length > 0) create = create.addPrimaryKeyConstraint(`${name}_pk`, whole as never);
    await (isPartitioned ? create.modifyEnd(sql`partition by range (${sql.ref(partitionBy)})`) : create).execute();
    for (const [index, { on, where, unique }] of Object.entries(indexes)) {
      let made = db.schema
        .createIndex(`${name}_${index}`)
        .on(name)
        .columns([...on]);
      if (unique) made = made.unique();
      if (where !== undefined) made = made.where(sql<boolean>`${sql.raw(where)}`);
      await made.execute();
    }
  }
}
