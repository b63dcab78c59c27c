import type { UserAuth } from '@toolfleet/contracts/user-auth';
import { JWT_BEARER, TOKEN_EXCHANGE, TOKEN_TYPE, TokenFailure, type Tokens } from '@toolfleet/oauth';
import { notConfigured, type AuthorizationServers } from './authorization-servers.js';

/** Proof of who the user is, from the sign-in. */
export interface SubjectToken {
  value: string;
  type: 'access_token' | 'id_token';
}

/**
 * Turns the token of a user's sign-in into one for a source: token exchange (RFC 8693), Entra's on-behalf-of, or an Identity Assertion
 * Authorization Grant: the company's provider asserts the user to the authorization server of the source (enterprise-managed authorization).
 * Nothing is used up, so a lost response only means another request.
 */
export class TokenExchange {
  constructor(private readonly servers: AuthorizationServers) {}

  /** @throws TokenFailure of kind `grant` when the server refuses the user; ToolError AUTH_NOT_CONFIGURED, NETWORK_ERROR */
  async run(source: string, auth: UserAuth, subject: SubjectToken): Promise<Tokens> {
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
