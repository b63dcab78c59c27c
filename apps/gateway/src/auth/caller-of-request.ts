import type { Principal } from '@toolfleet/contracts';
import type { Authenticate } from './authenticate.js';
import { credentialOfRawHeaders } from './credential.js';
import { isLoopbackRequest } from './loopback.js';
import { unauthenticated } from './unauthenticated.js';

/**
 * Who sent an HTTP request; the one way from headers to a principal. Where requests without a credential are accepted
 * (`GATEWAY_SKIP_AUTH`), only those that name a loopback host are: otherwise any web page could call the fleet of a developer.
 * @throws ToolError UNAUTHENTICATED, or SERVICE_UNAVAILABLE when proof is out of reach
 */
export async function callerOfRequest(authenticate: Authenticate, rawHeaders: readonly string[]): Promise<Principal> {
  const credential = credentialOfRawHeaders(rawHeaders);
  if (credential === undefined && !isLoopbackRequest(rawHeaders)) throw unauthenticated();
  return authenticate(credential);
}
