import { randomUUID } from 'node:crypto';
import {
  invalidRequest,
  instantOrNull,
  toInstant,
  type EpochMs,
  type JsonObject,
  type Milliseconds,
} from '@toolfleet/contracts';
import type { SentEvent } from '@toolfleet/contracts/events';
import type { Asked, RouteAnswer, WebhookDelivery } from '@toolfleet/contracts/resources';
import { erase, isPostgres, ofOwner, type Owner } from '@toolfleet/database';
import { sql } from 'kysely';
import { GIVE_UP_MS, newDelivery } from './event-store.js';
import type { RecordsDb, RecordsRow } from './tables.js';
import type { EndpointName } from './webhook-endpoints.js';

type DeliveryRow = RecordsRow<'webhook_delivery'>;

/** The columns of a delivery that this process may attempt. `attempts` counts this one. */
const CLAIMED = ['position', 'event_id', 'kind', 'payload', 'attempts', 'event_at', 'give_up_at'] as const;
export type ClaimedDelivery = Pick<DeliveryRow, (typeof CLAIMED)[number]>;

/** What came of an attempt. `next_at`: when a pending one is due again. */
export type AttemptResult = Pick<DeliveryRow, 'position' | 'state'> &
  Partial<Pick<DeliveryRow, 'status' | 'error' | 'next_at'>> & { duration_ms: Milliseconds };

const CURSOR = /^\d{1,16}$/;
/** Deliveries that one statement changes or deletes. */
const STRETCH = 1_000;

/**
 * Deliveries: a queue, and the log of ended ones. A claim takes a delivery for some time; one that is not finished by then,
 * because its process was killed, is due again. Several replicas may claim at once on PostgreSQL.
 */
export class DeliveryQueue {
  constructor(private readonly db: RecordsDb) {}

  /** Endpoints that are on and have deliveries that are due. */
  async due(now: EpochMs): Promise<string[]> {
    const rows = await this.db
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
    const rows = await this.db
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
        return isPostgres(this.db) ? oldest.forUpdate().skipLocked() : oldest;
      })
      .returning(CLAIMED)
      .execute();
    return rows.toSorted((a, b) => a.position - b.position);
  }

  /** Stores what came of attempts, in one transaction. */
  async finish(results: readonly AttemptResult[], now: EpochMs): Promise<void> {
    await this.db.transaction().execute(async (tx) => {
      for (const { position, state, next_at, status = null, error = null, duration_ms } of results)
        await tx
          .updateTable('webhook_delivery')
          .set({
            ...{ state, next_at, status, error, duration_ms: Math.round(duration_ms) },
            ended_at: state === 'pending' ? null : now,
          })
          .where('position', '=', position)
          .execute();
    });
  }

  /** How many deliveries wait, for how long the oldest has that is due, and of tenants for which more than `limit` wait the endpoint with the most. */
  async backlog(now: EpochMs, limit: number): Promise<{ pending: number; overdueMs: number; overfull: string[] }> {
    const rows = await this.db
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
    const count = (some: typeof rows): number => some.reduce((sum, row) => sum + row.pending, 0);
    return {
      pending: count(rows),
      overdueMs: Math.max(0, ...rows.map((row) => now - row.next_at)),
      overfull: [...Map.groupBy(rows, (row) => row.tenant_id).values()]
        .filter((own) => count(own) > limit)
        .map(([most]) => most!.endpoint_id),
    };
  }

  /** The log of an endpoint, newest first. @throws ToolError REQUEST_INVALID: `before` is not the `next` of a page */
  async list(
    id: string,
    { state, event_id, before, limit }: Asked<'listWebhookDeliveries'>['query'] & { limit: number },
  ): Promise<RouteAnswer<'GET /api/v1/webhooks/{id}/deliveries'>> {
    if (before !== undefined && !CURSOR.test(before))
      throw invalidRequest('before must be `next` of the page before', 'before');
    let select = this.db.selectFrom('webhook_delivery').selectAll().where('endpoint_id', '=', id);
    if (state !== undefined) select = select.where('state', '=', state);
    if (event_id !== undefined) select = select.where('event_id', '=', event_id);
    if (before !== undefined) select = select.where('position', '<', Number(before));
    const rows = await select.orderBy('position', 'desc').limit(limit).execute();
    return {
      deliveries: rows.map(toDelivery),
      next: rows.length === limit ? String(rows.at(-1)!.position) : undefined,
    };
  }

  /** Queues an event of the kind `webhook.test`. */
  async test({ tenant_id, id }: EndpointName, now: EpochMs): Promise<WebhookDelivery> {
    const event: SentEvent = {
      id: `evt_test_${randomUUID()}`,
      type: 'webhook.test',
      timestamp: toInstant(now),
      tenant_id,
      data: { webhook_id: id },
    };
    const row = newDelivery(id, event, { at: now, payload: JSON.stringify(event) }, now);
    const stored = await this.db.insertInto('webhook_delivery').values(row).returningAll().executeTakeFirstOrThrow();
    return toDelivery(stored);
  }

  /** Queues one event again, or all that failed since an instant. @returns how many */
  async redeliver(id: string, which: { eventId: string } | { failedSince: EpochMs }, now: EpochMs): Promise<number> {
    let update = this.db
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
    await this.db
      .updateTable('webhook_delivery')
      .set({ next_at: now })
      .where('endpoint_id', '=', id)
      .where('state', '=', sql.lit('pending'))
      .where('next_at', '>', now)
      .execute();
  }

  /** Ends deliveries that waited for too long, also of endpoints that are off. */
  async giveUp(now: EpochMs): Promise<number> {
    const { numUpdatedRows } = await this.db
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
      const { numDeletedRows } = await this.db
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
  async erase(owner: Owner, dryRun: boolean): Promise<{ webhooks: number; webhook_deliveries: number }> {
    const condition = ofOwner({ tenantId: owner.tenantId, userId: owner.userId });
    const webhook_deliveries = await erase(this.db, 'webhook_delivery', condition, dryRun);
    await erase(this.db, 'fleet_event', condition, dryRun);
    const isTenant = owner.userId === undefined;
    return { webhooks: isTenant ? await erase(this.db, 'webhook_endpoint', condition, dryRun) : 0, webhook_deliveries };
  }
}

function toDelivery(row: DeliveryRow): WebhookDelivery {
  const { event_id, kind, state, attempts, event_at, next_at, ended_at } = row;
  return {
    ...{ event_id, kind, state, attempts, event_at: toInstant(event_at) },
    next_attempt_at: state === 'pending' ? toInstant(next_at) : null,
    ended_at: instantOrNull(ended_at),
    status: row.status ?? null,
    error: row.error ?? null,
    duration_ms: row.duration_ms ?? null,
    payload: JSON.parse(row.payload) as JsonObject,
  };
}
