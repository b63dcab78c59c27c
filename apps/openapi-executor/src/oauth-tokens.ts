import { createHash } from 'node:crypto';
import { egressFetch, type EgressClient } from '@toolfleet/egress';
import { HeldToken, TokenClient } from '@toolfleet/oauth';
import { RecentMap, type Clock } from '@toolfleet/resilience';

/** Parameters of a token request; values may contain `${VAR}` or be sealed. */
export interface OAuthGrant {
  tokenUrl: string;
  /** The token URL is from the document, not from the configuration. */
  isOfDocument: boolean;
  clientId: string;
  clientSecret: string;
  scope: string;
  audience?: string;
  refreshToken?: string;
  /** Where the client sends its id and secret. */
  clientAuth: 'header' | 'body';
}

const MAX_RESPONSE_BYTES = 64 * 1024;

/** Access tokens by grant. The token endpoint is reached through the egress guard. */
export class OAuthTokens {
  private readonly tokens = new RecentMap<string, HeldToken>({ max: 1_000 });
  private readonly fetch: typeof fetch;

  constructor(
    egress: EgressClient,
    private readonly clock: Clock,
  ) {
    this.fetch = egressFetch(egress, { maxBytes: MAX_RESPONSE_BYTES });
  }

  /**
   * @param refused the token that the upstream refused
   * @throws ToolError AUTH_NOT_CONFIGURED when the endpoint refuses the client; NETWORK_ERROR; egress errors
   */
  async get(grant: OAuthGrant, signal: AbortSignal, refused: string | undefined): Promise<string> {
    const key = createHash('sha256').update(JSON.stringify(grant)).digest('base64url');
    const held =
      this.tokens.get(key) ??
      new HeldToken(this.clock, (rotated, flight) => this.request(grant, rotated ?? grant.refreshToken, flight));
    this.tokens.set(key, held);
    if (refused !== undefined) held.forget(refused);
    return (await held.get(signal)).access_token;
  }

  private request(grant: OAuthGrant, refreshToken: string | undefined, signal: AbortSignal) {
    const { tokenUrl, clientId: id, clientSecret: secret, clientAuth: secretIn, scope, audience } = grant;
    const server = { issuer: tokenUrl, token_endpoint: tokenUrl };
    // The egress guard judges the address as it is written, before a parser has made it regular.
    const request: typeof fetch = (_url, init) => this.fetch(tokenUrl, init);
    const parameters = {
      grant_type: refreshToken === undefined ? 'client_credentials' : 'refresh_token',
      refresh_token: refreshToken,
      scope: scope || undefined,
      audience,
    };
    return new TokenClient(server, { id, secret, secretIn }, request).request(parameters, signal);
  }
}
