import { ToolError } from '@toolfleet/contracts';
import type { UserAuth } from '@toolfleet/contracts/user-auth';
import * as oauth from 'oauth4webapi';
import { notConfigured, type AuthorizationServers, type ServerAccess } from './authorization-servers.js';
import { RefreshRefused, RefreshUncertain, tokenFailure, toTokens, type Tokens } from './token-response.js';

/** Proof of who the user is, from the sign-in. */
export interface SubjectToken {
  value: string;
  type: 'access_token' | 'id_token';
}

const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
/** RFC 8693 section 3; `id-jag` of draft-ietf-oauth-identity-assertion-authz-grant. */
const TYPE = 'urn:ietf:params:oauth:token-type:';
const ID_JAG = `${TYPE}id-jag`;

/**
 * Turns the token of a user's sign-in into one for a source: token exchange (RFC 8693), Entra's on-behalf-of, or an Identity Assertion
 * Authorization Grant: the company's provider asserts the user to the authorization server of the source (enterprise-managed authorization).
 * Nothing is used up, so a lost response only means another request.
 */
export class TokenExchange {
  constructor(private readonly servers: AuthorizationServers) {}

  /** @throws RefreshRefused when the server refuses the user; ToolError AUTH_NOT_CONFIGURED, NETWORK_ERROR */
  async run(source: string, auth: UserAuth, subject: SubjectToken): Promise<Tokens> {
    try {
      if (auth.mode === 'id_jag') return await this.#byAssertion(source, auth, subject);
      const server = await this.servers.of(source, auth);
      const isOnBehalf = auth.grant === 'on_behalf_of';
      return toTokens(
        isOnBehalf
          ? await request(server, JWT_BEARER, {
              assertion: subject.value,
              requested_token_use: 'on_behalf_of',
              ...scopeOf(auth),
            })
          : await request(server, TOKEN_EXCHANGE, {
              ...subjectOf(subject),
              requested_token_type: `${TYPE}access_token`,
              ...targetOf(auth),
              ...(auth.audience !== undefined && { audience: auth.audience }),
            }),
      );
    } catch (error) {
      const failure = tokenFailure(source, error);
      if (failure instanceof RefreshRefused)
        throw new RefreshRefused(`the authorization server refuses your sign-in (${failure.message})`, {
          cause: error,
        });
      if (!(failure instanceof RefreshUncertain)) throw failure;
      throw new ToolError('NETWORK_ERROR', { message: `${source} issues no tokens at the moment`, cause: error });
    }
  }

  async #byAssertion(source: string, auth: UserAuth, subject: SubjectToken): Promise<Tokens> {
    const [server, provider] = await Promise.all([
      this.servers.of(source, auth),
      this.servers.of(source, auth.identity ?? {}),
    ]);
    if (auth.issuer === undefined) throw notConfigured(source, 'needs auth.user.issuer, the audience of the assertion');
    const asserted = await request(
      provider,
      TOKEN_EXCHANGE,
      {
        ...subjectOf(subject),
        requested_token_type: ID_JAG,
        audience: auth.audience ?? server.as.issuer,
        ...targetOf(auth),
      },
      // An assertion is not an access token, so its type is N_A (RFC 8693 section 2.2.1).
      { n_a: () => undefined },
    );
    if (asserted['issued_token_type'] !== ID_JAG)
      throw notConfigured(
        source,
        'has an identity provider that issues no assertions (id-jag); check auth.user.identity',
      );
    return toTokens(await request(server, JWT_BEARER, { assertion: asserted.access_token, ...scopeOf(auth) }));
  }
}

async function request(
  { as, client, authenticate, options }: ServerAccess,
  grantType: string,
  parameters: Record<string, string>,
  recognizedTokenTypes?: oauth.RecognizedTokenTypes,
): Promise<oauth.TokenEndpointResponse> {
  const response = await oauth.genericTokenEndpointRequest(as, client, authenticate, grantType, parameters, options);
  return oauth.processGenericTokenEndpointResponse(as, client, response, {
    ...(recognizedTokenTypes && { recognizedTokenTypes }),
  });
}

const subjectOf = ({ value, type }: SubjectToken) => ({
  subject_token: value,
  subject_token_type: `${TYPE}${type}`,
});
const scopeOf = ({ scopes }: UserAuth): Record<string, string> => (scopes ? { scope: scopes.join(' ') } : {});
const targetOf = ({ resource, ...auth }: UserAuth): Record<string, string> => ({
  ...scopeOf(auth),
  ...(resource !== undefined && { resource }),
});
