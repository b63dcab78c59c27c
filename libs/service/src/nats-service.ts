import { Controller, Module, type Type } from '@nestjs/common';
import type { Schema } from '@toolfleet/contracts/json-schema';
import { REQUESTS, type MessageOf, type ReplyOf, type Requested } from '@toolfleet/contracts/requests';
import { Clock } from '@toolfleet/resilience';
import {
  Endpoint,
  Heartbeat,
  NatsClient,
  NatsStrategy,
  toNatsOptions,
  type EndpointContext,
  type EndpointOptions,
} from '@toolfleet/transport';
import type { LifecycleComponent, ServiceHost } from './lifecycle.js';
import { microserviceComponent } from './nest-component.js';

/** The connection of a service to NATS; it connects when its component starts. */
export function connectNats(settings: Parameters<typeof toNatsOptions>[0], host: ServiceHost): NatsClient {
  const { service, clock, metrics, exchange } = host;
  return NatsClient.create({ ...toNatsOptions(settings), name: service, clock, metrics, exchange });
}

/** The Nest module of a service's endpoints: what they use lives as long as the process, and is built by the wiring. */
@Module({})
export class ServiceModule {}

/** Answers to requests of `REQUESTS`, by their subjects: the compiler compares messages and replies with the rows. */
export type Answers = {
  readonly [S in Requested]?: (message: MessageOf<S>, context: EndpointContext) => Promise<ReplyOf<S>>;
};

/** The endpoints of some requests. `unavailable` is as in `EndpointOptions`. */
export function endpointsOf(answers: Answers, options?: Pick<EndpointOptions, 'unavailable'>): Type[] {
  return Object.entries(answers).map(([subject, answer]) =>
    endpoint(subject, answer as EndpointAnswer<unknown>, { ...options, schema: REQUESTS[subject as Requested].schema }),
  );
}

type EndpointAnswer<T> = (message: T, context: EndpointContext) => Promise<unknown>;

/** One endpoint as a controller of its own, because a process subscribes to the subjects it serves and to no others. */
export function endpoint<T>(
  subject: string,
  answer: EndpointAnswer<T>,
  options: EndpointOptions<T> & { schema: Schema<T> },
): Type {
  @Controller()
  class ServiceEndpoint {
    @Endpoint(subject, options as EndpointOptions)
    answer(message: unknown, context: EndpointContext): Promise<unknown> {
      return answer(message as T, context);
    }
  }
  return ServiceEndpoint;
}

/**
 * The endpoints of a service and its heartbeat: the last components of its list.
 * @param injected instances that controllers are built with, found by their classes; the clock of the host is there
 */
export function natsEndpoints(
  nats: NatsClient,
  host: ServiceHost,
  controllers: Type[],
  injected: readonly object[] = [],
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
    ...injected.map((one) => ({ provide: one.constructor, useValue: one })),
  ];
  const module = { module: ServiceModule, controllers, providers };
  return [
    microserviceComponent({ name: 'endpoints', module, strategy, logger }),
    new Heartbeat(nats, clock, { service, faults }),
  ];
}
