import { sql } from 'kysely';
import type { AnyDb } from './dialects.js';

/** A day in ms. */
export const DAY_MS = 86_400_000;

/** Day of an instant, counted from 1970-01-01 UTC. */
export const epochDay = (at: number): number => Math.floor(at / DAY_MS);

/** A table that is partitioned by ranges of a day. */
interface PartitionedTable {
  name: string;
  /** Length of a day in units of the column that is partitioned by. */
  unitsPerDay: number;
  /** Any number that no other program uses for advisory locks in this database. */
  lock: number;
}

/**
 * Partitions by UTC day in PostgreSQL, made when they are needed and dropped whole. Several replicas may call it at once; an advisory
 * lock lets one of them change partitions.
 */
export class DayPartitions {
  readonly #known = new Set<number>();

  constructor(
    private readonly db: AnyDb,
    private readonly table: PartitionedTable,
  ) {}

  /** Makes room for the rows of these days; must be called before they are inserted. */
  async prepare(days: ReadonlySet<number>): Promise<void> {
    const unknown = [...days].filter((day) => !this.#known.has(day));
    if (unknown.length === 0) return;
    const { name: table, unitsPerDay } = this.table;
    await this.#change(async (tx) => {
      const names = await this.#names(tx);
      for (const day of unknown) {
        const name = `${table}_${dayName(day)}`;
        if (names.has(name)) continue;
        // Attaching, unlike CREATE TABLE … PARTITION OF, does not wait for reports and inserts that use the table.
        await sql.raw(`create table ${name} (like ${table} including all)`).execute(tx);
        const bounds = `from (${day * unitsPerDay}) to (${(day + 1) * unitsPerDay})`;
        await sql.raw(`alter table ${table} attach partition ${name} for values ${bounds}`).execute(tx);
      }
    });
    for (const day of unknown) this.#known.add(day);
  }

  /**
   * Drops the partitions of all days before `day`, each in a transaction in which nothing else changes it. `keep` runs first there and
   * may copy rows. Rows that arrive meanwhile wait, are refused, and have to be sent again.
   * @returns the number of rows dropped
   */
  async dropBefore(day: number, keep?: (partition: string, tx: AnyDb) => Promise<unknown>): Promise<number> {
    // Another replica may have dropped partitions, and rows of their days may still come.
    this.#known.clear();
    let dropped = 0;
    for (const name of [...(await this.#names(this.db))].toSorted())
      if (parseDay(name.slice(-'20261121'.length)) < day) dropped += await this.#drop(name, keep);
    return dropped;
  }

  #drop(name: string, keep?: (partition: string, tx: AnyDb) => Promise<unknown>): Promise<number> {
    return this.#change(async (tx) => {
      if (!(await this.#names(tx)).has(name)) return 0;
      await sql.raw(`lock table ${name} in access exclusive mode`).execute(tx);
      const found = await sql<{ rows: number }>`select count(*) as rows from ${sql.table(name)}`.execute(tx);
      await keep?.(name, tx);
      await sql.raw(`drop table ${name}`).execute(tx);
      return found.rows[0]?.rows ?? 0;
    });
  }

  /** One change of partitions. It gives up when a long report holds the table, because everything else would wait behind it. */
  #change<T>(work: (tx: AnyDb) => Promise<T>): Promise<T> {
    return this.db.transaction().execute(async (tx) => {
      await sql`set local lock_timeout = '5s'`.execute(tx);
      await sql`set local statement_timeout = '10min'`.execute(tx);
      await sql`select pg_advisory_xact_lock(${this.table.lock})`.execute(tx);
      return work(tx);
    });
  }

  async #names(db: AnyDb): Promise<Set<string>> {
    const { rows } = await sql<{ name: string }>`select child.relname as name from pg_inherits
      join pg_class child on child.oid = inhrelid where inhparent = ${this.table.name}::regclass`.execute(db);
    return new Set(rows.map((row) => row.name));
  }
}

/** Day as in the names of partitions: `20261121`. */
function dayName(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10).replaceAll('-', '');
}

function parseDay(name: string): number {
  const date = `${name.slice(0, 4)}-${name.slice(4, 6)}-${name.slice(6, 8)}`;
  return epochDay(Date.parse(`${date}T00:00:00Z`));
}
