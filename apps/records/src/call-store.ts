import type { EpochMs } from '@toolfleet/contracts';
import type { FinishedCall, RecordsList, RecordsListReply, StoredCall } from '@toolfleet/contracts/records';
import { DAY_MS, DayPartitions, epochDay, migrate } from '@toolfleet/database';
import { Kysely, PostgresAdapter, sql, type CompiledQuery, type Dialect, type Transaction } from 'kysely';
import { RECORDS_MIGRATIONS } from './migrations.js';

/** Columns of `call_record`. PostgreSQL returns bigint as text, so values are converted where they are read. */
interface CallTable {
  position: number;
  call_id: string;
  parent_call_id: string | null;
  request_id: string | null;
  trace_id: string | null;
  idempotency_key: string | null;
  replay_of: string | null;
  tenant_id: string;
  user_id: string;
  key_id: string | null;
  agent_id: string | null;
  task_id: string | null;
  tool: string;
  revision: string | null;
  source: string | null;
  toolset: string | null;
  kind: string | null;
  door: string;
  origin: string;
  status: string;
  transport: string;
  protocol: string;
  tool_outcome: string;
  code: string | null;
  error: string | null;
  provenance: string | null;
  attempts: number;
  retried: string | null;
  ended_at: number;
  duration_ms: number;
  admit_ms: number;
  wait_ms: number;
  queue_ms: number;
  execute_ms: number;
  rest_ms: number;
  micro_usd: number;
  tokens: number;
}

interface RecordTables {
  call_record: CallTable;
  call_batch: { batch_id: string; stored_at: number };
}

/** A tenant, or one of its users with the keys that act for it. */
interface CallScope {
  tenantId: string;
  userId?: string | undefined;
  keyIds?: readonly string[] | undefined;
}

/** Positions are microseconds. */
const PER_MS = 1_000;
/** Any numbers that no other program uses for advisory locks in this database. */
const PARTITION_LOCK = 7_305_991_204_419;
const APPEND_LOCK = 7_305_991_204_420;
/** Rows per INSERT; statements are compiled once per size. 64 rows of 37 columns stay far below SQLite's limit of 32,766 parameters. */
const INSERT_SIZES = [64, 8, 1] as const;
/** Rows that one statement deletes: SQLite blocks the event loop for some tens of milliseconds. */
const DELETE_STEP = 5_000;
/** Matching calls that are counted. */
const MAX_COUNTED = 10_000;
/** A call is recorded soon after its end, by clocks that differ by less than this. */
const CLOCK_SKEW_MS = 60_000;

/**
 * The calls that ended, in the embedded SQLite or PostgreSQL with the same columns and portable SQL. Rows are appended and deleted,
 * never changed. Database failures reject.
 */
export class CallStore {
  readonly #db: Kysely<RecordTables>;
  readonly #partitions: DayPartitions | undefined;
  readonly #inserts = new Map<number, CompiledQuery>();

