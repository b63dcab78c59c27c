import { randomUUID } from 'node:crypto';
import type { EpochMs, JsonObject, Milliseconds } from '@toolfleet/contracts';
import type { SentEvent } from '@toolfleet/contracts/events';
import type { WebhookDelivery } from '@toolfleet/contracts/resources';
import type { WebhookDeliveries, WebhookDeliveriesReply, WebhookNamed } from '@toolfleet/contracts/webhooks';
import { PostgresAdapter, sql, type Kysely, type Selectable } from 'kysely';
import { GIVE_UP_MS, newDelivery } from './event-store.js';
import type { WebhookTables } from './webhook-tables.js';

type DeliveryRow = Selectable<WebhookTables['webhook_delivery']>;

/** A delivery that this process may attempt. */
export interface ClaimedDelivery {
  position: number;
  eventId: string;
  kind: string;
  payload: string;
  /** This one included. */
  attempts: number;
  eventAt: EpochMs;
  giveUpAt: EpochMs;
}

/** What came of an attempt. */
export interface AttemptResult {
  position: number;
  state: 'pending' | 'delivered' | 'failed';
  /** When a pending one is due again. */
  nextAt?: EpochMs;
  status?: number | undefined;
  error?: string | undefined;
  durationMs: Milliseconds;
}

/** Deliveries that one statement changes or deletes. */
const STRETCH = 1_000;

/**
 * Deliveries: what waits to be sent, and the log of what was. A claim takes a delivery for some time; one that is not finished by then,
 * because its process was killed, is due again. Several replicas may claim at once on PostgreSQL.
 */
export class DeliveryQueue {
  readonly #db: Kysely<WebhookTables>;
  readonly #isPostgres: boolean;

  constructor(db: Kysely<never>) {
    this.#db = db as unknown as Kysely<WebhookTables>;
    this.#isPostgres = this.#db.getExecutor().adapter instanceof PostgresAdapter;
  }

