import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { MCP_MODES, ToolError, type JsonObject, type McpMode } from '@toolfleet/contracts';
import { errorBody } from '@toolfleet/contracts/wire';
import { SCHEMA_STYLES } from '@toolfleet/contracts/resources';
import type { SchemaStyle } from '@toolfleet/bounded-schema';
import type { FastifyRequest } from 'fastify';
import { TOOLSET_HEADER } from '../server/guards.js';
import { publicBase } from '../server/public-origin.js';
import { hostName, LOOPBACK_NAMES, originName } from '@toolfleet/access';
import type { McpEndpointOptions } from './endpoint-deps.js';

export const MCP_PATH = '/mcp';
/** Paths of MCP: with all tools, and with a toolset's. */
export const MCP_ROUTES = [MCP_PATH, `${MCP_PATH}/`, `${MCP_PATH}/t/:toolset`, `${MCP_PATH}/t/:toolset/`];
/** Where the metadata is served: RFC 9728 section 3.1 inserts the well-known path before the resource's own. */
export const METADATA_PATHS = [
  '/.well-known/oauth-protected-resource',
  `/.well-known/oauth-protected-resource${MCP_PATH}`,
  `/.well-known/oauth-protected-resource${MCP_PATH}/t/:toolset`,
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

/** URL of this resource (RFC 9728 section 3.3). */
export function resourceUrl(
  request: IncomingMessage,
  options: McpEndpointOptions,
  toolset?: string,
): string | undefined {
  const base = publicBase(request, options);
  return base === undefined ? undefined : `${base}${MCP_PATH}${toolsetPath(toolset)}`;
}

/** The path of a toolset below the endpoint; empty for anything that names none. */
function toolsetPath(toolset: string | undefined): string {
  return toolset !== undefined && /^[A-Za-z0-9_@-]{1,80}$/.test(toolset) ? `/t/${toolset}` : '';
}

/** Where the metadata of the fleet's own authorization server is, if it has one (RFC 8414 section 3, OpenID Connect Discovery). */
export const OWN_SERVER_PATHS = ['/.well-known/oauth-authorization-server', '/.well-known/openid-configuration'];

/** The issuers of accepted tokens: the fleet's own first. */
export function issuersOf(request: IncomingMessage, options: McpEndpointOptions): string[] {
  const own = options.signIn ? publicBase(request, options) : undefined;
  return [own, options.issuer].filter((issuer) => issuer !== undefined);
}

/**
 * Paths at which OAuth clients look for an authorization server when a resource names none (revision 2025-03-26 of MCP): its
 * metadata, and the default paths of its endpoints.
 */
export const AUTHORIZATION_SERVER_PATHS = [
  `/.well-known/oauth-authorization-server${MCP_PATH}`,
  `/.well-known/oauth-authorization-server${MCP_PATH}/t/:toolset`,
  `/.well-known/openid-configuration${MCP_PATH}`,
  `/.well-known/openid-configuration${MCP_PATH}/t/:toolset`,
  `${MCP_PATH}/.well-known/openid-configuration`,
  `${MCP_PATH}/t/:toolset/.well-known/openid-configuration`,
  '/register',
  '/authorize',
  '/token',
];

/**
 * Answers a client that looks for OAuth with the error of this API (also an OAuth error, RFC 6749 section 5.2), so that
 * clients show its description instead of "invalid response".
 */
export function noOAuthBody({ issuer, signIn }: Pick<McpEndpointOptions, 'issuer' | 'signIn'>): JsonObject {
  const keys = 'API keys, in Authorization: Bearer or X-API-Key';
  const message = signIn
    ? 'The metadata of this authorization server is at /.well-known/oauth-authorization-server and names its addresses.'
    : issuer === undefined
      ? `This gateway has no OAuth sign-in and takes ${keys}. Check the key.`
      : `This gateway is not an authorization server. It takes ${keys}, and access tokens of ${issuer}.`;
  return { ...errorBody(new ToolError('NOT_FOUND', { message })), error_description: message };
}

/**
 * URL of the metadata that an OAuth client reads first. Undefined without an issuer: a client that is sent there would try to sign in
 * instead of reporting that its key was refused.
 */
export function metadataUrl(
  request: IncomingMessage,
  options: McpEndpointOptions,
  toolset?: string,
): string | undefined {
  if (options.issuer === undefined && !options.signIn) return undefined;
  const resource = resourceUrl(request, options, toolset);
  return resource === undefined ? undefined : `${new URL(resource).origin}${METADATA_PATHS[1]}${toolsetPath(toolset)}`;
}

/** The toolset that a request names: in its path, in `?toolset=` or in the header `X-Toolset`. */
export function readToolset({ params, raw }: FastifyRequest): string | undefined {
  const { toolset: inPath } = params as { toolset?: string };
  const header = raw.headers[TOOLSET_HEADER];
  const inQuery = raw.url?.includes('toolset=')
    ? new URL(raw.url, 'http://gateway').searchParams.get('toolset')
    : undefined;
  return inPath ?? inQuery ?? (header === undefined ? undefined : String(header));
}

/** The choices in the query of a request: `/mcp?mode=code&schema_style=inline`. */
interface McpView {
  /** Style of listed schemas; default `defs`. */
  style: SchemaStyle;
  /** The tools that the client sees; undefined: as the settings say. */
  mode: McpMode | undefined;
}

const DEFAULT_VIEW: McpView = { style: 'defs', mode: undefined };

/** @throws ToolError REQUEST_INVALID for an unknown style or mode */
export function readView(url: string | undefined): McpView {
  if (!url?.includes('?')) return DEFAULT_VIEW;
  const query = new URL(url, 'http://gateway').searchParams;
  return {
    style: readChoice(query, 'schema_style', SCHEMA_STYLES) ?? DEFAULT_VIEW.style,
    mode: readChoice(query, 'mode', MCP_MODES),
  };
}

function readChoice<T extends string>(query: URLSearchParams, name: string, choices: readonly T[]): T | undefined {
  const wanted = query.get(name);
  const chosen = choices.find((known) => known === wanted);
  if (chosen !== undefined || wanted === null) return chosen;
  const message = `${name} must be one of ${choices.join(', ')}`;
  throw new ToolError('REQUEST_INVALID', { message, details: { fields: [name] } });
}
