import { isJsonObject, ToolError, type JsonObject } from '@toolfleet/contracts';
import type { SecurityScheme } from '@toolfleet/openapi';
import type { OperationOptions } from './operation-options.js';

/** One credential to put into a request, still unexpanded. */
export type Credential =
  | { kind: 'api_key'; place: 'header' | 'query' | 'cookie'; name: string; value: string }
  | { kind: 'bearer'; token: string }
  | { kind: 'basic'; username: string; password: string }
  | { kind: 'oauth2'; grant: OAuthGrant };

/** What a token is fetched with; values may hold `${VAR}` or be sealed. */
export interface OAuthGrant {
  tokenUrl: string;
  /** The document names the token URL, not the configuration. */
  isOfDocument: boolean;
  clientId: string;
  clientSecret: string;
  scope: string;
  audience?: string;
  refreshToken?: string;
  /** Where the client identifies itself. */
  clientAuth: 'header' | 'body';
}

/**
 * The credentials of a call: of the document's OR of AND sets the first one that the
 * configuration satisfies completely, a non-empty one before an anonymous one. Where the document says nothing, or knows
 * none of the configured kind, the configured credential is used as it is. `auth_type: none` sends none: then the
 * upstream's own refusal is the answer.
 * @throws ToolError AUTH_NOT_CONFIGURED when something is configured and incomplete
 */
export function chooseCredentials(security: SecurityScheme[][] | undefined, options: OperationOptions): Credential[] {
  const named = isJsonObject(options.authConfig.schemes) ? options.authConfig.schemes : undefined;
  if (options.authType === 'none' && !named) return [];
  if (security?.length === 0) return []; // `security: []`: the operation is public
  for (const set of security ?? []) {
    if (set.length === 0) continue;
    const credentials = set.map((scheme) => credentialFor(scheme, options, named));
    if (credentials.every((credential) => credential !== undefined)) return credentials;
  }
  if (options.authType !== 'none') return [credentialOf(options.authType, options.authConfig, undefined)];
  if (!security || security.some((set) => set.length === 0)) return [];
  throw notConfigured('no security requirement of the operation is configured completely');
}

function credentialFor(
  scheme: SecurityScheme,
  { authType, authConfig }: OperationOptions,
  named: JsonObject | undefined,
): Credential | undefined {
  const own = named && Object.hasOwn(named, scheme.id) ? named[scheme.id] : undefined;
  if (isJsonObject(own)) return credentialOf(typeFor(scheme), own, scheme);
  if (!fits(scheme, authType, authConfig)) return undefined;
  return credentialOf(authType, authConfig, scheme);
}

/** Kind of credential a scheme asks for. */
function typeFor(scheme: SecurityScheme): OperationOptions['authType'] {
  if (scheme.type === 'apiKey') return 'api_key';
  if (scheme.type === 'oauth2') return 'oauth2';
  return scheme.scheme === 'basic' ? 'basic' : 'bearer';
}

function fits(scheme: SecurityScheme, authType: OperationOptions['authType'], config: JsonObject): boolean {
  const tokenBased =
    scheme.type === 'oauth2' ||
    scheme.type === 'openIdConnect' ||
    (scheme.type === 'http' && scheme.scheme === 'bearer');
  if (authType === 'bearer' || authType === 'oauth2') return tokenBased;
  if (authType === 'basic') return scheme.type === 'http' && scheme.scheme === 'basic';
  if (authType !== 'api_key' || scheme.type !== 'apiKey') return false;
  const name = config.api_key_name;
  return typeof name !== 'string' || name.toLowerCase() === scheme.name?.toLowerCase();
}

function credentialOf(
  authType: OperationOptions['authType'],
  config: JsonObject,
  scheme: SecurityScheme | undefined,
): Credential {
  if (authType === 'bearer') return { kind: 'bearer', token: required(config, 'token') };
  if (authType === 'basic') {
    return { kind: 'basic', username: required(config, 'username'), password: optional(config, 'password') ?? '' };
  }
  if (authType === 'api_key') {
    const place = optional(config, 'api_key_location') ?? scheme?.in ?? 'header';
    if (place !== 'header' && place !== 'query' && place !== 'cookie')
      throw notConfigured('api_key_location is unknown');
    const value = optional(config, 'api_key_value') ?? required(config, 'value');
    return { kind: 'api_key', place, name: optional(config, 'api_key_name') ?? scheme?.name ?? 'X-API-Key', value };
  }
  const token = optional(config, 'token');
  return token !== undefined ? { kind: 'bearer', token } : { kind: 'oauth2', grant: grantOf(config, scheme) };
}

function grantOf(config: JsonObject, scheme: SecurityScheme | undefined): OAuthGrant {
  const configured = optional(config, 'token_url');
  const tokenUrl = configured ?? scheme?.token_url;
  if (tokenUrl === undefined) {
    throw notConfigured(
      scheme?.interactive_only
        ? 'AUTH_FLOW_UNSUPPORTED: the scheme only has flows that need a person; configure auth_config.token or token_url'
        : 'auth_config.token_url is missing',
    );
  }
  const scopes = Array.isArray(config.scopes) ? config.scopes.filter((item) => typeof item === 'string') : undefined;
  const audience = optional(config, 'audience');
  const refreshToken = optional(config, 'refresh_token');
  return {
    tokenUrl,
    isOfDocument: configured === undefined,
    clientId: required(config, 'client_id'),
    clientSecret: optional(config, 'client_secret') ?? '',
    scope: optional(config, 'scope') ?? (scopes ?? scheme?.scopes ?? []).join(' '),
    clientAuth: config.client_auth === 'body' ? 'body' : 'header',
    ...(audience === undefined ? {} : { audience }),
    ...(refreshToken === undefined ? {} : { refreshToken }),
  };
}

function optional(config: JsonObject, name: string): string | undefined {
  const value = Object.hasOwn(config, name) ? config[name] : undefined;
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function required(config: JsonObject, name: string): string {
  const value = optional(config, name);
  if (value === undefined) throw notConfigured(`auth_config.${name} is missing`);
  return value;
}

function notConfigured(message: string): ToolError {
  return new ToolError('AUTH_NOT_CONFIGURED', { message: `AUTH_NOT_CONFIGURED: ${message}` });
}
