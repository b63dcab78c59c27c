import type { AuthInfo } from '@modelcontextprotocol/server';
import { isJsonObject, type Principal } from '@toolfleet/contracts';

/** The principal travels through the SDK as what it calls auth info; the token itself does not. */
export function authInfoOf(principal: Principal): AuthInfo {
  return { token: '', clientId: principal.userId, scopes: [...principal.tools], extra: { principal } };
}

/** The principal of a request. @throws TypeError when there is none: nothing is served to nobody */
export function principalOf(authInfo: AuthInfo | undefined): Principal {
  const principal: unknown = authInfo?.extra?.['principal'];
  if (!isJsonObject(principal)) throw new TypeError('a request without a principal reached the MCP door');
  return principal as unknown as Principal;
}
