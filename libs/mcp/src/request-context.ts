import type { AuthInfo } from '@modelcontextprotocol/server';
import type { Principal } from '@toolfleet/contracts';
import type { ClientFeatures } from './client-features.js';
import type { Operation } from './operation.js';
import type { Exchange } from './session.js';

/** Context of a request besides its message. It travels through the SDK as its auth info; the token itself does not. */
export class RequestContext {
  constructor(
    readonly principal: Principal,
    readonly exchange: Exchange,
    readonly features: ClientFeatures,
    /** Undefined for a batch. */
    readonly operation?: Operation | undefined,
  ) {}

  toAuthInfo(): AuthInfo {
    const { userId, tools } = this.principal;
    return { token: '', clientId: userId, scopes: [...tools], extra: { context: this } };
  }

  /** @throws TypeError when there is none: the request was not authenticated */
  static of(authInfo: AuthInfo | undefined): RequestContext {
    const context = authInfo?.extra?.['context'];
    if (context instanceof RequestContext) return context;
    throw new TypeError('a request without a principal reached the MCP endpoint');
  }
}
