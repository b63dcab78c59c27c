import { choice, flag, integer, list, maybe, record, text, type Value } from '../json-schema.js';
import { DELIVERY_STATES } from '../resources/webhooks.js';
import type { Webhook, WebhookDelivery } from '../resources/index.js';
import type { EpochMs } from '../units.js';
import { EVENT_KINDS } from './event-kinds.js';

const ID = text(undefined, { minLength: 1, maxLength: 200 });
/** An endpoint of a tenant. */
const NAMED = { tenant_id: ID, id: ID };
const URL = text(undefined, { minLength: 1, maxLength: 2_000 });
const KINDS = list(choice(EVENT_KINDS), undefined, { minItems: 1 });
const TEXTS = list(text());

/** `records.webhook.list`: with an id, that endpoint. */
export const WEBHOOK_LIST = record({ tenant_id: ID, id: maybe(ID) });
export type WebhookList = Value<typeof WEBHOOK_LIST>;
export interface WebhookListReply {
  webhooks: Webhook[];
}

/** `records.webhook.create` */
export const WEBHOOK_CREATE = record({
  tenant_id: ID,
  url: URL,
  description: maybe(text()),
  kinds: KINDS,
  tools: maybe(TEXTS),
  toolsets: maybe(TEXTS),
  created_by: text(),
});
export type WebhookCreate = Value<typeof WEBHOOK_CREATE>;
export interface WebhookSecretReply {
  webhook: Webhook;
  secret: string;
}

/** `records.webhook.change`: absent members stay. */
export const WEBHOOK_CHANGE = record({
  ...NAMED,
  url: maybe(URL),
  description: maybe(text()),
  kinds: maybe(KINDS),
  tools: maybe(TEXTS),
  toolsets: maybe(TEXTS),
  on: maybe(flag()),
});
export type WebhookChange = Value<typeof WEBHOOK_CHANGE>;
export interface WebhookReply {
  webhook: Webhook;
}

/** `records.webhook.remove` */
export const WEBHOOK_NAMED = record(NAMED);
export type WebhookNamed = Value<typeof WEBHOOK_NAMED>;

/** `records.webhook.rotate` */
export const WEBHOOK_ROTATE = record({ ...NAMED, overlap_ms: integer(undefined, { minimum: 0 }) });
export type WebhookRotate = Value<typeof WEBHOOK_ROTATE>;

/** `records.webhook.deliveries` */
export const WEBHOOK_DELIVERIES = record({
  ...NAMED,
  state: maybe(choice(DELIVERY_STATES)),
  event_id: maybe(ID),
  before: maybe(text(undefined, { pattern: String.raw`^\d{1,16}$` })),
  limit: integer(undefined, { minimum: 1, maximum: 200 }),
});
export type WebhookDeliveries = Value<typeof WEBHOOK_DELIVERIES>;
export interface WebhookDeliveriesReply {
  deliveries: WebhookDelivery[];
  next?: string;
}

/** `records.webhook.send`: an event of the kind `webhook.test`, one event again, or all that failed since an instant. */
export const WEBHOOK_SEND = record({
  ...NAMED,
  event_id: maybe(ID),
  failed_since: maybe(integer()),
});
export type WebhookSend = Omit<Value<typeof WEBHOOK_SEND>, 'failed_since'> & { failed_since?: EpochMs };
export interface WebhookSendReply {
  /** How many wait to be sent. */
  queued: number;
  /** The test. */
  delivery?: WebhookDelivery;
}
