import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { AuthInfo } from '@modelcontextprotocol/server';
import { isJsonObject, ToolError, type JsonObject, type Principal } from '@toolfleet/contracts';
import { errorBody } from '@toolfleet/contracts/wire';
import { SCHEMA_STYLES, type SchemaStyle } from '@toolfleet/schema';
import { hostName, LOOPBACK_NAMES, originName } from '../auth/loopback.js';
import type { McpEndpointOptions } from './mcp-deps.js';
import type { Exchange } from './session.js';

export const MCP_PATH = '/mcp';
/** Where the metadata is served: RFC 9728 section 3.1 inserts the well-known path before the resource's own. */
export const METADATA_PATHS = [
  '/.well-known/oauth-protected-resource',
  `/.well-known/oauth-protected-resource${MCP_PATH}`,
];

/**
 * Checks `Host` and `Origin` against DNS rebinding and cross-site calls. A request that arrives on loopback must name a
 * loopback host: a page that rebinds its own name to 127.0.0.1 sends that name. An `Origin` must be the request's own host,
 * another loopback page on loopback, or allowed by configuration; programs send none.
 * @returns why the request is refused, or undefined
 */
export function checkOrigin(
  headers: IncomingHttpHeaders,
  localAddress: string | undefined,
  { allowedHosts = [], allowedOrigins = [] }: Pick<McpEndpointOptions, 'allowedHosts' | 'allowedOrigins'>,
): string | undefined {
  const host = hostName(headers.host);
  if (host === undefined) return `Invalid Host: ${headers.host?.slice(0, 200) ?? 'missing'}`;
  const isLoopback = localAddress === undefined || /^(127\.|::1$|::ffff:127\.)/.test(localAddress);
  if (isLoopback && !LOOPBACK_NAMES.has(host) && !allowedHosts.includes(host)) return `Invalid Host: ${host}`;
  const { origin } = headers;
  if (origin === undefined || allowedOrigins.includes(origin)) return undefined;
  const page = originName(origin);
  if (page !== undefined && (page === host || (LOOPBACK_NAMES.has(page) && LOOPBACK_NAMES.has(host)))) return undefined;
  return `Invalid Origin: ${origin.slice(0, 200)}`;
}

/**
 * URL of this resource (RFC 9728 section 3.3). A `Host` header is never repeated: its sender could make a client believe that
 * the fleet is elsewhere. In development it is the loopback name and the port that the request came to.
 */
export function resourceUrl({ headers, socket }: IncomingMessage, options: McpEndpointOptions): string | undefined {
  if (options.publicUrl !== undefined) return `${options.publicUrl.replace(/\/$/, '')}${MCP_PATH}`;
  if (!options.development) return undefined;
  const named = hostName(headers.host);
  const name = named !== undefined && LOOPBACK_NAMES.has(named) ? named : 'localhost';
  return `http://${name}:${socket.localPort}${MCP_PATH}`;
}

/**
 * Paths at which OAuth clients look for an authorization server when a resource names none (revision 2025-03-26 of MCP): its
 * metadata, and the default paths of its endpoints.
 */
export const AUTHORIZATION_SERVER_PATHS = [
  '/.well-known/oauth-authorization-server',
  `/.well-known/oauth-authorization-server${MCP_PATH}`,
  '/.well-known/openid-configuration',
  `/.well-known/openid-configuration${MCP_PATH}`,
  `${MCP_PATH}/.well-known/openid-configuration`,
  '/register',
  '/authorize',
  '/token',
];

/**
 * What a client that looks for OAuth gets: the error of this API, which is an OAuth error (RFC 6749 section 5.2), too, so that
 * clients show its description instead of "invalid response".
 */
export function noOAuthBody(issuer: string | undefined): JsonObject {
  const keys = 'API keys, in Authorization: Bearer or X-API-Key';
  const message =
    issuer === undefined
      ? `This gateway has no OAuth sign-in and takes ${keys}. Check the key.`
      : `This gateway is no authorization server. It takes ${keys}, and access tokens of ${issuer}.`;
  return { ...errorBody(new ToolError('NOT_FOUND', { message })), error_description: message };
}

/**
 * URL of the metadata that an OAuth client reads first. Undefined without an issuer: a client that is sent there would try to sign in
 * instead of reporting that its key was refused.
 */
export function metadataUrl(request: IncomingMessage, options: McpEndpointOptions): string | undefined {
  if (options.issuer === undefined) return undefined;
  const resource = resourceUrl(request, options);
  return resource === undefined ? undefined : `${new URL(resource).origin}${METADATA_PATHS[1]}`;
}

/**
 * The style of listed schemas that the query of a request chooses: `/mcp?schema_style=inline`.
 * @throws ToolError REQUEST_INVALID for an unknown style
 */
export function readSchemaStyle(url: string | undefined): SchemaStyle {
  const wanted = new URL(url ?? '/', 'http://gateway').searchParams.get('schema_style') ?? 'defs';
  const style = SCHEMA_STYLES.find((known) => known === wanted);
  if (style) return style;
  throw new ToolError('REQUEST_INVALID', { message: `schema_style must be one of ${SCHEMA_STYLES.join(', ')}` });
}

/** Principal and exchange travel through the SDK as its auth info; the token itself does not. */
export function toAuthInfo(principal: Principal, exchange: Exchange | undefined): AuthInfo {
  return { token: '', clientId: principal.userId, scopes: [...principal.tools], extra: { principal, exchange } };
}

/** The principal that `toAuthInfo` stored. @throws TypeError when there is none: the request was not authenticated */
export function readPrincipal(authInfo: AuthInfo | undefined): Principal {
  const principal: unknown = authInfo?.extra?.['principal'];
  if (!isJsonObject(principal)) throw new TypeError('a request without a principal reached the MCP endpoint');
  return principal as unknown as Principal;
}

/** The exchange that `toAuthInfo` stored. */
export function readExchange(authInfo: AuthInfo | undefined): Exchange {
  return (authInfo?.extra?.['exchange'] as Exchange | undefined) ?? { project: {} };
}
