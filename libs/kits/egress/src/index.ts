export { Dialer, type DialTarget } from './connector.js';
export { EgressClient } from './egress-client.js';
export type { EgressLimits, EgressOptions, EgressRequest, EgressResponse } from './egress-options.js';
export { egressFetch, toFetchResponse, type FetchedResponse } from './egress-fetch.js';
export { readFreshnessMs } from './response-freshness.js';
export { Resolver } from './resolver.js';
export { joinHeader } from './response-receiver.js';