  constructor(dialect: Dialect) {
    this.#db = new Kysely<RecordTables>({ dialect });
    if (this.#db.getExecutor().adapter instanceof PostgresAdapter)
      this.#partitions = new DayPartitions(this.#db as unknown as Kysely<unknown>, {
        name: 'call_record',
        unitsPerDay: DAY_MS * PER_MS,
        lock: PARTITION_LOCK,
      });
  }

  /**
   * Runs the migrations that are new to the store.
   * @throws FatalStartupError when it needs a newer release
   */
  open(): Promise<void> {
    return migrate(this.#db as unknown as Kysely<unknown>, RECORDS_MIGRATIONS);
  }

  /**
   * Appends a batch and resolves once it is durable. A batch that is appended again changes nothing.
   *
   * Positions increase in the order in which batches become visible, also with several replicas, because they are given while a lock is
   * held until the commit. A reader that has seen a position misses nothing before it.
   * @param now the instant of recording
   * @returns false when the batch was stored before
   */
  async append(batchId: string, calls: readonly FinishedCall[], now: EpochMs): Promise<boolean> {
    // Tomorrow's as well, for a position that is later than this clock.
    await this.#partitions?.prepare(new Set([epochDay(now), epochDay(now) + 1]));
    return this.#db.transaction().execute(async (tx) => {
      if (this.#partitions) await sql`select pg_advisory_xact_lock(${APPEND_LOCK})`.execute(tx);
      const { numInsertedOrUpdatedRows: isNew } = await tx
        .insertInto('call_batch')
        .values({ batch_id: batchId, stored_at: now })
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirstOrThrow();
      if (!isNew) return false;
      const { last } = await tx
        .selectFrom('call_record')
        .select((row) => row.fn.max('position').as('last'))
        .executeTakeFirstOrThrow();
      const first = Math.max(now * PER_MS, Number(last ?? 0) + 1);
      await this.#insert(
        tx,
        calls.map((call, index) => toRow(call, first + index)),
      );
      return true;
    });
  }

  async #insert(tx: Transaction<RecordTables>, rows: readonly CallTable[]): Promise<void> {
    let start = 0;
    for (const size of INSERT_SIZES) {
      for (; rows.length - start >= size; start += size) {
        const parameters = rows.slice(start, start + size).flatMap((row) => Object.values(row));
        await tx.executeQuery({ ...this.#insertStatement(size, rows[0]!), parameters });
      }
    }
  }

  #insertStatement(size: number, example: CallTable): CompiledQuery {
    let compiled = this.#inserts.get(size);
    if (!compiled) {
      const values = Array.from({ length: size }, () => example);
      this.#inserts.set(size, (compiled = this.#db.insertInto('call_record').values(values).compile()));
    }
    return compiled;
  }

  /** The calls that match, and on request how many there are. */
  async list(query: RecordsList): Promise<RecordsListReply> {
    const isForward = query.after !== undefined;
    const rows = await this.#matching(query)
      .selectAll()
      .orderBy('position', isForward ? 'asc' : 'desc')
      .limit(query.limit)
      .execute();
    const calls = (isForward ? rows : rows.toReversed()).map(toCall);
    return query.counts ? { calls, counts: await this.#count(query) } : { calls };
  }

  async #count({ after: _after, before: _before, ...query }: RecordsList): Promise<RecordsListReply['counts']> {
    const newest = this.#matching(query)
      .select('status')
      .orderBy('position', 'desc')
      .limit(MAX_COUNTED + 1);
    const rows = await this.#db
      .selectFrom(newest.as('newest'))
      .select(['status', sql<number>`count(*)`.as('calls')])
      .groupBy('status')
      .execute();
    const by_status = Object.fromEntries(rows.map(({ status, calls }) => [status, Number(calls)]));
    const counted = Object.values(by_status).reduce((sum, calls) => sum + calls, 0);
    return { by_status, complete: counted <= MAX_COUNTED };
  }

  #matching(query: RecordsList) {
    let select = this.#db.selectFrom('call_record');
    const equal = {
      tenant_id: query.tenant_id,
      parent_call_id: query.parent_call_id,
      tool: query.tool,
      source: query.source,
      user_id: query.user_id,
      key_id: query.key_id,
      agent_id: query.agent_id,
      code: query.code,
    } as const;
    for (const [column, value] of Object.entries(equal) as [keyof typeof equal, string | undefined][])
      if (value !== undefined) select = select.where(column, '=', value);
    if (query.call_id !== undefined)
      select = select.where('call_id', '>=', query.call_id).where('call_id', '<', `${query.call_id}\u{10ffff}`);
    if (query.after !== undefined) select = select.where('position', '>', Number(query.after));
    if (query.before !== undefined) select = select.where('position', '<', Number(query.before));
    if (query.from !== undefined)
      select = select
        .where('ended_at', '>=', query.from)
        // Not earlier than it ended, so that older partitions are not read.
        .where('position', '>=', (query.from - CLOCK_SKEW_MS) * PER_MS);
    if (query.to !== undefined) select = select.where('ended_at', '<', query.to);
    if (query.min_duration_ms !== undefined) select = select.where('duration_ms', '>=', query.min_duration_ms);
    if (query.min_micro_usd !== undefined) select = select.where('micro_usd', '>=', query.min_micro_usd);
    if (query.status !== undefined) {
      select = select.where('status', 'in', query.status);
      // Lets the partial index serve it.
      if (!query.status.includes('success')) select = select.where('status', '<>', sql.lit('success'));
    }
    return select;
  }

  /** Number of calls of a tenant or user. */
  async count(scope: CallScope): Promise<number> {
    const { calls } = await this.#db
      .selectFrom('call_record')
      .select(sql<number>`count(*)`.as('calls'))
      .where(belongsTo(scope))
      .executeTakeFirstOrThrow();
    return Number(calls);
  }

  /** Deletes some calls of a tenant or user, the oldest first. @returns how many, and whether some are left */
  async erase(scope: CallScope): Promise<{ rows: number; more: boolean }> {
    const rows = await this.#deleteWhere(belongsTo(scope));
    return { rows, more: rows === DELETE_STEP };
  }

  /** Deletes what was recorded before `at`, of one tenant or of all except some. @returns the number of calls */
  async eraseBefore(at: EpochMs, tenants: { only: string } | { except: readonly string[] }): Promise<number> {
    const position = at * PER_MS;
    let erased = 0;
    const others =
      'only' in tenants
        ? sql<boolean>`tenant_id = ${tenants.only}`
        : tenants.except.length === 0
          ? sql<boolean>`1 = 1`
          : sql<boolean>`tenant_id not in (${sql.join(tenants.except)})`;
    for (let rows = DELETE_STEP; rows === DELETE_STEP; erased += rows) {
      rows = await this.#deleteWhere(sql<boolean>`position < ${position} and ${others}`);
      await new Promise((resolve) => setImmediate(resolve));
    }
    return erased;
  }

  /** Drops the partitions of days before that of `at`, whatever they hold. PostgreSQL only. */
  async dropBefore(at: EpochMs): Promise<number> {
    return (await this.#partitions?.dropBefore(epochDay(at))) ?? 0;
  }

  /** Forgets batches that were stored before `at`; they are not delivered again. */
  async forgetBatches(at: EpochMs): Promise<void> {
    await this.#db.deleteFrom('call_batch').where('stored_at', '<', at).execute();
  }

  async #deleteWhere(condition: ReturnType<typeof belongsTo>): Promise<number> {
    const oldest = this.#db
      .selectFrom('call_record')
      .select('position')
      .where(condition)
      .orderBy('position')
      .limit(DELETE_STEP);
    const { numDeletedRows } = await this.#db
      .deleteFrom('call_record')
      .where('position', 'in', oldest)
      .executeTakeFirstOrThrow();
    return Number(numDeletedRows);
  }

  async close(): Promise<void> {
    await this.#db.destroy();
  }
}

