import { requestJwtAuthorizationGrant, type FetchLike } from '@modelcontextprotocol/client';
import type { AuthorizationServer } from './authorization-server.js';
import type { OAuthOptions } from './oauth-options.js';

const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';

/** What a token is asked for with: parameters of the token request, without those by which the client proves itself. */
export async function tokenGrant(
  oauth: OAuthOptions,
  refreshToken: string | undefined,
  server: AuthorizationServer,
  { expand, fetchFn }: { expand: (value: string) => string; fetchFn: FetchLike },
): Promise<URLSearchParams> {
  const params = new URLSearchParams();
  const assertion = oauth.assertion === undefined ? undefined : expand(oauth.assertion);
  if (refreshToken !== undefined) {
    params.set('grant_type', 'refresh_token');
    params.set('refresh_token', refreshToken);
  } else if (assertion !== undefined) {
    params.set('grant_type', JWT_BEARER);
    params.set('assertion', assertion);
  } else if (oauth.identity) {
    params.set('grant_type', JWT_BEARER);
    params.set('assertion', await identityGrant(oauth.identity, server, expand, fetchFn));
  } else {
    params.set('grant_type', 'client_credentials');
  }
  if (server.scope !== undefined) params.set('scope', server.scope);
  return params;
}

/** The identity provider's word for this server, in exchange for an ID token (RFC 8693). */
async function identityGrant(
  identity: NonNullable<OAuthOptions['identity']>,
  server: AuthorizationServer,
  expand: (value: string) => string,
  fetchFn: FetchLike,
): Promise<string> {
  const { jwtAuthGrant } = await requestJwtAuthorizationGrant({
    tokenEndpoint: expand(identity.tokenUrl),
    audience: server.metadata?.issuer ?? server.url,
    resource: server.resource ?? server.url,
    idToken: expand(identity.idToken),
    clientId: expand(identity.clientId),
    ...(identity.clientSecret === undefined ? {} : { clientSecret: expand(identity.clientSecret) }),
    ...(server.scope === undefined ? {} : { scope: server.scope }),
    fetchFn,
  });
  return jwtAuthGrant;
}
