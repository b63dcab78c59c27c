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

/** Where tokens for a server are asked for, and for what. */
export interface AuthorizationServer {
  url: string;
  metadata: AuthorizationServerMetadata | undefined;
  /** Resource indicator (RFC 8707). */
  resource?: string;
  scope?: string;
}

/** A refusal by the server that says where tokens come from. */
export interface Challenge {
  response: Response;
  serverUrl: URL;
}

/** The configured token endpoint, or undefined when the server has to say where tokens come from. */
export function configuredServer(
  oauth: OAuthOptions,
  expand: (value: string) => string,
): AuthorizationServer | undefined {
  if (oauth.tokenUrl === undefined) return undefined;
  const url = expand(oauth.tokenUrl);
  // An endpoint without an issuer: assertions then are for the endpoint itself (RFC 7523 section 3).
  const metadata = {
    token_endpoint: url,
    ...(oauth.issuer === undefined ? {} : { issuer: expand(oauth.issuer) }),
  } as AuthorizationServerMetadata;
  return {
    url,
    metadata,
    ...(oauth.resource === undefined ? {} : { resource: expand(oauth.resource) }),
    ...(oauth.scope === undefined ? {} : { scope: oauth.scope }),
  };
}

/**
 * The authorization server a 401 leads to (RFC 9728, RFC 8414). The operator's scope and resource win over those the server
 * names.
 * @throws ToolError AUTH_NOT_CONFIGURED when that is not the `issuer` the credential belongs to, or none is configured; whatever the SDK or the guard throws
 */
export async function discoveredServer(
  oauth: OAuthOptions,
  expand: (value: string) => string,
  challenge: Challenge,
  fetchFn: FetchLike,
): Promise<AuthorizationServer> {
  const { resourceMetadataUrl, scope: wanted } = extractWWWAuthenticateParams(challenge.response);
  const found = await discoverOAuthServerInfo(challenge.serverUrl, {
    fetchFn,
    ...(resourceMetadataUrl ? { resourceMetadataUrl } : {}),
  });
  const { authorizationServerMetadata: metadata, resourceMetadata } = found;
  const url = String(found.authorizationServerUrl);
  const issuer = metadata?.issuer ?? url;
  if (oauth.issuer === undefined) {
    // Whoever runs the MCP server names its authorization server, and could name its own to receive the secret.
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
  return { url, metadata, ...(resource ? { resource } : {}), ...(scope ? { scope } : {}) };
}

const sameIssuer = (a: string, b: string): boolean => a.replace(/\/$/, '') === b.replace(/\/$/, '');

function refused(reason: string): ToolError {
  return new ToolError('AUTH_NOT_CONFIGURED', {
    message: `The MCP server ${reason}`.slice(0, 400),
    details: { state: 'auth_failed' },
  });
}
