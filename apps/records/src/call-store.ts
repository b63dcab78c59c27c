import { DEFAULT_QUOTAS, type Quotas } from '@toolfleet/contracts/account';
import { ToolError, type EpochMs } from '@toolfleet/contracts';
import {
  MAX_RECORDING_MS,
  type CallGroup,
  type CallGroups,
  type FinishedCall,
  type RecordsFacts,
  type RecordsFactsReply,
  type RecordsList,
  type RecordsListReply,
  type StoredCall,
} from '@toolfleet/contracts/records';
import {
  BulkInsert,
  DAY_MS,
  DayPartitions,
  epochDay,
  isPostgres,
  migrate,
  ofOwner,
  ofTenants,
  Prepared,
  type Owner,
  type Tenants,
} from '@toolfleet/database';
import { Kysely, sql, type Dialect, type RawBuilder } from 'kysely';
import { ApprovalStore } from './approval-store.js';
import { BodyStore } from './body-store.js';
import { CallSums } from './call-sums.js';
import { DeliveryQueue } from './delivery-queue.js';
import { FactRows } from './fact-rows.js';
import { ApprovalGrantStore } from './approval-grant-store.js';
import { EventStore, type StoredEvents } from './event-store.js';
import { CALLS, RECORDS_MIGRATIONS, type RecordsDb, type RecordTables, type RecordsRow } from './tables.js';
import { WebhookEndpoints } from './webhook-endpoints.js';

type CallRow = RecordsRow<'call_record'>;

/** The message of failures of the store. */
export const STORE_UNAVAILABLE = 'The store of calls is unavailable; retry later';

/** Positions are microseconds. */
const PER_MS = 1_000;
/** Any numbers that no other program uses for advisory locks in this database. */
const PARTITION_LOCK = 7_305_991_204_419;
const APPEND_LOCK = 7_305_991_204_420;
const BODY_PARTITION_LOCK = 7_305_991_204_421;
/** Rows that one statement searches or deletes. SQLite blocks the event loop meanwhile: some milliseconds, or tens of them. */
const STRETCH = 5_000;
/** Groups of calls beyond which no older calls are summed. A stretch may add as many as it has calls. */
const MAX_GROUPS = 5_000;
/** Clocks of gateways and of this service differ by less than this. */
const CLOCK_SKEW_MS = 60_000;
/** Characters of an id that few calls begin with. */
const SELECTIVE_ID = 8;

/** A stretch of the store: the first position in it, and the first after it. */
interface PositionRange {
  from: number;
  to: number;
}
const EVERYTHING: PositionRange = { from: 0, to: Number.MAX_SAFE_INTEGER };

/** Asked between two stretches: whether the work must end, so that the next request does the rest. */
type IsOver = () => boolean;

/**
 * The calls that ended, in the embedded SQLite or PostgreSQL with the same columns and portable SQL. Rows are appended and deleted,
 * never changed. Database failures reject.
 */
export class RecordedCallStore {
  readonly #db: RecordsDb;
  /** Arguments and results of the calls, in the same database. */
  readonly bodies: BodyStore;
  /** Calls that people decide on, in the same database. */
  readonly approvals: ApprovalStore;
  /** What people allow besides them. */
  readonly grants: ApprovalGrantStore;
  /** Events, the endpoints that receive them, and deliveries, in the same database. */
  readonly events: EventStore;
  readonly webhooks: WebhookEndpoints;
  readonly deliveries: DeliveryQueue;
  /** Of calls and of their bodies; none on SQLite. */
  readonly #partitions: readonly DayPartitions[];
  readonly #calls = new BulkInsert(CALLS);
  readonly #newBatch: Prepared;
  readonly #last: Prepared<{ last?: number }>;

