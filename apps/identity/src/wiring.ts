import { Module, type DynamicModule } from '@nestjs/common';
import { databaseSettings, serviceDialect } from '@toolfleet/database';
import { Clock } from '@toolfleet/resilience';
import {
  fleetFileReloader,
  KeyRing,
  loadFleetFile,
  microserviceComponent,
  type LifecycleComponent,
  type ServiceHost,
} from '@toolfleet/service';
import { Heartbeat, NatsClient, NatsStrategy, toNatsOptions } from '@toolfleet/transport';
import { EndedRows } from './ended-rows.js';
import { IdentityDatabase } from './identity-database.js';
import type { IdentityConfig } from './identity.config.js';
import { IdentityEndpoint, StoreTimeout } from './identity.endpoint.js';
import { SessionStore } from './session-store.js';
import { SignInEndpoint } from './sign-in/sign-in.endpoint.js';
import { SignInPages, wireSignIn } from './sign-in/wire-sign-in.js';

/** The Nest module of the endpoint. */
@Module({})
class IdentityModule {
  static with(sessions: SessionStore, pages: SignInPages, clock: Clock, storeTimeoutMs: number): DynamicModule {
    return {
      module: IdentityModule,
      controllers: [IdentityEndpoint, SignInEndpoint],
      providers: [
        { provide: SessionStore, useValue: sessions },
        { provide: SignInPages, useValue: pages },
        { provide: Clock, useValue: clock },
        { provide: StoreTimeout, useValue: new StoreTimeout(storeTimeoutMs) },
      ],
    };
  }
}

/** The components of the service in start order: broker, store, removal of ended rows, and last the endpoint. */
export function identityComponents(settings: IdentityConfig, host: ServiceHost): LifecycleComponent[] {
  const { clock, logger, metrics, faults, exchange } = host;
  const nats = NatsClient.create({ ...toNatsOptions(settings), name: 'identity', clock, metrics, exchange });
  const database = new IdentityDatabase(serviceDialect('identity', settings, settings.IDENTITY_DATABASE_PATH));
  const keys = new KeyRing(settings.IDENTITY_SECRET_KEYS);
  const sessions = new SessionStore(database.db, keys);
  const file = loadFleetFile(settings);
  const signIn = wireSignIn(settings, file.sign_in, host, { db: database.db, keys, sessions });
  const strategy = new NatsStrategy({
    connection: nats,
    queue: 'identity',
    clock,
    onFault: (error, subject) => logger.error({ error, subject }, 'a handler failed'),
  });
  return [
    nats.asComponent(),
    {
      name: 'store of sessions and grants',
      settings: databaseSettings(settings, 'IDENTITY_DATABASE_PATH'),
      start: () => database.open(),
      stop: () => database.close(),
    },
    new EndedRows([sessions, ...signIn.stores], clock, logger),
    fleetFileReloader(settings, file, host),
    ...signIn.components,
    microserviceComponent({
      name: 'endpoint',
      module: IdentityModule.with(sessions, signIn.pages, clock, settings.IDENTITY_STORE_TIMEOUT_MS),
      strategy,
      logger,
    }),
    new Heartbeat(nats, clock, { service: 'identity', faults }),
  ];
}
