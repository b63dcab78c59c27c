export { Dialer, SystemDialer, type DialTarget } from './dialer.js';
export {
  EgressClient,
  type EgressLimits,
  type EgressOptions,
  type EgressRequest,
  type EgressResponse,
} from './egress-client.js';
export { egressFetch, type FetchLimits } from './egress-fetch.js';
export type { BlockedHook, EgressLayer, EgressReason } from './refusal.js';
export type { EgressTimeouts } from './request-watch.js';
export { Resolver, SystemResolver } from './resolver.js';
export type { EgressBody } from './response-body.js';
export type { GuardedUrl } from './url-guard.js';
