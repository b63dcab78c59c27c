import { readQuotas } from '@toolfleet/contracts/account';
import { eventSubject } from '@toolfleet/contracts/subjects';
import { toSentEvent } from '@toolfleet/contracts/events';
import { databaseSettings, serviceDialect } from '@toolfleet/database';
import type { LifecycleComponent, ServiceHost } from '@toolfleet/service';
import { guardedEgress } from '@toolfleet/service/egress';
import { connectNats, natsEndpoints } from '@toolfleet/service/nats';
import type { NatsClient } from '@toolfleet/transport';
import { approvalEndpoints } from './approval.endpoint.js';
import { callRetention } from './call-retention.js';
import { RecordedCallStore } from './call-store.js';
import { eventEndpoint } from './event.endpoint.js';
import { ApprovalGrantRoutes } from './approval-grant.routes.js';
import type { RecordsConfig } from './records.config.js';
import { recordsEndpoints } from './records.endpoint.js';
import { readTenantDays } from './tenant-days.js';
import { MAX_REQUESTS, WebhookSender } from './webhook-sender.js';
import { WebhookRoutes } from './webhook.routes.js';

/** The components of the service in start order: broker, store, retention, and last the endpoint. */
export function recordsComponents(settings: RecordsConfig, host: ServiceHost): LifecycleComponent[] {
  const nats = connectNats(settings, host);
  const secretKey = settings.RECORDS_SECRET_KEY;
  const quotas = readQuotas(settings.TENANT_QUOTAS);
  const store = new RecordedCallStore(serviceDialect('records', settings), secretKey, quotas);
  const webhooks = wireWebhooks(settings, host, store, nats, quotas.webhook_deliveries);
  const kept = {
    days: settings.RECORDS_RETENTION_DAYS,
    of: settings.RECORDS_RETENTION_DAYS_OF.map(readTenantDays),
    deliveryDays: DELIVERY_DAYS,
  };
  const controllers = [
    ...recordsEndpoints(store, settings.STORE_TIMEOUT_MS, host),
    ...approvalEndpoints(store, host),
    eventEndpoint(store, host),
    ApprovalGrantRoutes,
    WebhookRoutes,
  ];
  const { sender, egress } = webhooks;
  return [
    nats.asComponent(),
    {
      name: 'call store',
      settings: databaseSettings(settings),
      start: () => store.open(),
      stop: () => store.close(),
    },
    callRetention(store, kept, host),
    ...webhooks.components,
    ...natsEndpoints(nats, host, controllers, [store, sender, egress]),
  ];
}

/** Days for which a delivery that ended is in the log and can be sent again: two weeks of a receiver's repair. */
const DELIVERY_DAYS = 14;

/** What tells people and services of events: NATS at once, webhooks from their queue. */
function wireWebhooks(
  settings: RecordsConfig,
  host: ServiceHost,
  store: RecordedCallStore,
  nats: NatsClient,
  maxPending: number,
) {
  const timeoutMs = settings.WEBHOOK_TIMEOUT_MS;
  const { client: egress, components } = guardedEgress(settings, host, 'egress', {
    allowlist: settings.WEBHOOK_ALLOWED_DOMAINS,
    allowlistKey: 'WEBHOOK_ALLOWED_DOMAINS',
    allowAnyHost: true,
    limits: { totalConnections: MAX_REQUESTS, connectionsPerHost: MAX_REQUESTS, connectMs: timeoutMs },
  });
  const { webhooks: endpoints, deliveries: queue } = store;
  const sender = new WebhookSender({ queue, endpoints, egress, timeoutMs, maxPending }, host);
  store.events.onStored(({ events, endpoints: ids }) => {
    sender.wake(ids);
    if (!nats.connected) return;
    for (const event of events) nats.publish(eventSubject(event.tenant_id, event.kind), toSentEvent(event));
  });
  return { egress, sender, components: [...components, sender] };
}
