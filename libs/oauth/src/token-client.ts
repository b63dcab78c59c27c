import { importPKCS8 } from 'jose';
import * as oauth from 'oauth4webapi';
import { readTokenAnswer, toTokens, type Tokens } from './token-answer.js';
import { TokenFailure, toTokenFailure } from './token-failure.js';
import type { ServerMetadata } from './server-metadata.js';

export type { CryptoKeyPair } from 'oauth4webapi';
export const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
export const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
/** Prefix of the names of kinds of tokens (RFC 8693 section 3). */
export const TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:';
/** draft-ietf-oauth-identity-assertion-authz-grant. */
const ID_JAG = `${TOKEN_TYPE}id-jag`;

/** How the fleet proves which client it is: by a signed assertion, by a secret, or by its id alone. */
interface ClientIdentity {
  /** Absent where an assertion identifies the workload: nothing is sent. */
  id?: string;
  secret?: string;
  /** Where the secret goes. Default: as the metadata say, else the header. */
  secretIn?: 'header' | 'body';
  /** PKCS#8 PEM, for `private_key_jwt`. */
  privateKey?: string;
  /** JWS algorithm of the key. */
  algorithm?: string;
}

/** Parameters of a token request; undefined ones are left out. */
type TokenParameters = { grant_type: string } & Readonly<Record<string, string | undefined>>;

/** The proofs of a redirect with a code. */
interface CodeChecks {
  state: string;
  verifier: string;
  redirectUri: string;
  /** Resource indicator (RFC 8707). */
  resource?: string;
}

/**
 * One client at one authorization server: token requests and revocation. Its fetch decides which addresses may be reached, also without
 * TLS. Answers are read tolerantly (`readTokenAnswer`).
 */
export class TokenClient {
  readonly client: oauth.Client;
  readonly #parties: [oauth.AuthorizationServer, oauth.Client, oauth.ClientAuth];
  readonly #options;

  /** @param key binds tokens to itself (DPoP, RFC 9449) */
  constructor(
    readonly server: ServerMetadata,
    identity: ClientIdentity,
    request: typeof fetch,
    key?: oauth.CryptoKeyPair,
  ) {
    this.client = { client_id: identity.id ?? 'workload' };
    this.#parties = [server, this.client, authentication(identity)];
    this.#options = {
      [oauth.customFetch]: request,
      [oauth.allowInsecureRequests]: true,
      DPoP: key && oauth.DPoP(this.client, key),
    } as const;
  }

  /** Requests tokens by any grant. @throws TokenFailure; ToolError AUTH_NOT_CONFIGURED, EGRESS_REFUSED when nothing was sent */
  async request(parameters: TokenParameters, signal?: AbortSignal): Promise<Tokens> {
    const form = Object.entries(parameters).filter((pair): pair is [string, string] => pair[1] !== undefined);
    const options = { ...this.#options, signal };
    const send = async () => {
      const { grant_type: grant } = parameters;
      const response = await oauth.genericTokenEndpointRequest(...this.#parties, grant, form, options);
      const answer = await readTokenAnswer(response);
      const recognizedTokenTypes = { n_a: () => undefined };
      return oauth.processGenericTokenEndpointResponse(this.server, this.client, answer, { recognizedTokenTypes });
    };
    const retried = (error: unknown) => (oauth.isDPoPNonceError(error) ? send() : Promise.reject(error as Error));
    try {
      return toTokens(await send().catch(retried));
    } catch (error) {
      signal?.throwIfAborted();
      throw toTokenFailure(
        error,
        Object.values(parameters).filter((value) => value !== undefined),
      );
    }
  }

  /** Exchanges the code of a redirect. @throws as `request`; TokenFailure also for a redirect of another server or attempt */
  async redeem(redirect: URLSearchParams, { state, verifier, redirectUri, resource }: CodeChecks): Promise<Tokens> {
    const options = { ...this.#options, additionalParameters: resource === undefined ? undefined : { resource } };
    try {
      const code = oauth.validateAuthResponse(this.server, this.client, redirect, state);
      const response = await oauth.authorizationCodeGrantRequest(
        ...this.#parties,
        code,
        redirectUri,
        verifier,
        options,
      );
      const answer = await readTokenAnswer(response);
      return toTokens(await oauth.processAuthorizationCodeResponse(this.server, this.client, answer));
    } catch (error) {
      throw toTokenFailure(error, [...redirect.values(), verifier]);
    }
  }

  /**
   * Requests an Identity Assertion Authorization Grant: the identity provider asserts a user to the authorization server of a resource.
   * @throws as `request`; TokenFailure also when the provider issues something else
   */
  async assertionFor(parameters: Readonly<Record<string, string | undefined>>): Promise<string> {
    const form = { grant_type: TOKEN_EXCHANGE, requested_token_type: ID_JAG, ...parameters };
    const { access_token: assertion, issued_token_type: type } = await this.request(form);
    if (type !== ID_JAG) throw new TokenFailure('client', 'the identity provider issues no assertions (id-jag)');
    return assertion;
  }

  /**
   * Ends a refresh token and its access tokens (RFC 7009).
   * @returns false when the metadata of the server name no endpoint for it
   * @throws Error when the server refuses or cannot be reached
   */
  async revoke(refreshToken: string): Promise<boolean> {
    if (this.server.revocation_endpoint === undefined) return false;
    const options = { ...this.#options, additionalParameters: { token_type_hint: 'refresh_token' } };
    await oauth.processRevocationResponse(await oauth.revocationRequest(...this.#parties, refreshToken, options));
    return true;
  }
}

function authentication({ id, secret, secretIn, privateKey, algorithm }: ClientIdentity): oauth.ClientAuth {
  if (id === undefined) return () => undefined;
  if (privateKey !== undefined)
    return async (server, ...request) =>
      oauth.PrivateKeyJwt(await importPKCS8(privateKey, algorithm ?? 'ES256'))(server, ...request);
  if (!secret) return oauth.None();
  return (server, client, body, headers) => {
    const methods = server.token_endpoint_auth_methods_supported;
    const inBody = methods !== undefined && !methods.includes('client_secret_basic');
    if (secretIn === 'body' || (secretIn === undefined && inBody))
      return oauth.ClientSecretPost(secret)(server, client, body, headers);
    // RFC 6749 section 2.3.1: both are form-encoded. Unreserved characters stay as they are, because some servers decode nothing.
    const pair = `${encodeURIComponent(id)}:${encodeURIComponent(secret)}`;
    headers.set('authorization', `Basic ${Buffer.from(pair).toString('base64')}`);
  };
}
