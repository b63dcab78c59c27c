import {
  choice,
  closed,
  flag,
  instant,
  integer,
  list,
  maybe,
  named,
  nullable,
  object,
  record,
  text,
  type Value,
} from '../json-schema.js';
import { EVENT_KINDS } from '../messages/event-kinds.js';
import { answer, empty, routes } from './route.js';

/** Events that an endpoint receives. */
const FILTER = {
  kinds: list(choice(EVENT_KINDS), 'Kinds of events', { minItems: 1, maxItems: EVENT_KINDS.length }),
  tools: maybe(list(text(), 'Globs of tools: only events about them', { maxItems: 50 })),
  toolsets: maybe(list(text(), 'Only events of calls through these toolsets', { maxItems: 50 })),
};
const SENT = {
  url: text('HTTPS address that events are posted to', { minLength: 1, maxLength: 2_000 }),
  description: maybe(text(undefined, { maxLength: 200 })),
};

const WEBHOOK = named(
  'Webhook',
  record({
    id: text(),
    tenant_id: text(),
    ...SENT,
    ...FILTER,
    state: choice(['on', 'off', 'gone'], 'gone: it answered 410; nothing is sent until it is on again'),
    reason: maybe(text('Why the service switched it off')),
    failing_since: nullable(instant('The last attempt failed, and so did all since then')),
    last_error: nullable(text()),
    created_at: instant(),
    created_by: text(),
    previous_secret_until: nullable(instant('Until then events are also signed with the secret before')),
  }),
);
/** An endpoint that events are posted to. */
export type Webhook = Value<typeof WEBHOOK>;

const DELIVERY_STATES = ['pending', 'delivered', 'failed'] as const;
const WEBHOOK_DELIVERY = named(
  'WebhookDelivery',
  record({
    event_id: text('Header webhook-id: the same for every attempt'),
    kind: text('Kind of the event, or webhook.test'),
    state: choice(DELIVERY_STATES, 'failed: it is not attempted again'),
    attempts: integer('Those that have begun'),
    event_at: instant('When the event happened'),
    next_attempt_at: nullable(instant()),
    ended_at: nullable(instant()),
    status: nullable(integer('HTTP status of the last answer')),
    error: nullable(text('Why the last attempt failed')),
    duration_ms: nullable(integer('Of the last attempt')),
    payload: object('The body that is posted'),
  }),
);
/** An event on its way to an endpoint, or its outcome. */
export type WebhookDelivery = Value<typeof WEBHOOK_DELIVERY>;

const NEW_WEBHOOK = closed({ ...SENT, ...FILTER });
/** Members of an endpoint. */
export type NewWebhook = Value<typeof NEW_WEBHOOK>;

const SECRET = text('Signs the events; only in this answer');
const STORE = ['SERVICE_UNAVAILABLE', 'NOT_FOUND'] as const;

export const WEBHOOK_ROUTES = routes({ owner: 'records', tag: 'webhooks', access: 'manage_webhooks', errors: STORE })({
  'GET /api/v1/webhooks': {
    id: 'listWebhooks',
    summary: 'Endpoints of the tenant',
    answers: { 200: answer('Oldest first', list(WEBHOOK)) },
    errors: ['SERVICE_UNAVAILABLE'],
  },
  'POST /api/v1/webhooks': {
    id: 'createWebhook',
    summary: 'Post events to an address',
    body: NEW_WEBHOOK,
    example: { url: 'https://hooks.example.com/toolfleet', kinds: ['call.finished'], tools: ['report_*'] },
    audit: Object.keys(FILTER),
    answers: { 201: answer('The endpoint with its secret', record({ webhook: WEBHOOK, secret: SECRET })) },
    errors: ['SERVICE_UNAVAILABLE', 'QUOTA_EXCEEDED'],
  },
  'GET /api/v1/webhooks/{id}': {
    id: 'getWebhook',
    summary: 'One endpoint',
    answers: { 200: answer('The endpoint', WEBHOOK) },
  },
  'PUT /api/v1/webhooks/{id}': {
    id: 'changeWebhook',
    summary: 'Change an endpoint, or switch it off and on. Members that are absent stay; an empty list lifts a filter',
    body: closed({
      url: maybe(SENT.url),
      description: SENT.description,
      kinds: maybe(FILTER.kinds),
      tools: FILTER.tools,
      toolsets: FILTER.toolsets,
      on: maybe(flag('False: events are not queued for it, and those that wait are not sent')),
    }),
    example: { on: true },
    audit: [...Object.keys(FILTER), 'on'],
    answers: { 200: answer('The endpoint', WEBHOOK) },
  },
  'DELETE /api/v1/webhooks/{id}': {
    id: 'removeWebhook',
    summary: 'Remove an endpoint with its deliveries',
    answers: { 204: empty('It is removed') },
  },
  'POST /api/v1/webhooks/{id}/rotate': {
    id: 'rotateWebhookSecret',
    summary: 'A new secret; events are signed with both for a while',
    body: closed({
      overlap_hours: maybe(integer('Hours of both signatures; default 24', { minimum: 0, maximum: 168 })),
    }),
    example: { overlap_hours: 24 },
    audit: ['overlap_hours'],
    answers: { 200: answer('The endpoint with the new secret', record({ webhook: WEBHOOK, secret: SECRET })) },
  },
  'POST /api/v1/webhooks/{id}/test': {
    id: 'testWebhook',
    summary: 'Post an event of the kind webhook.test',
    answers: { 202: answer('What waits; see the deliveries for the outcome', WEBHOOK_DELIVERY) },
  },
  'GET /api/v1/webhooks/{id}/deliveries': {
    id: 'listWebhookDeliveries',
    summary: 'Deliveries of an endpoint',
    query: record({
      state: maybe(choice(DELIVERY_STATES)),
      event_id: maybe(text()),
      before: maybe(text('`next` of the page before')),
      limit: maybe(integer('Default 50', { minimum: 1, maximum: 200 })),
    }),
    answers: {
      200: answer('Newest first', record({ deliveries: list(WEBHOOK_DELIVERY), next: maybe(text()) })),
    },
  },
  'POST /api/v1/webhooks/{id}/redeliver': {
    id: 'redeliverWebhook',
    summary: 'Post one event again, or all that failed since an instant',
    body: closed({
      event_id: maybe(text()),
      failed_since: maybe(instant('Of the event')),
    }),
    example: { event_id: 'evt_0a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d' },
    audit: ['event_id', 'failed_since'],
    answers: { 202: answer('How many wait again', record({ redelivered: integer() })) },
  },
});
