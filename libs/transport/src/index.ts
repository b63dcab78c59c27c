export type { AckedMessage, AckedOptions } from './acked-call.js';
export { EndpointContext } from './endpoint-context.js';
export { Endpoint, type EndpointOptions } from './endpoint.js';
export type { IncomingHeaders, OutgoingHeaders } from './headers.js';
export { NatsClient, type NatsClientOptions, type ReceivedMessage, type RequestOptions } from './nats-client.js';
export {
  NatsLink,
  type ConnectionState,
  type IncomingMessage,
  type NatsOptions,
  type NatsSubscription,
} from './nats-connection.js';
export { natsOptionsOf, type NatsSettings } from './nats-settings.js';
export { publicUrl } from './nats-url.js';
export { NatsStrategy, type BodyCheck, type NatsStrategyOptions } from './nats-strategy.js';
export { SharedBreakers, type SharedBreakersOptions } from './shared-breakers.js';
export { StatusBeacon, type BeaconSource } from './status-beacon.js';
export { subjectClass } from './no-responders.js';
export { errorOfReply, errorReply } from './wire-error.js';
