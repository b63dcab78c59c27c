import { isToolError, ToolError } from '@toolfleet/contracts';
import { addressFault } from '@toolfleet/contracts/person-address';
import type { UserAuth } from '@toolfleet/contracts/user-auth';
import { TokenFailure, type Tokens } from '@toolfleet/oauth';
import * as oauth from 'oauth4webapi';
import { notConfigured, type AuthorizationServers } from './authorization-servers.js';

/** Parameters with which a user is sent to the authorization server. The verifier stays here until the code comes back. */
interface Authorization {
  /** With the issuer that the source named, if the settings name none. */
  auth: UserAuth;
  url: string;
  state: string;
  verifier: string;
}

/** The service as an OAuth client of the authorization servers of sources, with PKCE S256 (RFC 7636) and checks of `iss` (RFC 9207). */
export class OAuthClient {
  constructor(private readonly servers: AuthorizationServers) {}

  /** @throws ToolError AUTH_NOT_CONFIGURED, NETWORK_ERROR */
  async begin(source: string, settings: UserAuth, redirectUri: string): Promise<Authorization> {
    const auth = await this.servers.discover(source, settings);
    const { server, client } = await this.servers.of(source, auth);
    const fault = addressFault(server.authorization_endpoint ?? '');
    if (fault !== undefined) throw notConfigured(source, `has an authorization endpoint that is refused: ${fault}`);
    const endpoint = new URL(server.authorization_endpoint!);
    const [state, verifier] = [oauth.generateRandomState(), oauth.generateRandomCodeVerifier()];
    const parameters = {
      response_type: 'code',
      client_id: client.client_id,
      redirect_uri: redirectUri,
      state,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      ...(auth.scopes && { scope: auth.scopes.join(' ') }),
      ...(auth.resource !== undefined && { resource: auth.resource }),
      // OpenID Connect Core section 11: a refresh token may need consent to offline access.
      ...(auth.scopes?.includes('offline_access') && { prompt: 'consent' }),
    };
    for (const [name, value] of Object.entries(parameters)) endpoint.searchParams.set(name, value);
    return { auth, url: endpoint.href, state, verifier };
  }

  /** Exchanges the code of a redirect. @throws ToolError REQUEST_INVALID for a redirect of another server or a refused code */
  async finish(
    source: string,
    auth: UserAuth,
    redirect: URLSearchParams,
    { state, verifier, redirectUri }: { state: string; verifier: string; redirectUri: string },
  ): Promise<Tokens> {
    const client = await this.servers.of(source, auth);
    try {
      return await client.redeem(redirect, { state, verifier, redirectUri, resource: auth.resource });
    } catch (error) {
      if (!(error instanceof TokenFailure)) throw error;
      if (isToolError(error.cause)) throw error.cause;
      const message = `${source} did not authorize the connection: ${error.reason}; connect again`;
      throw new ToolError('REQUEST_INVALID', { message, cause: error });
    }
  }

  /** Ends a refresh token and its access tokens. @see TokenClient.revoke */
  async revoke(source: string, auth: UserAuth, refreshToken: string): Promise<boolean> {
    return (await this.servers.of(source, auth)).revoke(refreshToken);
  }

  /** @throws TokenFailure, ToolError */
  async refresh(source: string, auth: UserAuth, refreshToken: string): Promise<Tokens> {
    const client = await this.servers.of(source, auth);
    return client.request({ grant_type: 'refresh_token', refresh_token: refreshToken });
  }
}