  /** @param secretKey seals arguments, results and secrets of webhooks; absent: none of them are kept */
  constructor(dialect: Dialect, secretKey?: string, quotas: Quotas = DEFAULT_QUOTAS) {
    this.#db = new Kysely<RecordTables>({ dialect });
    const db = this.#db;
    this.bodies = new BodyStore(db, secretKey);
    this.events = new EventStore(db);
    this.grants = new ApprovalGrantStore(db, this.bodies, quotas.approval_grants);
    this.approvals = new ApprovalStore(db, this.bodies, this.events, this.grants, quotas.pending_approvals);
    this.webhooks = new WebhookEndpoints(db, secretKey, quotas.webhooks);
    this.deliveries = new DeliveryQueue(db);
    const batch = db.insertInto('call_batch').values({ batch_id: '', stored_at: 0 });
    this.#newBatch = new Prepared(batch.onConflict((conflict) => conflict.doNothing()));
    this.#last = new Prepared(db.selectFrom('call_record').select((row) => row.fn.max('position').as('last')));
    const partitioned = { call_record: PARTITION_LOCK, call_body: BODY_PARTITION_LOCK };
    this.#partitions = Object.entries(isPostgres(db) ? partitioned : {}).map(
      ([name, lock]) => new DayPartitions(db, { name, unitsPerDay: DAY_MS * PER_MS, lock }),
    );
  }

  /**
   * Runs the migrations that are new to the store.
   * @throws FatalStartupError when it needs a newer release
   */
  open(): Promise<void> {
    return migrate(this.#db, RECORDS_MIGRATIONS);
  }

  /**
   * Appends a batch, with the events of its calls, and resolves once it is durable. A batch that is appended again changes nothing.
   *
   * Positions increase in the order in which batches become visible, also with several replicas, because they are given while a lock is
   * held until the commit. A reader that has seen a position misses nothing before it.
   * @param now the instant of recording
   * @returns false when the batch was stored before
   * @throws ToolError REQUEST_INVALID: one of the calls can never be stored, and none is
   */
  async append(batchId: string, calls: readonly FinishedCall[], now: EpochMs): Promise<boolean> {
    try {
      return await this.#append(batchId, calls, now);
    } catch (cause) {
      if (!isFaultOfData(cause)) throw cause;
      throw new ToolError('REQUEST_INVALID', { message: 'A call of the batch cannot be stored', cause });
    }
  }

  async #append(batchId: string, calls: readonly FinishedCall[], now: EpochMs): Promise<boolean> {
    // Tomorrow's as well, for a position that is later than this clock.
    const days = new Set([epochDay(now), epochDay(now) + 1]);
    for (const partitions of this.#partitions) await partitions.prepare(days);
    let told: StoredEvents | undefined;
    await this.#db.transaction().execute(async (tx) => {
      if (this.#partitions.length > 0) await sql`select pg_advisory_xact_lock(${APPEND_LOCK})`.execute(tx);
      const { numAffectedRows: isNew } = await this.#newBatch.run(tx, [batchId, now]);
      if (!isNew) return;
      const [newest] = (await this.#last.run(tx, [])).rows;
      const first = Math.max(now * PER_MS, (newest?.last ?? 0) + 1);
      const hasBodies = this.bodies.isOn;
      const rows = calls.map((call, index) => toRow(call, first + index, hasBodies));
      await this.#calls.run(tx, rows);
      const placed = calls.map((call, index) => ({ call, position: first + index }));
      await this.bodies.insert(tx, placed, now);
      told = await this.events.insertCalls(tx, calls, now);
    });
    if (told) this.events.announce(told);
    return told !== undefined;
  }

  /**
   * The calls that match, and on request their sums. A search that no index serves goes through the calls of the tenant, or
   * of the fleet, stretch by stretch, until it has found enough or `isOver`.
   */
  async list(query: RecordsList, isOver: IsOver = () => false): Promise<RecordsListReply> {
    const isForward = query.after !== undefined;
    const bounds = toBounds(query);
    const isLast = ({ from, to }: PositionRange) => (isForward ? to === bounds.to : from === bounds.from);
    const rows: CallRow[] = [];
    let next: number | undefined;
    for await (const stretch of this.#searched(query, isForward, bounds)) {
      const wanted = query.limit - rows.length;
      const found = this.#matching(query, stretch)
        .selectAll()
        .orderBy('position', isForward ? 'asc' : 'desc');
      rows.push(...(await found.limit(wanted).execute()));
      if (rows.length === query.limit) next = rows.at(-1)!.position;
      else if (!isLast(stretch) && isOver()) next = isForward ? stretch.to - 1 : stretch.from;
      if (next !== undefined) break;
    }
    const calls = (isForward ? rows : rows.toReversed()).map(toCall);
    return {
      calls,
      next: next === undefined ? undefined : String(next),
      groups: query.group_by && (await this.#sum(query, query.group_by, isOver)),
    };
  }

  /** Sums of all matching calls, stretch by stretch from the newest. */
  async #sum(
    { after: _after, before: _before, ...query }: RecordsList,
    groups: readonly CallGroup[],
    isOver: IsOver,
  ): Promise<CallGroups> {
    const sums = new CallSums(groups);
    const bounds = toBounds(query);
    let since: EpochMs | undefined;
    for await (const stretch of this.#stretches(ofIndex(query), false, bounds)) {
      const found = this.#matching(query, stretch).select(sums.selected).groupBy(sums.columns);
      for (const row of await found.execute()) sums.add(row);
      if (stretch.from > bounds.from && (sums.size > MAX_GROUPS || isOver())) {
        since = Math.ceil(stretch.from / PER_MS);
        break;
      }
    }
    return { ...sums.ended(), since };
  }

  /** Facts of all matching calls, stretch by stretch from the newest, until there are many rows or `isOver`. */
  async facts(
    { facts, each = false, ...query }: RecordsFacts,
    isOver: IsOver = () => false,
  ): Promise<RecordsFactsReply> {
    const found = new FactRows(facts, each);
    const bounds = toBounds(query);
    for await (const stretch of this.#stretches(ofIndex(query), false, bounds)) {
      await found.read(this.#matching(query, stretch));
      if (stretch.from > bounds.from && (found.isFull || isOver()))
        return { rows: found.rows, next: String(stretch.from) };
    }
    return { rows: found.rows };
  }

  /** Where to search: everywhere at once if an index gives the matching calls in their order, else stretch by stretch. */
  #searched(
    query: RecordsList,
    isForward: boolean,
    bounds: PositionRange,
  ): Iterable<PositionRange> | AsyncIterable<PositionRange> {
    return isIndexed(query) ? [bounds] : this.#stretches(ofIndex(query), isForward, bounds);
  }

  /** Divides the calls that an index gives into stretches of a few thousand. Other work gets its turn between two of them. */
  async *#stretches(
    indexed: Partial<RecordsList>,
    isForward: boolean,
    bounds: PositionRange,
  ): AsyncGenerator<PositionRange> {
    for (let rest = bounds; ;) {
      const ends = this.#matching(indexed, rest)
        .select('position')
        .orderBy('position', isForward ? 'asc' : 'desc');
      const [end] = await ends
        .limit(1)
        .offset(STRETCH - 1)
        .execute();
      if (!end) return yield rest;
      const { position } = end;
      yield isForward ? { from: rest.from, to: position + 1 } : { from: position, to: rest.to };
      rest = isForward ? { from: position + 1, to: rest.to } : { from: rest.from, to: position };
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  #matching(query: Partial<RecordsList> & { toolset?: string | undefined }, { from, to }: PositionRange) {
    let select = this.#db.selectFrom('call_record');
    if (from > EVERYTHING.from) select = select.where('position', '>=', from);
    if (to < EVERYTHING.to) select = select.where('position', '<', to);
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
    const { owner } = query;
    if (owner)
      select = select.where(sql<boolean>`(user_id = ${owner.user_id ?? null} or key_id = ${owner.key_id ?? null})`);
    if (query.toolset !== undefined) select = select.where(isToolset(query.toolset));
    if (query.from !== undefined) select = select.where('ended_at', '>=', query.from);
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

  /**
   * Deletes the calls of a tenant or user after the position `after`, or counts them, the oldest first, until `isOver`.
   * The keys of a tenant go first, so that no body of it can be read from then on.
   * @returns how many, and the position to go on after unless that were all
   */
  async erase(
    scope: Owner,
    { after, dryRun, isOver = () => false }: { after?: string | undefined; dryRun: boolean; isOver?: IsOver },
  ): Promise<{ rows: number; keys: number; next?: string }> {
    let rows = 0;
    const keys = after === undefined ? await this.bodies.eraseOwner(scope, dryRun) : 0;
    const bounds = after === undefined ? EVERYTHING : { ...EVERYTHING, from: Number(after) + 1 };
    for await (const stretch of this.#stretches({ tenant_id: scope.tenantId }, true, bounds)) {
      rows += await (dryRun ? this.#countIn(stretch, ofOwner(scope)) : this.#deleteIn(stretch, ofOwner(scope)));
      if (stretch.to < bounds.to && isOver()) return { rows, keys, next: String(stretch.to - 1) };
    }
    return { rows, keys };
  }

  /** Deletes records from before `at`, of one tenant or of all except some. @returns the number of calls */
  async eraseBefore(at: EpochMs, tenants: Tenants): Promise<number> {
    let erased = 0;
    await this.approvals.eraseBefore(at, tenants);
    await this.grants.eraseBefore(at, tenants);
    const bounds = { ...EVERYTHING, to: at * PER_MS };
    const tenant_id = 'only' in tenants ? tenants.only : undefined;
    for await (const stretch of this.#stretches({ tenant_id }, true, bounds))
      erased += await this.#deleteIn(stretch, ofTenants(tenants));
    return erased;
  }

  /** Drops the partitions of days before the day of `at`, with any content. PostgreSQL only. */
  async dropBefore(at: EpochMs): Promise<number> {
    const [calls = 0] = await Promise.all(this.#partitions.map((partitions) => partitions.dropBefore(epochDay(at))));
    await this.bodies.forgetReadings(epochDay(at) * DAY_MS * PER_MS);
    return calls;
  }

  /** Forgets batches that were stored before `at`; they are not delivered again. */
  async forgetBatches(at: EpochMs): Promise<void> {
    await this.#db.deleteFrom('call_batch').where('stored_at', '<', at).execute();
  }

  /** Forgets deliveries that ended before `at`, and events that were last reported before it. */
  async forgetEvents(at: EpochMs): Promise<void> {
    await this.deliveries.forgetBefore(at);
    await this.events.forgetBefore(at);
  }

  async #countIn(stretch: PositionRange, condition: RawBuilder<boolean>): Promise<number> {
    const { calls } = await this.#matching({}, stretch)
      .select(sql<number>`count(*)`.as('calls'))
      .where(condition)
      .executeTakeFirstOrThrow();
    return calls;
  }

  async #deleteIn({ from, to }: PositionRange, condition: RawBuilder<boolean>): Promise<number> {
    await this.bodies.deleteIn({ from, to }, condition);
    const { numDeletedRows } = await this.#db
      .deleteFrom('call_record')
      .where('position', '>=', from)
      .where('position', '<', to)
      .where(condition)
      .executeTakeFirstOrThrow();
    return Number(numDeletedRows);
  }

  async close(): Promise<void> {
    await this.#db.destroy();
  }
}

/** The positions at which matching calls can be: a call is recorded after its end, and within a bound. */
function toBounds({ after, before, from, to }: Partial<RecordsList>): PositionRange {
  return {
    from: Math.max(
      after === undefined ? EVERYTHING.from : Number(after) + 1,
      from === undefined ? EVERYTHING.from : (from - CLOCK_SKEW_MS) * PER_MS,
    ),
    to: Math.min(
      before === undefined ? EVERYTHING.to : Number(before),
      to === undefined ? EVERYTHING.to : (to + MAX_RECORDING_MS + CLOCK_SKEW_MS) * PER_MS,
    ),
  };
}

/** The filters for which an index gives the calls in their order; the rest of a search reads these. */
function ofIndex({ tenant_id, user_id, tool, status }: Partial<RecordsList>): Partial<RecordsList> {
  if (tenant_id === undefined) return {};
  if (user_id !== undefined) return { tenant_id, user_id };
  if (status !== undefined && !status.includes('success')) return { tenant_id, status };
  return { tenant_id, tool };
}

/** Whether a call came through a toolset, recorded as `name` or `name@version`. */
const isToolset = (name: string) =>
  sql<boolean>`(toolset = ${name} or substr(toolset, 1, ${sql.lit(name.length + 1)}) = ${`${name}@`})`;

/** Whether an index gives the calls that match in their order, or there are few, so that one statement takes little time. */
function isIndexed(query: Partial<RecordsList>): boolean {
  const { limit: _limit, after: _after, before: _before, group_by: _groupBy, from: _from, ...filters } = query;
  const { call_id, parent_call_id, tenant_id, tool, user_id, status, ...others } = filters;
  if (parent_call_id !== undefined || (call_id?.length ?? 0) >= SELECTIVE_ID) return true;
  if (call_id !== undefined || Object.values(others).some((value) => value !== undefined)) return false;
  const indexed = [tool, user_id, status].filter((value) => value !== undefined);
  if (indexed.length === 0) return true;
  if (tenant_id === undefined || indexed.length > 1) return false;
  return status === undefined || !status.includes('success');
}

/** Whether the database, or the reading of a call, failed because of the content of the call, so that it would fail again. */
function isFaultOfData(error: unknown): boolean {
  if (error instanceof TypeError) return true;
  const { code } = error as { code?: unknown };
  // PostgreSQL: data exceptions and missing values.
  return typeof code === 'string' && /^(22...|23502|SQLITE_CONSTRAINT_NOTNULL|SQLITE_MISMATCH)$/.test(code);
}

function toRow({ body, outcomes, stages, ...call }: FinishedCall, position: number, hasBodies: boolean) {
  return {
    ...call,
    ...stages,
    position,
    transport: outcomes.transport,
    protocol: outcomes.protocol,
    tool_outcome: outcomes.tool,
    body_bytes: hasBodies && body ? (call.body_bytes ?? 0) : undefined,
  };
}

function toCall({ position, transport, protocol, tool_outcome: tool, ...row }: CallRow): StoredCall {
  const { admit_ms, wait_ms, queue_ms, execute_ms, rest_ms, ...call } = row;
  return {
    ...(call as FinishedCall),
    cursor: String(position),
    outcomes: { transport, protocol, tool } as FinishedCall['outcomes'],
    stages: { admit_ms, wait_ms, queue_ms, execute_ms, rest_ms },
  };
}
