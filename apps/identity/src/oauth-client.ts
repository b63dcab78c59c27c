import { isToolError, ToolError } from '@toolfleet/contracts';
import { addressFault } from '@toolfleet/contracts/person-address';
import type { UserAuth } from '@toolfleet/contracts/user-auth';
import { JWT_BEARER, TOKEN_EXCHANGE, TOKEN_TYPE, TokenFailure, type Tokens } from '@toolfleet/oauth';
import * as oauth from 'oauth4webapi';
import { notConfigured, type AuthorizationServers } from './authorization-servers.js';

/** Proof of who the user is, from the sign-in. */
export interface SubjectToken {
  value: string;
  type: 'access_token' | 'id_token';
}

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
      scope: auth.scopes?.join(' '),
      resource: auth.resource,
      // OpenID Connect Core section 11: a refresh token may need consent to offline access.
      prompt: auth.scopes?.includes('offline_access') ? 'consent' : undefined,
    };
    for (const [name, value] of Object.entries(parameters))
      if (value !== undefined) endpoint.searchParams.set(name, value);
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

  /**
   * Turns the token of a user's sign-in into one for a source: token exchange (RFC 8693), Entra's on-behalf-of, or an Identity Assertion
   * Authorization Grant: the company's provider asserts the user to the authorization server of the source (enterprise-managed authorization).
   * Nothing is used up, so a lost response only means another request.
   * @throws TokenFailure of kind `grant` when the server refuses the user; ToolError AUTH_NOT_CONFIGURED, NETWORK_ERROR
   */
  async exchange(source: string, auth: UserAuth, subject: SubjectToken): Promise<Tokens> {
    try {
      return await this.#exchange(source, auth, subject);
    } catch (error) {
      if (!(error instanceof TokenFailure) || error.kind === 'client') throw error;
      if (error.kind !== 'grant') throw new TokenFailure('unavailable', error.reason, { cause: error });
      throw new TokenFailure('grant', `the authorization server refuses your sign-in (${error.reason})`, {
        cause: error,
      });
    }
  }

  async #exchange(source: string, auth: UserAuth, { value, type }: SubjectToken): Promise<Tokens> {
    const { audience, resource } = auth;
    const scope = auth.scopes?.join(' ');
    const subject = { subject_token: value, subject_token_type: `${TOKEN_TYPE}${type}` };
    const client = await this.servers.of(source, auth);
    if (auth.mode === 'id_jag') {
      const provider = await this.servers.of(source, auth.identity ?? {});
      if (auth.issuer === undefined)
        throw notConfigured(source, 'needs auth.user.issuer, the audience of the assertion');
      const about = { ...subject, audience: audience ?? client.server.issuer, scope, resource };
      const assertion = await provider.assertionFor(about);
      return client.request({ grant_type: JWT_BEARER, assertion, scope });
    }
    if (auth.grant === 'on_behalf_of')
      return client.request({
        grant_type: JWT_BEARER,
        assertion: value,
        requested_token_use: 'on_behalf_of',
        scope,
      });
    return client.request({
      grant_type: TOKEN_EXCHANGE,
      ...subject,
      requested_token_type: `${TOKEN_TYPE}access_token`,
      scope,
      resource,
      audience,
    });
  }
}
