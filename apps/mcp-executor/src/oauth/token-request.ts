import {
  createPrivateKeyJwtAuth,
  OAuthError,
  OAuthErrorCode,
  requestJwtAuthorizationGrant,
  type AddClientAuthentication,
  type FetchLike,
} from '@modelcontextprotocol/client';
import { isToolError, ToolError } from '@toolfleet/contracts';
import { redact } from '@toolfleet/telemetry';
import type { AuthorizationServer } from './authorization-server.js';
import type { OAuthOptions } from './oauth-options.js';

const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const MAX_REASON = 200;
/** OAuth errors that do not concern the credential. */
const TEMPORARY: ReadonlySet<string> = new Set([
  OAuthErrorCode.ServerError,
  OAuthErrorCode.TemporarilyUnavailable,
  OAuthErrorCode.TooManyRequests,
]);

/** Parameters of a token request, without client authentication (`authenticateClient`). */
export async function toTokenParams(
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

/** Exchanges an ID token at the identity provider for an assertion that is valid for this server (RFC 8693). */
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
    clientSecret: identity.clientSecret === undefined ? undefined : expand(identity.clientSecret),
    scope: server.scope,
    fetchFn,
  });
  return jwtAuthGrant;
}

/**
 * Client authentication at a token endpoint: by signed assertion, by secret, or by client id alone. Values are expanded for
 * each request, so that a rotated key takes effect at once.
 */
export function authenticateClient(oauth: OAuthOptions, expand: (value: string) => string): AddClientAuthentication {
  return async (headers, params, url, metadata) => {
    const id = oauth.clientId === undefined ? undefined : expand(oauth.clientId);
    if (id === undefined) return;
    if (oauth.privateKey !== undefined) {
      const sign = createPrivateKeyJwtAuth({
        issuer: id,
        subject: id,
        privateKey: expand(oauth.privateKey),
        alg: oauth.signingAlgorithm,
        audience: oauth.issuer === undefined ? undefined : expand(oauth.issuer),
      });
      return sign(headers, params, url, metadata);
    }
    const secret = oauth.clientSecret === undefined ? '' : expand(oauth.clientSecret);
    const methods = metadata?.token_endpoint_auth_methods_supported ?? [];
    const inBody = methods.includes('client_secret_post') && !methods.includes('client_secret_basic');
    if (secret !== '' && !inBody) {
      // RFC 6749 section 2.3.1: both parts are form-encoded before Basic.
      const pair = Buffer.from(`${encodeForm(id)}:${encodeForm(secret)}`).toString('base64');
      headers.set('authorization', `Basic ${pair}`);
      return;
    }
    params.set('client_id', id);
    if (secret !== '') params.set('client_secret', secret);
  };
}

/**
 * A failed token request as the caller sees it: NETWORK_ERROR when the authorization server is temporarily failing, otherwise
 * AUTH_NOT_CONFIGURED with `state: auth_failed`. A ToolError, such as one of the egress guard, is returned unchanged.
 */
export function toTokenError(error: unknown): ToolError {
  if (isToolError(error)) return error;
  if (error instanceof Error && isToolError(error.cause)) return error.cause;
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof OAuthError ? error.code : undefined;
  const reason = redact(code === undefined || message.startsWith(code) ? message : `${code}: ${message}`);
  const text = `The authorization server returned no token: ${reason.slice(0, MAX_REASON)}`;
  const isTemporary = code !== undefined && TEMPORARY.has(code) && !/^HTTP 4(?!08|29)/.test(message);
  if (isTemporary) return new ToolError('NETWORK_ERROR', { message: text, facts: { delivered: false }, cause: error });
  return new ToolError('AUTH_NOT_CONFIGURED', {
    message: text,
    details: code === undefined ? { state: 'auth_failed' } : { state: 'auth_failed', oauth_error: code },
    facts: { reason: 'auth_failed' },
    cause: error,
  });
}

/** `application/x-www-form-urlencoded` form of one value. */
function encodeForm(text: string): string {
  return new URLSearchParams({ v: text }).toString().slice(2);
}
