import {
  checkResourceAllowed,
  discoverOAuthProtectedResourceMetadata,
  extractWWWAuthenticateParams,
  resourceUrlFromServerUrl,
  type FetchLike,
} from '@modelcontextprotocol/client';
import { ToolError } from '@toolfleet/contracts';
import { discoverServer, sameIssuer, type ServerMetadata } from '@toolfleet/oauth';
import type { OAuthOptions } from './oauth-options.js';

/** Where to request tokens for a server, and for what. */
export interface SourceAuthorizationServer {
  metadata: ServerMetadata;
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
  { tokenUrl, issuer, resource, scope }: OAuthOptions,
  expand: (value: string) => string,
): SourceAuthorizationServer | undefined {
  if (tokenUrl === undefined) return undefined;
  // Without an issuer, the audience of assertions is the endpoint itself (RFC 7523 section 3).
  const metadata = { token_endpoint: expand(tokenUrl), issuer: expand(issuer ?? tokenUrl) };
  return { metadata, resource: resource && expand(resource), scope };
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
  { response, serverUrl }: Challenge,
  fetchFn: typeof fetch,
): Promise<SourceAuthorizationServer> {
  const { resourceMetadataUrl, scope: wanted } = extractWWWAuthenticateParams(response);
  const found = await readResource(serverUrl, resourceMetadataUrl, fetchFn);
  // Servers of before RFC 9728 are their own authorization servers, and servers of before RFC 8414 have their endpoint at /token.
  const url = found?.authorization_servers?.[0] ?? new URL('/', serverUrl).href;
  const discovered = await discoverServer(url, fetchFn);
  const metadata = discovered ?? { issuer: url, token_endpoint: new URL('/token', url).href };
  const { issuer } = metadata;
  if (oauth.issuer === undefined) {
    // The MCP server chooses these names, and could name a server it controls to receive the secret.
    throw refused(`names the authorization server ${issuer}; set oauth.issuer to that if the credential belongs to it`);
  }
  if (!sameIssuer(expand(oauth.issuer), issuer)) {
    throw refused(`names the authorization server ${issuer}, and the credential belongs to ${expand(oauth.issuer)}`);
  }
  const announced = found?.resource;
  const requestedResource = resourceUrlFromServerUrl(serverUrl);
  if (announced !== undefined && !checkResourceAllowed({ requestedResource, configuredResource: announced })) {
    throw refused(`describes itself as another resource, ${announced}`);
  }
  const resource = oauth.resource === undefined ? announced : expand(oauth.resource);
  const scope = oauth.scope ?? wanted ?? found?.scopes_supported?.join(' ');
  return { metadata, resource: resource || undefined, scope: scope || undefined };
}

/** The metadata of the MCP server as a protected resource, if it has any. */
async function readResource(serverUrl: URL, resourceMetadataUrl: URL | undefined, fetchFn: FetchLike) {
  try {
    return await discoverOAuthProtectedResourceMetadata(serverUrl, { resourceMetadataUrl }, fetchFn);
  } catch (error) {
    if (error instanceof TypeError) throw error;
    return undefined;
  }
}

function refused(reason: string): ToolError {
  return new ToolError('AUTH_NOT_CONFIGURED', {
    message: `The MCP server ${reason}`.slice(0, 400),
    details: { state: 'auth_failed' },
    facts: { reason: 'auth_failed' },
  });
}
