import { toUsd, type EpochMs } from '@toolfleet/contracts';
import { eventId, toSentEvent, type FleetEvent, type SentEvent } from '@toolfleet/contracts/events';
import type { FinishedCall } from '@toolfleet/contracts/records';
import { DAY_MS, inParts } from '@toolfleet/database';
import { toolAllowed } from '@toolfleet/engine/access';
import type { RecordsDb, RecordsTx, RecordsRow } from './tables.js';

/** An event that could not be delivered for this long is given up. */
export const GIVE_UP_MS = DAY_MS;
/** A repeated event is noted as seen once in this time, so that repetitions cost no writes. */
const TOUCH_MS = DAY_MS;

/** New events, and the endpoints that have deliveries because of them. */
export interface StoredEvents {
  events: readonly FleetEvent[];
  endpoints: readonly string[];
}

type Endpoint = Pick<RecordsRow<'webhook_endpoint'>, 'endpoint_id' | 'tenant_id' | 'kinds' | 'tools' | 'toolsets'>;

/**
 * The outbox of events: an event is stored together with its deliveries, in the transaction of its subject where that is in the same
 * database. Committed events are delivered at least once; `announce`, after the commit, only wakes those who wait.
 */
export class EventStore {
  #listener: (stored: StoredEvents) => void = () => undefined;

  constructor(private readonly db: RecordsDb) {}

  /** Sets who hears of stored events after each commit. */
  onStored(listener: (stored: StoredEvents) => void): void {
    this.#listener = listener;
  }

  /** Stores events, of which those with a known id are the same and change nothing. Durable when it resolves. @returns how many were new */
  async add(events: readonly FleetEvent[], now: EpochMs): Promise<number> {
    const stored = await this.db.transaction().execute((tx) => this.insert(tx, events, now));
    this.announce(stored);
    return stored.events.length;
  }

  /** As `add`, in the transaction of what the events are about. Call `announce` with the result once it is committed. */
  async insert(db: RecordsTx, events: readonly FleetEvent[], now: EpochMs): Promise<StoredEvents> {
    const byId = new Map(events.map((event) => [eventId(event), event]));
    const fresh: FleetEvent[] = [];
    for (const part of inParts([...byId])) {
      const rows = part.map(([event_id, { tenant_id, user_id, kind }]) => ({
        event_id,
        tenant_id,
        user_id,
        kind,
        seen_at: now,
      }));
      const inserted = await db
        .insertInto('fleet_event')
        .values(rows)
        .onConflict((conflict) => conflict.doNothing())
        .returning('event_id')
        .execute();
      fresh.push(...inserted.map(({ event_id: id }) => byId.get(id)!));
      if (inserted.length < part.length)
        await db
          .updateTable('fleet_event')
          .set({ seen_at: now })
          .where('seen_at', '<', now - TOUCH_MS)
          .where(
            'event_id',
            'in',
            part.map(([id]) => id),
          )
          .execute();
    }
    return { events: fresh, endpoints: await this.#queue(db, fresh, now) };
  }

  /** The events of finished calls. Their rows are inserted in the same transaction and make each known. */
  async insertCalls(tx: RecordsTx, calls: readonly FinishedCall[], now: EpochMs): Promise<StoredEvents> {
    const events = calls.map(callFinished);
    return { events, endpoints: await this.#queue(tx, events, now) };
  }

  /** Tells those who wait that events are durable. */
  announce(stored: StoredEvents): void {
    if (stored.events.length > 0) this.#listener(stored);
  }

  /** Queues the deliveries of events. @returns the endpoints */
  async #queue(db: RecordsTx, events: readonly FleetEvent[], now: EpochMs): Promise<string[]> {
    const tenants = [...new Set(events.map((event) => event.tenant_id))];
    if (tenants.length === 0) return [];
    const endpoints = await db
      .selectFrom('webhook_endpoint')
      .select(['endpoint_id', 'tenant_id', 'kinds', 'tools', 'toolsets'])
      .where('tenant_id', 'in', tenants)
      .where('state', '=', 'on')
      .execute();
    if (endpoints.length === 0) return [];
    const matchers = endpoints.map(toMatcher);
    const rows = events.flatMap((event) => {
      const matching = matchers.filter(({ matches }) => matches(event));
      if (matching.length === 0) return [];
      const sent = toSentEvent(event);
      const { at, user_id } = event;
      const payload = JSON.stringify(sent);
      return matching.map(({ id }) => newDelivery(id, sent, { at, user_id, payload }, now));
    });
    for (const part of inParts(rows))
      await db
        .insertInto('webhook_delivery')
        .values(part)
        .onConflict((conflict) => conflict.columns(['endpoint_id', 'event_id']).doNothing())
        .execute();
    return [...new Set(rows.map((row) => row.endpoint_id))];
  }

  /** Forgets events that were last reported before `at`. */
  async forgetBefore(at: EpochMs): Promise<void> {
    await this.db.deleteFrom('fleet_event').where('seen_at', '<', at).execute();
  }
}

/** A delivery that is due at once. */
export function newDelivery(
  endpoint_id: string,
  { id, tenant_id, type }: SentEvent,
  { at, user_id, payload }: Pick<FleetEvent, 'at' | 'user_id'> & { payload: string },
  now: EpochMs,
) {
  return {
    endpoint_id,
    tenant_id,
    user_id,
    event_id: id,
    kind: type,
    payload,
    state: 'pending' as const,
    attempts: 0,
    event_at: at,
    next_at: now,
    give_up_at: now + GIVE_UP_MS,
  };
}

/** Whether an event is one that an endpoint wants. */
function toMatcher({ endpoint_id: id, tenant_id: tenantId, ...lists }: Endpoint) {
  const { tools } = lists;
  const kinds = new Set<string>(lists.kinds);
  const toolsets = new Set(lists.toolsets);
  const matches = ({ tenant_id, kind, tool, toolset }: FleetEvent): boolean =>
    tenant_id === tenantId &&
    kinds.has(kind) &&
    (tools.length === 0 || (tool !== undefined && toolAllowed(tools, tool))) &&
    (toolsets.size === 0 || (toolset !== undefined && isIn(toolsets, toolset)));
  return { id, matches };
}

/** `support@3` is a version of `support`. */
const isIn = (toolsets: ReadonlySet<string>, name: string): boolean =>
  toolsets.has(name) || toolsets.has(name.replace(/@\d+$/, ''));

function callFinished(call: FinishedCall): FleetEvent<'call.finished'> {
  const { call_id, tool, user_id, tenant_id, toolset, status, ended_at } = call;
  return {
    kind: 'call.finished',
    tenant_id,
    at: ended_at,
    tool,
    toolset,
    user_id,
    data: {
      call_id,
      tool,
      user_id,
      parent_call_id: call.parent_call_id,
      request_id: call.request_id,
      agent_id: call.agent_id,
      task_id: call.task_id,
      key_id: call.key_id,
      toolset,
      source: call.source,
      status,
      code: call.code,
      error: call.error,
      ended_at: new Date(ended_at).toISOString(),
      duration_ms: call.duration_ms,
      cost_usd: toUsd(call.micro_usd),
      tokens: call.tokens,
    },
  };
}
