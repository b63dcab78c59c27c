import { sql, type Kysely, type Transaction } from 'kysely';
import { DAY_MS, epochDay } from './limits.js';

/**
 * Where the rows of old days go: their sums to `usage_daily`, and the rows away. In PostgreSQL `token_usage` has a partition per UTC
 * day of the charge, which is dropped whole; the embedded SQLite has no partitions and deletes rows in small steps.
 */
export abstract class LedgerDays {
  /** Makes room for the rows of these days; must be called before they are inserted. */
  abstract prepare(days: ReadonlySet<number>): Promise<void>;

  /**
   * Replaces the rows of all days before `day` (days since 1970-01-01 UTC) by sums per tenant, day, tool, user and agent. Rows and
   * sums change in one transaction, so that a report never counts a call twice or not at all. May be interrupted and repeated.
   * @returns the number of rows replaced
   */
  abstract rollUpBefore(day: number): Promise<number>;
}

const SUMS =
  sql.raw(`tenant_id, min(charged_at) - min(charged_at) % ${DAY_MS}, day, tool_name, user_id, caller_agent_id,
  cast(sum(case when parent_call_id is null then 1 else 0 end) as bigint), cast(sum(total_tokens) as bigint),
  cast(sum(real_tokens) as bigint), cast(sum(micro_usd) as bigint)`);
const GROUPS = sql.raw('tenant_id, day, tool_name, user_id, caller_agent_id');
const SUM_COLUMNS = sql.raw(
  'usage_daily (tenant_id, charged_at, day, tool_name, user_id, caller_agent_id, calls, total_tokens, real_tokens, micro_usd)',
);

/** Rows that SQLite moves in one transaction: it blocks the event loop for some tens of milliseconds. */
const SQLITE_STEP = 5_000;

/** Deletion by day in the embedded SQLite. One process owns it, so that nothing else writes meanwhile. */
export class DeletedDays extends LedgerDays {
  constructor(private readonly db: Kysely<unknown>) {
    super();
  }

  override async prepare(): Promise<void> {}

  override async rollUpBefore(day: number): Promise<number> {
    const oldest = sql`select rowid from token_usage where charged_at < ${day * DAY_MS} order by charged_at limit ${SQLITE_STEP}`;
    for (let moved = 0; ;) {
      const step = await this.db.transaction().execute(async (tx) => {
        await sql`insert into ${SUM_COLUMNS} select ${SUMS} from token_usage where rowid in (${oldest}) group by ${GROUPS}`.execute(
          tx,
        );
        return sql`delete from token_usage where rowid in (${oldest})`.execute(tx);
      });
      const rows = Number(step.numAffectedRows ?? 0n);
      moved += rows;
      if (rows < SQLITE_STEP) return moved;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

/** Any number that no other program uses for advisory locks in this database. */
const LOCK = 7_305_991_204_417;
const PARTITION = 'token_usage_';

/** Partitions by day in PostgreSQL. Several replicas may call it at once; an advisory lock lets one of them change partitions. */
export class PartitionedDays extends LedgerDays {
  private readonly known = new Set<number>();

  constructor(private readonly db: Kysely<unknown>) {
    super();
  }

  override async prepare(days: ReadonlySet<number>): Promise<void> {
    const unknown = [...days].filter((day) => !this.known.has(day));
    if (unknown.length === 0) return;
    await this.change(async (tx) => {
      const names = await partitions(tx);
      for (const day of unknown) {
        const name = PARTITION + dayName(day);
        if (names.has(name)) continue;
        // Attaching, unlike CREATE TABLE … PARTITION OF, does not wait for reports and inserts that use the table.
        await sql.raw(`create table ${name} (like token_usage including all)`).execute(tx);
        const bounds = `from (${day * DAY_MS}) to (${(day + 1) * DAY_MS})`;
        await sql.raw(`alter table token_usage attach partition ${name} for values ${bounds}`).execute(tx);
      }
    });
    for (const day of unknown) this.known.add(day);
  }

  override async rollUpBefore(day: number): Promise<number> {
    // Another replica may have dropped partitions, and rows of their days may still come.
    this.known.clear();
    let moved = 0;
    for (const name of [...(await partitions(this.db))].toSorted())
      if (parseDay(name.slice(PARTITION.length)) < day) moved += await this.dropDay(name);
    return moved;
  }

  /** Sums the rows of a partition and drops it. Rows that arrive meanwhile wait, are refused, and come again from the outbox. */
  private dropDay(name: string): Promise<number> {
    return this.change(async (tx) => {
      if (!(await partitions(tx)).has(name)) return 0;
      await sql.raw(`lock table ${name} in access exclusive mode`).execute(tx);
      const found = await sql<{ rows: string }>`select count(*) as rows from ${sql.table(name)}`.execute(tx);
      await sql`insert into ${SUM_COLUMNS} select ${SUMS} from ${sql.table(name)} group by ${GROUPS}`.execute(tx);
      await sql.raw(`drop table ${name}`).execute(tx);
      return Number(found.rows[0]?.rows ?? 0);
    });
  }

  /** One change of partitions. It gives up when a long report holds the table, because everything else would wait behind it. */
  private change<T>(work: (tx: Transaction<unknown>) => Promise<T>): Promise<T> {
    return this.db.transaction().execute(async (tx) => {
      await sql`set local lock_timeout = '5s'`.execute(tx);
      await sql`set local statement_timeout = '10min'`.execute(tx);
      await sql`select pg_advisory_xact_lock(${LOCK})`.execute(tx);
      return work(tx);
    });
  }
}

/** Names of the partitions. */
async function partitions(db: Kysely<unknown>): Promise<Set<string>> {
  const { rows } = await sql<{ name: string }>`select child.relname as name from pg_inherits
    join pg_class child on child.oid = inhrelid where inhparent = 'token_usage'::regclass`.execute(db);
  return new Set(rows.map((row) => row.name));
}

/** Day as in the names of partitions: `20261121`. */
function dayName(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10).replaceAll('-', '');
}

function parseDay(name: string): number {
  const date = `${name.slice(0, 4)}-${name.slice(4, 6)}-${name.slice(6, 8)}`;
  return epochDay(Date.parse(`${date}T00:00:00Z`));
}
