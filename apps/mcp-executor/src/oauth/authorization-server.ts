import {
  checkResourceAllowed,
  discoverOAuthServerInfo,
  extractWWWAuthenticateParams,
  resourceUrlFromServerUrl,
  type AuthorizationServerMetadata,
  type FetchLike,
} from '@modelcontextprotocol/client';
import { ToolError } from '@toolfleet/contracts';
import type { OAuthOptions } from './oauth-options.js';

/** Where to request tokens for a server, and for what. */
export interface AuthorizationServer {
  url: string;
  metadata: AuthorizationServerMetadata | undefined;
  /** Resource indicator (RFC 8707). */
  resource?: string;
  scope?: string;
}

/** A 401 of the MCP server with its authorization server. */
export interface Challenge {
  response: Response;
  serverUrl: URL;
}

/** The configured token endpoint; undefined when it has to be discovered from a challenge. */
export function readConfiguredServer(
  oauth: OAuthOptions,
  expand: (value: string) => string,
): AuthorizationServer | undefined {
  if (oauth.tokenUrl === undefined) return undefined;
  const url = expand(oauth.tokenUrl);
  const expandOptional = (value: string | undefined) => (value === undefined ? undefined : expand(value));
  // Without an issuer, the audience of assertions is the endpoint itself (RFC 7523 section 3).
  const metadata = { token_endpoint: url, issuer: expandOptional(oauth.issuer) } as AuthorizationServerMetadata;
  return { url, metadata, resource: expandOptional(oauth.resource), scope: oauth.scope };
}

/**
 * Discovers the authorization server from a challenge (RFC 9728, RFC 8414). The operator's scope and resource take precedence
 * over those the server names.
 * @throws ToolError AUTH_NOT_CONFIGURED when it is not the `issuer` the credential belongs to, or no issuer is configured;
 *   otherwise whatever the SDK or the egress guard throws
 */
export async function discoverAuthorizationServer(
  oauth: OAuthOptions,
  expand: (value: string) => string,
  challenge: Challenge,
  fetchFn: FetchLike,
): Promise<AuthorizationServer> {
  const { resourceMetadataUrl, scope: wanted } = extractWWWAuthenticateParams(challenge.response);
  const found = await discoverOAuthServerInfo(challenge.serverUrl, { fetchFn, resourceMetadataUrl });
  const { authorizationServerMetadata: metadata, resourceMetadata } = found;
  const url = String(found.authorizationServerUrl);
  const issuer = metadata?.issuer ?? url;
  if (oauth.issuer === undefined) {
    // The MCP server chooses these names, and could name a server it controls to receive the secret.
    throw refused(`names the authorization server ${issuer}; set oauth.issuer to that if the credential belongs to it`);
  }
  if (!sameIssuer(expand(oauth.issuer), issuer)) {
    throw refused(`names the authorization server ${issuer}, and the credential belongs to ${expand(oauth.issuer)}`);
  }
  const announced = resourceMetadata?.resource;
  if (
    announced !== undefined &&
    !checkResourceAllowed({
      requestedResource: resourceUrlFromServerUrl(challenge.serverUrl),
      configuredResource: announced,
    })
  ) {
    throw refused(`describes itself as another resource, ${announced}`);
  }
  const resource = oauth.resource === undefined ? announced : expand(oauth.resource);
  const scope = oauth.scope ?? wanted ?? resourceMetadata?.scopes_supported?.join(' ');
  return { url, metadata, resource: resource || undefined, scope: scope || undefined };
}

const sameIssuer = (a: string, b: string): boolean => a.replace(/\/$/, '') === b.replace(/\/$/, '');

function refused(reason: string): ToolError {
  return new ToolError('AUTH_NOT_CONFIGURED', {
    message: `The MCP server ${reason}`.slice(0, 400),
    details: { state: 'auth_failed' },
    facts: { reason: 'auth_failed' },
  });
}
