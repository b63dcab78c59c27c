import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { SourceAuth, UserAuth } from '@toolfleet/contracts/user-auth';

const WELL_KNOWN = '/.well-known/openid-configuration';

const needsServer = ({ mode, issuer, authorization_url: authorize, token_url: token }: UserAuth): boolean =>
  mode === 'connect' && issuer === undefined && authorize === undefined && token === undefined;

/**
 * `auth` of a source in mode `connect` that names no authorization server, with the OpenAPI document's: the first security scheme
 * with the code flow, or with OpenID Connect.
 * @param baseUrl relative addresses of the document begin there
 */
export function withDocumentServer(auth: SourceAuth, root: JsonObject, baseUrl: string | undefined): SourceAuth {
  if (!needsServer(auth.user)) return auth;
  const schemes = objectIn(objectIn(root, 'components'), 'securitySchemes') ?? {};
  for (const [name, scheme] of Object.entries(schemes)) {
    if (!isJsonObject(scheme)) continue;
    const found = serverOf(scheme, baseUrl);
    if (found) return { user: { ...auth.user, ...found, ...scopesOf(auth.user, root, name) } };
  }
  return auth;
}

/** The same for an MCP server: its own metadata (RFC 9728) names the authorization server when a user connects. */
export function withServerResource(auth: SourceAuth | undefined, url: string): SourceAuth | undefined {
  if (!auth || !needsServer(auth.user) || auth.user.resource !== undefined) return auth;
  return { user: { ...auth.user, resource: url } };
}

/**
 * `auth` with the origins of these addresses that get the credentials of users. A source that moves to another origin then gets none that
 * was given for the old one.
 */
export function boundToOrigins(auth: SourceAuth | undefined, urls: readonly string[]): SourceAuth | undefined {
  if (!auth) return undefined;
  // An address with variables has no origin yet, and counts as it is written.
  const origins = new Set(urls.map((url) => (url.includes('$') ? url : (URL.parse(url)?.origin ?? url))));
  return { user: { ...auth.user, sent_to: [...origins].toSorted() } };
}

function serverOf(scheme: JsonObject, baseUrl: string | undefined): Partial<UserAuth> | undefined {
  if (scheme['type'] === 'openIdConnect') {
    const url = addressOf(scheme['openIdConnectUrl'], baseUrl);
    return url?.endsWith(WELL_KNOWN) ? { issuer: url.slice(0, -WELL_KNOWN.length) } : undefined;
  }
  const flow = objectIn(objectIn(scheme, 'flows'), 'authorizationCode');
  const authorize = addressOf(flow?.['authorizationUrl'], baseUrl);
  const token = addressOf(flow?.['tokenUrl'], baseUrl);
  return authorize === undefined || token === undefined
    ? undefined
    : { authorization_url: authorize, token_url: token };
}

/** The scopes that the document requires of all operations, unless the configuration names others. */
function scopesOf({ scopes }: UserAuth, { security }: JsonObject, name: string): Pick<UserAuth, 'scopes'> {
  if (scopes || !Array.isArray(security)) return {};
  const set = security.find((one) => isJsonObject(one) && Object.hasOwn(one, name)) as JsonObject | undefined;
  const named = set?.[name];
  const required = Array.isArray(named) ? named.filter((scope): scope is string => typeof scope === 'string') : [];
  return required.length > 0 ? { scopes: required } : {};
}

/** An absolute address. The document is untrusted, so variables in it are not expanded: an address with one is not used. */
function addressOf(value: Json | undefined, baseUrl: string | undefined): string | undefined {
  if (typeof value !== 'string' || value.includes('$')) return undefined;
  return (URL.parse(value, baseUrl) ?? undefined)?.href;
}

const objectIn = (value: JsonObject | undefined, name: string): JsonObject | undefined => {
  const member = value && Object.hasOwn(value, name) ? value[name] : undefined;
  return isJsonObject(member) ? member : undefined;
};
