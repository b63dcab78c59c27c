import { hash } from 'node:crypto';
import type { JsonObject } from '../json.js';
import { choice, integer, list, maybe, object, record, text, type Schema, type Value } from '../json-schema.js';
import type { EpochMs } from '../units.js';
import { EVENT_KINDS, type EventData, type EventKind } from './event-kinds.js';

export { EVENTS, type EventData, type EventKind } from './event-kinds.js';

/** What happened, as services report it to `records` (`records.event`). */
export interface FleetEvent<K extends EventKind = EventKind> {
  /** The same for the same kind, tenant, subject and state: an event that is reported again is the same event. */
  id: string;
  kind: K;
  /** Who hears of it; `OPERATOR_TENANT` for what tenants share. */
  tenant_id: string;
  at: EpochMs;
  /** What endpoints can filter by. */
  tool?: string | undefined;
  toolset?: string | undefined;
  /** Whose data it holds, for purges. */
  user_id?: string | undefined;
  data: EventData<K>;
}

/** What makes an event: its members, and what its id is made of. */
type EventParts<K extends EventKind> = Omit<FleetEvent<K>, 'id'> & {
  /** What it is about within its tenant: a call id, a scope and its limit, a tool. */
  subject: string;
  /** What has become of the subject: `success`, `80`, a revision, the instant of an opening. */
  state: string;
};

/** An event with its id. */
export function fleetEvent<K extends EventKind>({ subject, state, ...event }: EventParts<K>): FleetEvent<K> {
  const parts = JSON.stringify([event.kind, event.tenant_id, subject, state]);
  return { id: `evt_${hash('sha256', parts, 'base64url').slice(0, 32)}`, ...event };
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

export const toSentEvent = ({ id, kind, tenant_id, at, data }: FleetEvent): SentEvent => ({
  id,
  type: kind,
  timestamp: new Date(at).toISOString(),
  tenant_id,
  data: data as JsonObject,
});

/** Events in one message. */
export const MAX_SENT_EVENTS = 100;

/** `records.event`: events of other services. The reply comes once they are durable; one that is known already is not stored again. */
export const RECORDS_EVENT = record({
  events: list(
    record({
      id: text(undefined, { pattern: String.raw`^evt_[\w-]{32}$` }),
      kind: choice(EVENT_KINDS),
      tenant_id: text(undefined, { minLength: 1, maxLength: 200 }),
      at: integer(),
      tool: maybe(text()),
      toolset: maybe(text()),
      user_id: maybe(text()),
      data: object() as Schema<unknown> as Schema<FleetEvent['data']>,
    }),
    undefined,
    { maxItems: MAX_SENT_EVENTS },
  ),
});
export type RecordsEvent = Value<typeof RECORDS_EVENT>;
export interface RecordsEventReply {
  /** How many were new. */
  stored: number;
}
