import { Module, type DynamicModule } from '@nestjs/common';
import { databaseSettings, serviceDialect } from '@toolfleet/database';
import { Clock } from '@toolfleet/resilience';
import { microserviceComponent, ServiceFaults, type LifecycleComponent, type ServiceHost } from '@toolfleet/service';
import { Heartbeat, NatsClient, NatsStrategy, toNatsOptions } from '@toolfleet/transport';
import { ApprovalEndpoint } from './approval.endpoint.js';
import { BodySeal } from './body-seal.js';
import { CallRetention } from './call-retention.js';
import { CallStore } from './call-store.js';
import type { RecordsConfig } from './records.config.js';
import { RecordsEndpoint, StoreTimeout } from './records.endpoint.js';
import { readTenantDays } from './tenant-days.js';

/** The Nest module of the endpoint. */
@Module({})
class RecordsModule {
  static with(store: CallStore, { clock, faults }: ServiceHost, storeTimeoutMs: number): DynamicModule {
    return {
      module: RecordsModule,
      controllers: [RecordsEndpoint, ApprovalEndpoint],
      providers: [
        { provide: CallStore, useValue: store },
        { provide: Clock, useValue: clock },
        { provide: ServiceFaults, useValue: faults },
        { provide: StoreTimeout, useValue: new StoreTimeout(storeTimeoutMs) },
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
  const store = new CallStore(serviceDialect('records', settings, settings.RECORDS_DATABASE_PATH), seal);
  const kept = {
    days: settings.RECORDS_RETENTION_DAYS,
    of: settings.RECORDS_RETENTION_DAYS_OF.map(readTenantDays),
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
      settings: databaseSettings(settings, 'RECORDS_DATABASE_PATH'),
      start: () => store.open(),
      stop: () => store.close(),
    },
    new CallRetention(store, kept, { clock, logger }),
    microserviceComponent({
      name: 'door',
      module: RecordsModule.with(store, host, settings.RECORDS_STORE_TIMEOUT_MS),
      strategy,
      logger,
    }),
    new Heartbeat(nats, clock, { service: 'records', faults }),
  ];
}
