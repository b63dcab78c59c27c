/** What a request brings along besides its message; it travels through the SDK as its auth info. */
import type { AuthInfo } from '@modelcontextprotocol/server';
import { isJsonObject, type Principal } from '@toolfleet/contracts';
import { readFeatures, type ClientFeatures } from './client-features.js';
import type { Operation } from './operation.js';
import type { Exchange } from './session.js';

/** Principal, exchange, operation and the client's features travel through the SDK as its auth info; the token itself does not. */
export function toAuthInfo(
  principal: Principal,
  exchange: Exchange | undefined,
  operation: Operation | undefined,
  features: ClientFeatures,
): AuthInfo {
  const extra = { principal, exchange, operation, features };
  return { token: '', clientId: principal.userId, scopes: [...principal.tools], extra };
}

/** The principal that `toAuthInfo` stored. @throws TypeError when there is none: the request was not authenticated */
export function readPrincipal(authInfo: AuthInfo | undefined): Principal {
  const principal: unknown = authInfo?.extra?.['principal'];
  if (!isJsonObject(principal)) throw new TypeError('a request without a principal reached the MCP endpoint');
  return principal as unknown as Principal;
}

/** The exchange that `toAuthInfo` stored. */
export function readExchange(authInfo: AuthInfo | undefined): Exchange {
  return (authInfo?.extra?.['exchange'] as Exchange | undefined) ?? { project: {} };
}

/** The client's features that `toAuthInfo` stored. */
export function readRequestFeatures(authInfo: AuthInfo | undefined): ClientFeatures {
  return (authInfo?.extra?.['features'] as ClientFeatures | undefined) ?? readFeatures(undefined);
}

/** The operation that `toAuthInfo` stored; undefined for a batch. */
export function readOperation(authInfo: AuthInfo | undefined): Operation | undefined {
  return authInfo?.extra?.['operation'] as Operation | undefined;
}
