import { DAY_MS, DayPartitions, isPostgres } from '@toolfleet/database';
import { sql } from 'kysely';
import type { LedgerDb } from './ledger-tables.js';

const SUMS =
  sql.raw(`tenant_id, min(charged_at) - min(charged_at) % ${DAY_MS}, day, tool_name, user_id, caller_agent_id, key_id, source,
  cast(sum(case when parent_call_id is null then 1 else 0 end) as bigint), cast(sum(total_tokens) as bigint),
  cast(sum(real_tokens) as bigint), cast(sum(micro_usd) as bigint)`);
const GROUPS = sql.raw('tenant_id, day, tool_name, user_id, caller_agent_id, key_id, source');
const SUM_COLUMNS = sql.raw(
  'usage_daily (tenant_id, charged_at, day, tool_name, user_id, caller_agent_id, key_id, source, calls, total_tokens, real_tokens, micro_usd)',
);

/** Rows that SQLite moves in one transaction: it blocks the event loop for some tens of milliseconds. */
const SQLITE_STEP = 5_000;

/**
 * Where the rows of old days go: their sums to `usage_daily`, and the rows away. In PostgreSQL `token_usage` has a partition per UTC
 * day of the charge, dropped whole; the embedded SQLite has no partitions and deletes rows in small steps.
 */
export class LedgerDays {
  readonly #partitions: DayPartitions | undefined;

  constructor(private readonly db: LedgerDb) {
    const table = { name: 'token_usage', unitsPerDay: DAY_MS, lock: 7_305_991_204_417 };
    this.#partitions = isPostgres(db) ? new DayPartitions(db, table) : undefined;
  }

  /** Makes room for the rows of these days; must be called before they are inserted. */
  async prepare(days: ReadonlySet<number>): Promise<void> {
    await this.#partitions?.prepare(days);
  }

  /**
   * Replaces the rows of all days before `day` (days since 1970-01-01 UTC) by sums per tenant, day, tool, user, agent, key and source. Rows and
   * sums change in one transaction, so that a report never counts a call twice or not at all. May be interrupted and repeated.
   * @returns the number of rows replaced
   */
  rollUpBefore(day: number): Promise<number> {
    if (!this.#partitions) return this.#deleteBefore(day);
    return this.#partitions.dropBefore(day, (partition, tx) =>
      sql`insert into ${SUM_COLUMNS} select ${SUMS} from ${sql.table(partition)} group by ${GROUPS}`.execute(tx),
    );
  }

  /** One process owns the embedded SQLite, so that nothing else writes meanwhile. */
  async #deleteBefore(day: number): Promise<number> {
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
