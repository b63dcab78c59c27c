export { Endpoint, EndpointContext, type EndpointOptions } from './endpoint.js';
export { EventReporter } from './event-reporter.js';
export { Heartbeat } from './heartbeat.js';
export { LocalExchange } from './local-exchange.js';
export { NatsClient } from './nats-client.js';
export { toNatsOptions } from './nats-options.js';
export { type LargeMessages, NatsStrategy } from './nats-strategy.js';
export { subjectClass } from './pending-requests.js';
export { SharedBreakers } from './shared-breakers.js';
