/** `@toolfleet/client/nats`: the NATS client, apart so that browsers do not load it. */
export { ToolfleetNatsClient, type ToolfleetNatsOptions } from './toolfleet-nats-client.js';