  /** Endpoints that are on and have deliveries that are due. */
  async due(now: EpochMs): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('webhook_endpoint')
      .select('endpoint_id')
      .where('state', '=', 'on')
      .where(({ exists, selectFrom }) =>
        exists(
          selectFrom('webhook_delivery')
            .select('position')
            .whereRef('webhook_delivery.endpoint_id', '=', 'webhook_endpoint.endpoint_id')
            .where('webhook_delivery.state', '=', sql.lit('pending'))
            .where('next_at', '<=', now),
        ),
      )
      .execute();
    return rows.map((row) => row.endpoint_id);
  }

  /** Takes up to `limit` due deliveries of an endpoint, the oldest first, until `until`. */
  async claim(endpointId: string, limit: number, now: EpochMs, until: EpochMs): Promise<ClaimedDelivery[]> {
    const rows = await this.#db
      .updateTable('webhook_delivery')
      .set((row) => ({ attempts: row('attempts', '+', 1), next_at: until }))
      .where('position', 'in', (due) => {
        const oldest = due
          .selectFrom('webhook_delivery')
          .select('position')
          .where('endpoint_id', '=', endpointId)
          .where('state', '=', sql.lit('pending'))
          .where('next_at', '<=', now)
          .orderBy('next_at')
          .limit(limit);
        return this.#isPostgres ? oldest.forUpdate().skipLocked() : oldest;
      })
      .returning(['position', 'event_id', 'kind', 'payload', 'attempts', 'event_at', 'give_up_at'])
      .execute();
    return rows
      .map((row) => ({
        position: Number(row.position),
        eventId: row.event_id,
        kind: row.kind,
        payload: row.payload,
        attempts: row.attempts,
        eventAt: Number(row.event_at),
        giveUpAt: Number(row.give_up_at),
      }))
      .toSorted((a, b) => a.position - b.position);
  }

  /** Stores what came of attempts, in one transaction. */
  async finish(results: readonly AttemptResult[], now: EpochMs): Promise<void> {
    await this.#db.transaction().execute(async (tx) => {
      for (const { position, state, nextAt, status, error, durationMs } of results)
        await tx
          .updateTable('webhook_delivery')
          .set({
            state,
            ...(nextAt !== undefined && { next_at: nextAt }),
            ended_at: state === 'pending' ? null : now,
            status: status ?? null,
            error: error ?? null,
            duration_ms: Math.round(durationMs),
          })
          .where('position', '=', position)
          .execute();
    });
  }

  /** How many deliveries wait, for how long the oldest has that is due, and of tenants for which more than `limit` wait the endpoint with the most. */
  async backlog(now: EpochMs, limit: number): Promise<{ pending: number; overdueMs: number; overfull: string[] }> {
    const rows = await this.#db
      .selectFrom('webhook_delivery')
      .innerJoin('webhook_endpoint', 'webhook_endpoint.endpoint_id', 'webhook_delivery.endpoint_id')
      .select([
        'webhook_delivery.endpoint_id',
        'webhook_endpoint.tenant_id',
        sql<number>`count(*)`.as('pending'),
        sql<number>`min(next_at)`.as('next_at'),
      ])
      .where('webhook_delivery.state', '=', sql.lit('pending'))
      .where('webhook_endpoint.state', '=', 'on')
      .groupBy(['webhook_delivery.endpoint_id', 'webhook_endpoint.tenant_id'])
      .orderBy('pending', 'desc')
      .execute();
    const count = (some: typeof rows): number => some.reduce((sum, row) => sum + Number(row.pending), 0);
    return {
      pending: count(rows),
      overdueMs: Math.max(0, ...rows.map((row) => now - Number(row.next_at))),
      overfull: [...Map.groupBy(rows, (row) => row.tenant_id).values()]
        .filter((own) => count(own) > limit)
        .map(([most]) => most!.endpoint_id),
    };
  }

  /** The log of an endpoint, newest first. */
  async list({ id, state, event_id, before, limit }: WebhookDeliveries): Promise<WebhookDeliveriesReply> {
    let select = this.#db.selectFrom('webhook_delivery').selectAll().where('endpoint_id', '=', id);
    if (state !== undefined) select = select.where('state', '=', state);
    if (event_id !== undefined) select = select.where('event_id', '=', event_id);
    if (before !== undefined) select = select.where('position', '<', Number(before));
    const rows = await select.orderBy('position', 'desc').limit(limit).execute();
    return {
      deliveries: rows.map(toDelivery),
      ...(rows.length === limit && { next: String(rows.at(-1)!.position) }),
    };
  }

  /** Queues an event of the kind `webhook.test`. */
  async test({ tenant_id, id }: WebhookNamed, now: EpochMs): Promise<WebhookDelivery> {
    const event: SentEvent = {
      id: `evt_test_${randomUUID()}`,
      type: 'webhook.test',
      timestamp: new Date(now).toISOString(),
      tenant_id,
      data: { webhook_id: id },
    };
    const row = newDelivery(id, event, { at: now, payload: JSON.stringify(event) }, now);
    const stored = await this.#db.insertInto('webhook_delivery').values(row).returningAll().executeTakeFirstOrThrow();
    return toDelivery(stored);
  }

  /** Queues one event again, or all that failed since an instant. @returns how many */
  async redeliver(id: string, which: { eventId: string } | { failedSince: EpochMs }, now: EpochMs): Promise<number> {
    let update = this.#db
      .updateTable('webhook_delivery')
      .set({ state: 'pending', attempts: 0, next_at: now, give_up_at: now + GIVE_UP_MS, ended_at: null })
      .where('endpoint_id', '=', id);
    update =
      'eventId' in which
        ? // One that is pending is taken as soon as it is due; an attempt may be under way.
          update.where('event_id', '=', which.eventId)
        : update.where('state', '=', 'failed').where('event_at', '>=', which.failedSince);
    return Number((await update.executeTakeFirst()).numUpdatedRows);
  }

  /** Makes what waits for an endpoint due now. */
  async renew(id: string, now: EpochMs): Promise<void> {
    await this.#db
      .updateTable('webhook_delivery')
      .set({ next_at: now })
      .where('endpoint_id', '=', id)
      .where('state', '=', sql.lit('pending'))
      .where('next_at', '>', now)
      .execute();
  }

  /** Ends deliveries that waited for too long, also of endpoints that are off. */
  async giveUp(now: EpochMs): Promise<number> {
    const { numUpdatedRows } = await this.#db
      .updateTable('webhook_delivery')
      .set({ state: 'failed', ended_at: now })
      .where('state', '=', sql.lit('pending'))
      .where('give_up_at', '<=', now)
      .where('next_at', '<=', now)
      .executeTakeFirst();
    return Number(numUpdatedRows);
  }

  /** Deletes deliveries that ended before `at`. */
  async forgetBefore(at: EpochMs): Promise<void> {
    for (;;) {
      const { numDeletedRows } = await this.#db
        .deleteFrom('webhook_delivery')
        .where('position', 'in', (old) =>
          old.selectFrom('webhook_delivery').select('position').where('ended_at', '<', at).limit(STRETCH),
        )
        .executeTakeFirst();
      if (Number(numDeletedRows) < STRETCH) return;
    }
  }

  /**
   * Deletes the endpoints of a tenant with their deliveries, of a user its deliveries; counts in a dry run.
   * @returns how many endpoints and deliveries
   */
  async erase(
    { tenantId, userId }: { tenantId: string; userId?: string | undefined },
    dryRun: boolean,
  ): Promise<{ webhooks: number; webhook_deliveries: number }> {
    const of = (table: 'webhook_endpoint' | 'webhook_delivery' | 'fleet_event') => {
      const tables = table as 'webhook_delivery';
      const mine = sql<boolean>`tenant_id = ${tenantId}`;
      const users = userId === undefined ? sql<boolean>`1 = 1` : sql<boolean>`user_id = ${userId}`;
      return { table: tables, condition: sql<boolean>`${mine} and ${users}` };
    };
    const take = async (name: Parameters<typeof of>[0]): Promise<number> => {
      const { table, condition } = of(name);
      if (dryRun) {
        const select = this.#db.selectFrom(table).select(sql<number>`count(*)`.as('rows'));
        return Number((await select.where(condition).executeTakeFirstOrThrow()).rows);
      }
      return Number((await this.#db.deleteFrom(table).where(condition).executeTakeFirstOrThrow()).numDeletedRows);
    };
    const webhook_deliveries = await take('webhook_delivery');
    await take('fleet_event');
    return { webhooks: userId === undefined ? await take('webhook_endpoint') : 0, webhook_deliveries };
  }
}

const isoOrNull = (at: number | null): string | null => (at === null ? null : new Date(Number(at)).toISOString());

function toDelivery(row: DeliveryRow): WebhookDelivery {
  return {
    event_id: row.event_id,
    kind: row.kind,
    state: row.state,
    attempts: row.attempts,
    event_at: new Date(Number(row.event_at)).toISOString(),
    next_attempt_at: row.state === 'pending' ? isoOrNull(row.next_at) : null,
    ended_at: isoOrNull(row.ended_at),
    status: row.status,
    error: row.error,
    duration_ms: row.duration_ms,
    payload: JSON.parse(row.payload) as JsonObject,
  };
}
