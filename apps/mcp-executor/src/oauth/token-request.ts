import { ToolError } from '@toolfleet/contracts';
import { JWT_BEARER, TokenClient, TOKEN_TYPE, type CryptoKeyPair, type Tokens } from '@toolfleet/oauth';
import type { SourceAuthorizationServer } from './authorization-server.js';
import type { OAuthOptions } from './oauth-options.js';

/** How tokens of a credential are requested. */
interface TokenRequestDeps {
  /** Called for each request, so that a rotated secret takes effect at once. */
  expand: (value: string) => string;
  fetchFn: typeof fetch;
  /** Tokens have to be bound to this key (DPoP). */
  key: CryptoKeyPair | undefined;
}

/**
 * Requests a token for the fleet by the configured grant.
 * @param rotated refresh token that replaced the configured one
 * @throws TokenFailure; ToolError AUTH_NOT_CONFIGURED
 */
export async function requestToken(
  oauth: OAuthOptions,
  { metadata, scope, resource }: SourceAuthorizationServer,
  rotated: string | undefined,
  { expand, fetchFn, key }: TokenRequestDeps,
): Promise<Tokens> {
  const opened = (value: string | undefined) => (value === undefined ? undefined : expand(value));
  const { signingAlgorithm: algorithm, identity } = oauth;
  const [id, secret, privateKey] = [oauth.clientId, oauth.clientSecret, oauth.privateKey].map(opened);
  const refreshToken = oauth.refreshToken === undefined ? undefined : (rotated ?? expand(oauth.refreshToken));
  let assertion = opened(oauth.assertion);
  if (identity) {
    const tokenUrl = expand(identity.tokenUrl);
    const server = { issuer: tokenUrl, token_endpoint: tokenUrl };
    const [idOfFleet, secretOfFleet] = [identity.clientId, identity.clientSecret].map(opened);
    const provider = new TokenClient(server, { id: idOfFleet, secret: secretOfFleet, secretIn: 'body' }, fetchFn);
    assertion = await provider.assertionFor({
      audience: metadata.issuer,
      resource: resource ?? metadata.issuer,
      subject_token: expand(identity.idToken),
      subject_token_type: `${TOKEN_TYPE}id_token`,
      scope,
    });
  }
  const grant = refreshToken ? 'refresh_token' : assertion ? JWT_BEARER : 'client_credentials';
  const tokens = await new TokenClient(metadata, { id, secret, privateKey, algorithm }, fetchFn, key).request({
    grant_type: grant,
    refresh_token: refreshToken,
    assertion,
    scope,
    resource,
  });
  if (!key || tokens.token_type === 'dpop') return tokens;
  throw new ToolError('AUTH_NOT_CONFIGURED', {
    message: `The authorization server returned a token that is not bound to a key (token_type ${tokens.token_type})`,
    details: { state: 'auth_failed' },
    facts: { reason: 'auth_failed' },
  });
}
