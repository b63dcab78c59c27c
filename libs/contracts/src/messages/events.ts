import { hash } from 'node:crypto';
import type { JsonObject } from '@toolfleet/base/json';
import { choice, integer, list, maybe, objectOf, record, text, type Value } from '../json-schema.js';
import type { EpochMs } from '../units.js';
import { EVENT_KINDS, EVENTS, type EventData, type EventKind } from './event-kinds.js';

export { EVENTS, type EventData, type EventKind } from './event-kinds.js';

/** An event as services report it to `records` (`records.event.<service>`). It has no id: `records` makes it. */
export interface FleetEvent<K extends EventKind = EventKind> {
  kind: K;
  /** The receiving tenant; `OPERATOR_TENANT` for shared resources. */
  tenant_id: string;
  at: EpochMs;
  /** Members that endpoints can filter by. */
  tool?: string | undefined;
  toolset?: string | undefined;
  /** The owner of its data, for purges. */
  user_id?: string | undefined;
  data: EventData<K>;
}

/**
 * The id of an event, from what happened: kind, tenant, and the members of `data` that tell its events apart. Reports of the same state
 * have the same id, and no sender can give an event the id of another.
 */
export function eventId({ kind, tenant_id, data }: Pick<FleetEvent, 'kind' | 'tenant_id' | 'data'>): string {
  const same = EVENTS[kind].same.map((name) => (data as JsonObject)[name] ?? null);
  return `evt_${hash('sha256', JSON.stringify([kind, tenant_id, ...same]), 'base64url').slice(0, 32)}`;
}

/** Whether this service may report the event, by the table of kinds; an event that names a service is reported by that service. */
export function mayReport(service: string, { kind, data }: Pick<FleetEvent, 'kind' | 'data'>): boolean {
  const isFrom = EVENTS[kind].from.some((one) => one === service);
  return isFrom && (!('service' in data) || data.service === service);
}

/** An event as its receivers read it, over HTTP and NATS; the shape that Standard Webhooks recommends. */
export interface SentEvent {
  id: string;
  type: EventKind | 'webhook.test';
  /** When it happened, ISO 8601. */
  timestamp: string;
  tenant_id: string;
  data: JsonObject;
}

export const toSentEvent = ({ kind, tenant_id, at, data }: FleetEvent): SentEvent => ({
  id: eventId({ kind, tenant_id, data }),
  type: kind,
  timestamp: new Date(at).toISOString(),
  tenant_id,
  data: data as JsonObject,
});

/** Events in one message. */
export const MAX_SENT_EVENTS = 100;

const REPORTED = {
  ...record({
    kind: choice(EVENT_KINDS),
    tenant_id: text(undefined, { minLength: 1, maxLength: 200 }),
    at: integer(),
    tool: maybe(text()),
    toolset: maybe(text()),
    user_id: maybe(text()),
    data: objectOf<FleetEvent['data']>(),
  }),
  allOf: EVENT_KINDS.map((kind) => ({
    if: { properties: { kind: { const: kind } } },
    then: { properties: { data: EVENTS[kind].data } },
  })),
};

/** `records.event.<service>`: events of a service. The reply comes once they are durable; one that is known already is not stored again. */
export const RECORDS_EVENT = record({
  events: list(REPORTED, undefined, { maxItems: MAX_SENT_EVENTS }),
});
export type RecordsEvent = Value<typeof RECORDS_EVENT>;
export interface RecordsEventReply {
  /** How many were new. */
  stored: number;
}