function belongsTo({ tenantId, userId, keyIds = [] }: CallScope) {
  if (userId === undefined) return sql<boolean>`tenant_id = ${tenantId}`;
  if (keyIds.length === 0) return sql<boolean>`tenant_id = ${tenantId} and user_id = ${userId}`;
  return sql<boolean>`tenant_id = ${tenantId} and (user_id = ${userId} or key_id in (${sql.join(keyIds)}))`;
}

/** A stored row, with all keys always in the same order: INSERT statements are compiled once. */
function toRow(call: FinishedCall, position: number): CallTable {
  return {
    position,
    call_id: call.call_id,
    parent_call_id: call.parent_call_id ?? null,
    request_id: call.request_id ?? null,
    trace_id: call.trace_id ?? null,
    idempotency_key: call.idempotency_key ?? null,
    replay_of: call.replay_of ?? null,
    tenant_id: call.tenant_id,
    user_id: call.user_id,
    key_id: call.key_id ?? null,
    agent_id: call.agent_id ?? null,
    task_id: call.task_id ?? null,
    tool: call.tool,
    revision: call.revision ?? null,
    source: call.source ?? null,
    toolset: call.toolset ?? null,
    kind: call.kind ?? null,
    door: call.door,
    origin: call.origin,
    status: call.status,
    transport: call.outcomes.transport,
    protocol: call.outcomes.protocol,
    tool_outcome: call.outcomes.tool,
    code: call.code ?? null,
    error: call.error ?? null,
    provenance: call.provenance ?? null,
    attempts: call.attempts,
    retried: call.retried ? JSON.stringify(call.retried) : null,
    ended_at: call.ended_at,
    duration_ms: call.duration_ms,
    ...call.stages,
    micro_usd: call.micro_usd,
    tokens: call.tokens,
  };
}

function toCall(row: CallTable): StoredCall {
  const { position, transport, protocol, tool_outcome: tool, retried, ...columns } = row;
  const { admit_ms, wait_ms, queue_ms, execute_ms, rest_ms, ended_at, micro_usd, tokens, ...same } = columns;
  const known = Object.fromEntries(Object.entries(same).filter(([, value]) => value !== null));
  return {
    ...(known as unknown as FinishedCall),
    cursor: String(position),
    outcomes: { transport, protocol, tool } as FinishedCall['outcomes'],
    ...(retried !== null && { retried: JSON.parse(retried) as NonNullable<FinishedCall['retried']> }),
    ended_at: Number(ended_at),
    stages: { admit_ms, wait_ms, queue_ms, execute_ms, rest_ms },
    micro_usd: Number(micro_usd),
    tokens: Number(tokens),
  };
}
