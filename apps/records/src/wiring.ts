import { Module, type DynamicModule } from '@nestjs/common';
import { readQuotas } from '@toolfleet/contracts/account';
import { eventSubject } from '@toolfleet/contracts/subjects';
import { toSentEvent } from '@toolfleet/contracts/events';
import { databaseSettings, serviceDialect } from '@toolfleet/database';
import { EgressClient } from '@toolfleet/egress';
import { Clock } from '@toolfleet/resilience';
import {
  AllowedEndpoints,
  microserviceComponent,
  ServiceFaults,
  VERSION,
  type LifecycleComponent,
  type ServiceHost,
} from '@toolfleet/service';
import { Heartbeat, NatsClient, NatsStrategy, toNatsOptions } from '@toolfleet/transport';
import { ApprovalEndpoint } from './approval.endpoint.js';
import { BodySeal } from './body-seal.js';
import { CallRetention } from './call-retention.js';
import { RecordedCallStore } from './call-store.js';
import { EventEndpoint, RefusedEvents } from './event.endpoint.js';
import { ApprovalGrantEndpoint } from './approval-grant.endpoint.js';
import type { RecordsConfig } from './records.config.js';
import { RecordsEndpoint, RecordsTimeout } from './records.endpoint.js';
import { readTenantDays } from './tenant-days.js';
import { MAX_REQUESTS, WebhookSender } from './webhook-sender.js';
import { WebhookRoutes } from './webhook.routes.js';

/** The Nest module of the endpoint. */
@Module({})
class RecordsModule {
  static with(
    store: RecordedCallStore,
    { sender, egress }: Webhooks,
    host: ServiceHost,
    storeTimeoutMs: number,
  ): DynamicModule {
    return {
      module: RecordsModule,
      controllers: [RecordsEndpoint, ApprovalEndpoint, ApprovalGrantEndpoint, EventEndpoint, WebhookRoutes],
      providers: [
        { provide: RecordedCallStore, useValue: store },
        { provide: WebhookSender, useValue: sender },
        { provide: EgressClient, useValue: egress },
        { provide: RefusedEvents, useValue: new RefusedEvents(host) },
        { provide: Clock, useValue: host.clock },
        { provide: ServiceFaults, useValue: host.faults },
        { provide: RecordsTimeout, useValue: new RecordsTimeout(storeTimeoutMs) },
      ],
    };
  }
}

/** The components of the service in start order: broker, store, retention, and last the endpoint. */
export function recordsComponents(settings: RecordsConfig, host: ServiceHost): LifecycleComponent[] {
  const { clock, logger, metrics, faults, exchange } = host;
  const nats = NatsClient.create({ ...toNatsOptions(settings), name: 'records', clock, metrics, exchange });
  const secretKey = settings.RECORDS_SECRET_KEY;
  const seal = secretKey === undefined ? undefined : new BodySeal(secretKey);
  const quotas = readQuotas(settings.TENANT_QUOTAS);
  const store = new RecordedCallStore(serviceDialect('records', settings), seal, secretKey, quotas);
  const webhooks = wireWebhooks(settings, host, store, nats, quotas.webhook_deliveries);
  const kept = {
    days: settings.RECORDS_RETENTION_DAYS,
    of: settings.RECORDS_RETENTION_DAYS_OF.map(readTenantDays),
    deliveryDays: DELIVERY_DAYS,
  };
  const strategy = new NatsStrategy({
    connection: nats,
    queue: 'records',
    clock,
    onFault: (error, subject) => logger.error({ error, subject }, 'a handler failed'),
  });
  return [
    nats.asComponent(),
    {
      name: 'call store',
      settings: databaseSettings(settings),
      start: () => store.open(),
      stop: () => store.close(),
    },
    new CallRetention(store, kept, { clock, logger }),
    webhooks.allowedEndpoints,
    { name: 'egress', stop: () => webhooks.egress.close() },
    webhooks.sender,
    microserviceComponent({
      name: 'endpoints',
      module: RecordsModule.with(store, webhooks, host, settings.STORE_TIMEOUT_MS),
      strategy,
      logger,
    }),
    new Heartbeat(nats, clock, { service: 'records', faults }),
  ];
}

/** Days for which a delivery that ended is in the log and can be sent again: two weeks of a receiver's repair. */
const DELIVERY_DAYS = 14;

type Webhooks = ReturnType<typeof wireWebhooks>;

/** What tells people and services of events: NATS at once, webhooks from their queue. */
function wireWebhooks(
  settings: RecordsConfig,
  host: ServiceHost,
  store: RecordedCallStore,
  nats: NatsClient,
  maxPending: number,
) {
  const { clock, metrics } = host;
  const allowedEndpoints = new AllowedEndpoints(settings, host);
  const timeoutMs = settings.WEBHOOK_TIMEOUT_MS;
  const egress = new EgressClient({
    allowlist: settings.WEBHOOK_ALLOWED_DOMAINS,
    allowlistKey: 'WEBHOOK_ALLOWED_DOMAINS',
    allowAnyHost: true,
    allowedEndpoints,
    deniedCidrs: settings.EGRESS_DENIED_CIDRS,
    clock,
    onBlocked: (layer, reason) => metrics.egressBlocked.inc({ layer, reason }),
    limits: { totalConnections: MAX_REQUESTS, connectionsPerHost: MAX_REQUESTS, connectMs: timeoutMs },
    userAgent: `toolfleet/${VERSION}`,
  });
  const { webhooks: endpoints, deliveries: queue } = store;
  const sender = new WebhookSender({ queue, endpoints, egress, timeoutMs, maxPending }, host);
  store.events.onStored(({ events, endpoints: ids }) => {
    sender.wake(ids);
    if (!nats.connected) return;
    for (const event of events) nats.publish(eventSubject(event.tenant_id, event.kind), toSentEvent(event));
  });
  return { allowedEndpoints, egress, sender };
}
