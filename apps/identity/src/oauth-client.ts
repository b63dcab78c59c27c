import { isToolError, ToolError } from '@toolfleet/contracts';
import type { UserAuth } from '@toolfleet/contracts/user-auth';
import * as oauth from 'oauth4webapi';

/** What an authorization server granted. */
interface Tokens {
  access_token: string;
  refresh_token?: string;
  /** Seconds. */
  expires_in?: number;
  scopes?: string[];
}

/** What a user is sent to the authorization server with. The verifier stays here until the code comes back. */
interface Authorization {
  url: string;
  state: string;
  verifier: string;
}

/** Life of an access token without `expires_in`, which RFC 6749 section 5.1 leaves open. */
export const DEFAULT_LIFE_S = 300;

interface OAuthDeps {
  fetch: typeof fetch;
  /** Expands `${VAR}` and opens secrets that the registry sealed for the source. */
  open(value: string, source: string): string;
}

/** The service as an OAuth client of the authorization servers of sources, with PKCE S256 (RFC 7636) and checks of `iss` (RFC 9207). */
export class OAuthClient {
  constructor(private readonly deps: OAuthDeps) {}

  /** @throws ToolError AUTH_NOT_CONFIGURED, NETWORK_ERROR */
  async begin(source: string, auth: UserAuth, redirectUri: string): Promise<Authorization> {
    const { as, client } = await this.#server(source, auth);
    if (as.authorization_endpoint === undefined) throw notConfigured(source, 'names no authorization endpoint');
    const [state, verifier] = [oauth.generateRandomState(), oauth.generateRandomCodeVerifier()];
    const url = new URL(as.authorization_endpoint);
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
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
    return { url: url.href, state, verifier };
  }

  /** Exchanges the code of a redirect. @throws ToolError REQUEST_INVALID for a redirect of another server or a refused code */
  async finish(
    source: string,
    auth: UserAuth,
    redirect: URLSearchParams,
    { state, verifier, redirectUri }: { state: string; verifier: string; redirectUri: string },
  ): Promise<Tokens> {
    const { as, client, authenticate, options } = await this.#server(source, auth);
    try {
      const parameters = oauth.validateAuthResponse(as, client, redirect, state);
      const response = await oauth.authorizationCodeGrantRequest(
        as,
        client,
        authenticate,
        parameters,
        redirectUri,
        verifier,
        {
          ...options,
          ...(auth.resource !== undefined && { additionalParameters: { resource: auth.resource } }),
        },
      );
      return toTokens(await oauth.processAuthorizationCodeResponse(as, client, response));
    } catch (error) {
      if (isToolError(error)) throw error;
      const message = `${source} did not authorize the connection: ${reasonOf(error)}; connect again`;
      throw new ToolError('REQUEST_INVALID', { message, cause: error });
    }
  }

  /** @throws RefreshRefused, RefreshUncertain, ToolError */
  async refresh(source: string, auth: UserAuth, refreshToken: string): Promise<Tokens> {
    const { as, client, authenticate, options } = await this.#server(source, auth);
    try {
      const response = await oauth.refreshTokenGrantRequest(as, client, authenticate, refreshToken, options);
      return toTokens(await oauth.processRefreshTokenResponse(as, client, response));
    } catch (error) {
      if (error instanceof oauth.ResponseBodyError && error.status < 500 && error.status !== 429)
        throw new RefreshRefused(reasonOf(error), { cause: error });
      const isUnsent = isToolError(error) && error.facts?.delivered === false;
      if (isUnsent || error instanceof oauth.ResponseBodyError)
        throw new ToolError('NETWORK_ERROR', { message: `${source} issues no tokens at the moment`, cause: error });
      throw new RefreshUncertain('the response was lost', { cause: error });
    }
  }

  async #server(source: string, auth: UserAuth) {
    const open = (value: string) => this.deps.open(value, source);
    const options = { [oauth.customFetch]: this.deps.fetch, [oauth.allowInsecureRequests]: true } as const;
    const { authorization_url: authorizationUrl, token_url: tokenUrl, issuer, client_id: clientId } = auth;
    if (clientId === undefined) throw notConfigured(source, 'has no auth.user.client_id');
    const as = await this.#metadata(source, issuer === undefined ? undefined : open(issuer), {
      authorization_endpoint: authorizationUrl === undefined ? undefined : open(authorizationUrl),
      token_endpoint: tokenUrl === undefined ? undefined : open(tokenUrl),
    });
    const secret = auth.client_secret === undefined ? undefined : open(auth.client_secret);
    const methods = as.token_endpoint_auth_methods_supported;
    const inBody = methods !== undefined && !methods.includes('client_secret_basic');
    const authenticate =
      secret === undefined ? oauth.None() : inBody ? oauth.ClientSecretPost(secret) : oauth.ClientSecretBasic(secret);
    return { as, client: { client_id: open(clientId) } satisfies oauth.Client, authenticate, options };
  }

  /** Configured endpoints, else those of the metadata of the issuer (RFC 8414, then OpenID Connect Discovery). */
  async #metadata(
    source: string,
    issuer: string | undefined,
    given: { authorization_endpoint: string | undefined; token_endpoint: string | undefined },
  ): Promise<oauth.AuthorizationServer> {
    const { authorization_endpoint, token_endpoint } = given;
    if (authorization_endpoint !== undefined && token_endpoint !== undefined)
      return { issuer: issuer ?? new URL(token_endpoint).origin, authorization_endpoint, token_endpoint };
    if (issuer === undefined) throw notConfigured(source, 'needs auth.user.issuer, or authorization_url and token_url');
    const expected = new URL(issuer);
    let cause: unknown;
    for (const algorithm of ['oauth2', 'oidc'] as const) {
      try {
        const response = await oauth.discoveryRequest(expected, {
          algorithm,
          [oauth.customFetch]: this.deps.fetch,
          [oauth.allowInsecureRequests]: true,
        });
        const found = await oauth.processDiscoveryResponse(expected, response);
        return {
          ...found,
          ...(authorization_endpoint !== undefined && { authorization_endpoint }),
          ...(token_endpoint !== undefined && { token_endpoint }),
        };
      } catch (error) {
        if (isToolError(error) && error.code !== 'NETWORK_ERROR') throw error;
        cause = error;
      }
    }
    throw new ToolError('NETWORK_ERROR', { message: `The metadata of ${issuer} cannot be read`, cause });
  }
}

/** The authorization server refuses the refresh token; another try would be refused as well. */
export class RefreshRefused extends Error {}
/** Whether the authorization server has replaced the refresh token is not known. */
export class RefreshUncertain extends Error {}

function toTokens({ access_token, refresh_token, expires_in, scope }: oauth.TokenEndpointResponse): Tokens {
  return {
    access_token,
    ...(refresh_token !== undefined && { refresh_token }),
    ...(expires_in !== undefined && { expires_in }),
    ...(scope !== undefined && { scopes: scope.split(' ').filter(Boolean) }),
  };
}

/** The error code of the protocol; never a text that may quote what was sent. */
function reasonOf(error: unknown): string {
  if (error instanceof oauth.ResponseBodyError || error instanceof oauth.AuthorizationResponseError) return error.error;
  return error instanceof oauth.OperationProcessingError
    ? (error.code ?? 'an invalid response')
    : 'an invalid response';
}

const notConfigured = (source: string, what: string): ToolError =>
  new ToolError('AUTH_NOT_CONFIGURED', { message: `${source} ${what}` });
