import { Module, type Type } from '@nestjs/common';
import { Clock } from '@toolfleet/resilience';
import { Heartbeat, NatsClient, NatsStrategy, toNatsOptions } from '@toolfleet/transport';
import type { LifecycleComponent, ServiceHost } from './lifecycle.js';
import { microserviceComponent } from './nest-component.js';
import { ServiceFaults } from './service-faults.js';

/** The connection of a service to NATS; it connects when its component starts. */
export function connectNats(settings: Parameters<typeof toNatsOptions>[0], host: ServiceHost): NatsClient {
  const { service, clock, metrics, exchange } = host;
  return NatsClient.create({ ...toNatsOptions(settings), name: service, clock, metrics, exchange });
}

/** The Nest module of a service's endpoints: what they use lives as long as the process, and is built by the wiring. */
@Module({})
export class ServiceModule {}

/**
 * The endpoints of a service and its heartbeat: the last components of its list.
 * @param injected instances that controllers are built with, found by their classes; the clock and the faults of the host are there
 */
export function natsEndpoints(
  nats: NatsClient,
  host: ServiceHost,
  controllers: Type[],
  injected: readonly object[],
): [endpoints: LifecycleComponent, heartbeat: LifecycleComponent] {
  const { service, clock, logger, faults } = host;
  const strategy = new NatsStrategy({
    connection: nats,
    queue: service,
    clock,
    onFault: (error, subject) => logger.error({ error, subject }, 'a handler failed'),
  });
  const providers = [
    { provide: Clock, useValue: clock },
    { provide: ServiceFaults, useValue: faults },
    ...injected.map((one) => ({ provide: one.constructor, useValue: one })),
  ];
  const module = { module: ServiceModule, controllers, providers };
  return [
    microserviceComponent({ name: 'endpoints', module, strategy, logger }),
    new Heartbeat(nats, clock, { service, faults }),
  ];
}
