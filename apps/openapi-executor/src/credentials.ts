import { isJsonObject, ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import { encodeUnreserved, headerText, type SecurityScheme } from '@toolfleet/openapi';
import type { OpenSecret } from '@toolfleet/service';
import type { UserCredential } from '@toolfleet/service/executor';
import { registerSecret } from '@toolfleet/telemetry';
import type { OAuthTokens, OAuthGrant } from './oauth-tokens.js';
import type { OperationOptions } from './operation-options.js';
import type { OutgoingRequest } from './send-request.js';

/**
 * Adds credentials and extra headers to a request right before it is sent. Every resolved secret is registered for redaction, so that an
 * echo of it in a response does not reach the model.
 */
export class Credentials {
  constructor(
    private readonly openSecret: OpenSecret,
    private readonly tokens: OAuthTokens,
  ) {}

  /** @returns the token that was sent, if it can be renewed; after a 401 it is `refused`, and the request is sent once more */
  async apply(
    request: OutgoingRequest,
    call: {
      collection: string;
      baseUrl: string;
      options: OperationOptions;
      security: SecurityScheme[][] | undefined;
      body: Json | undefined;
      signal: AbortSignal;
      refused?: string | undefined;
      /** The credential of the user; absent: the source's. */
      user?: (Pick<UserCredential, 'kind' | 'value'> & { header: string | undefined }) | undefined;
    },
  ): Promise<{ token: string | undefined }> {
    const { registration = call.collection } = call.options;
    const open = (value: string) => this.openSecret(value, registration);
    let token: string | undefined;
    /** Headers that carry the user, and no credential of the source. */
    const ofUser = new Set<string>();
    if (call.user) {
      const credential = userCredential(call.user, call.security, call.options);
      if (credential) applyStatic(request, credential, (value) => value, true);
      if (credential) token = call.user.value;
      ofUser.add('authorization');
      if (credential?.kind === 'api_key' && credential.place !== 'query')
        ofUser.add(credential.place === 'cookie' ? 'cookie' : credential.name.toLowerCase());
    }
    for (const credential of call.user ? [] : chooseCredentials(call.security, call.options)) {
      if (credential.kind === 'oauth2') {
        const { grant } = credential;
        const opened = {
          ...grant,
          // The document is untrusted, so variables in it are not expanded.
          tokenUrl: absoluteUrl(grant.isOfDocument ? grant.tokenUrl : open(grant.tokenUrl), call.baseUrl),
          clientId: open(grant.clientId),
          clientSecret: open(grant.clientSecret),
          refreshToken: grant.refreshToken === undefined ? undefined : open(grant.refreshToken),
        };
        token = await this.tokens.get(opened, call.signal, call.refused);
        setHeader(request, 'Authorization', `Bearer ${token}`);
      } else applyStatic(request, credential, open);
    }
    for (const [name, value] of Object.entries(call.options.extraHeaders)) {
      if (ofUser.has(name.toLowerCase())) continue;
      setHeader(request, name, fillTemplate(open(value), call.body));
    }
    return { token };
  }
}

/** The credential of a user in the place that the source, or else the document, declares; undefined for a public operation. */
function userCredential(
  { kind, value, header }: { kind: 'key' | 'token'; value: string; header: string | undefined },
  security: SecurityScheme[][] | undefined,
  { authType, authConfig }: OperationOptions,
): StaticCredential | undefined {
  if (security?.length === 0) return undefined; // `security: []`: the operation is public
  if (header !== undefined && header.toLowerCase() !== 'authorization')
    return { kind: 'api_key', place: 'header', name: header, value };
  const scheme = security?.find((set) => set.length === 1)?.[0];
  if (kind === 'token' || header !== undefined || authType === 'bearer' || authType === 'oauth2')
    return { kind: 'bearer', token: value };
  if (authType === 'basic' || (scheme?.type === 'http' && scheme.scheme === 'basic'))
    return { kind: 'basic', username: value.split(':', 1)[0]!, password: value.slice(value.indexOf(':') + 1) };
  if (authType !== 'api_key' && scheme?.type !== 'apiKey') return { kind: 'bearer', token: value };
  return apiKey(authConfig, scheme, value);
}

/** Resolves a relative token URL against the server; an absolute one is kept as written, for the egress guard to check. */
function absoluteUrl(url: string, baseUrl: string): string {
  return /^[a-z][a-z0-9+.-]*:/i.test(url) ? url : new URL(url, `${baseUrl}/`).href;
}

function applyStatic(
  request: OutgoingRequest,
  credential: StaticCredential,
  open: (value: string) => string,
  isOfUser = false,
): void {
  if (credential.kind === 'bearer') {
    const token = open(credential.token);
    setHeader(request, 'Authorization', /^bearer /i.test(token) ? token : `Bearer ${token}`);
  } else if (credential.kind === 'basic') {
    const pair = `${open(credential.username)}:${open(credential.password)}`;
    const encoded = Buffer.from(pair, 'utf8').toString('base64');
    if (!isOfUser) registerSecret(encoded);
    setHeader(request, 'Authorization', `Basic ${encoded}`);
  } else {
    const value = open(credential.value);
    if (credential.place === 'header') setHeader(request, credential.name, value);
    else if (credential.place === 'query') {
      const pair = `${encodeUnreserved(credential.name)}=${encodeUnreserved(value)}`;
      request.target += `${request.target.includes('?') ? '&' : '?'}${pair}`;
    } else {
      const cookies = request.headers.cookie === undefined ? '' : `${request.headers.cookie}; `;
      setHeader(request, 'Cookie', `${cookies}${credential.name}=${encodeUnreserved(value)}`);
    }
  }
}

function setHeader(request: OutgoingRequest, name: string, value: string): void {
  request.headers[name.toLowerCase()] = headerText(name, value);
}

/** Replaces `{{body.field}}` in an extra header by a scalar of the request body, or by nothing. */
function fillTemplate(template: string, body: Json | undefined): string {
  return template.replace(/\{\{\s*body\.([\w.-]+)\s*\}\}/g, (_, path: string) => {
    let value: Json | undefined = body;
    for (const key of path.split('.')) {
      const isMember =
        typeof value === 'object' && value !== null && !Array.isArray(value) && Object.hasOwn(value, key);
      value = isMember ? (value as { [name: string]: Json })[key] : undefined;
    }
    return ['string', 'number', 'boolean'].includes(typeof value) ? String(value) : '';
  });
}

/** One credential of a request, unexpanded. */
type OperationCredential =
  | { kind: 'api_key'; place: 'header' | 'query' | 'cookie'; name: string; value: string }
  | { kind: 'bearer'; token: string }
  | { kind: 'basic'; username: string; password: string }
  | { kind: 'oauth2'; grant: OAuthGrant };

/**
 * Chooses the credentials of a call. Of the document's security requirements (alternatives of sets, OpenAPI `security`) it takes the first
 * set that the configuration satisfies completely, and an anonymous one only after all others. Without requirements, or when none is of
 * the configured type, the configured credential is used unchanged. `auth_type: none` sends none, and the upstream decides.
 * @throws ToolError AUTH_NOT_CONFIGURED when something is configured and incomplete
 */
function chooseCredentials(security: SecurityScheme[][] | undefined, options: OperationOptions): OperationCredential[] {
  const named = isJsonObject(options.authConfig.schemes) ? options.authConfig.schemes : undefined;
  if (options.authType === 'none' && !named) return [];
  if (security?.length === 0) return []; // `security: []`: the operation is public
  for (const set of security ?? []) {
    if (set.length === 0) continue;
    const credentials = set.map((scheme) => credentialFor(scheme, options, named));
    if (credentials.every((credential) => credential !== undefined)) return credentials;
  }
  if (options.authType !== 'none') return [toCredential(options.authType, options.authConfig, undefined)];
  if (!security || security.some((set) => set.length === 0)) return [];
  throw notConfigured('no security requirement of the operation is configured completely');
}

function credentialFor(
  scheme: SecurityScheme,
  { authType, authConfig }: OperationOptions,
  named: JsonObject | undefined,
): OperationCredential | undefined {
  const own = named && Object.hasOwn(named, scheme.id) ? named[scheme.id] : undefined;
  if (isJsonObject(own)) return toCredential(typeFor(scheme), own, scheme);
  if (!fits(scheme, authType, authConfig)) return undefined;
  return toCredential(authType, authConfig, scheme);
}

/** The type of credential that a scheme requires. */
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

type StaticCredential = Exclude<OperationCredential, { kind: 'oauth2' }>;

function toCredential(
  authType: OperationOptions['authType'],
  config: JsonObject,
  scheme: SecurityScheme | undefined,
): OperationCredential {
  if (authType === 'bearer') return { kind: 'bearer', token: required(config, 'token') };
  if (authType === 'basic') {
    return { kind: 'basic', username: required(config, 'username'), password: optional(config, 'password') ?? '' };
  }
  if (authType === 'api_key')
    return apiKey(config, scheme, optional(config, 'api_key_value') ?? required(config, 'value'));
  const token = optional(config, 'token');
  return token !== undefined ? { kind: 'bearer', token } : { kind: 'oauth2', grant: toGrant(config, scheme) };
}

/** A key in the place that the configuration, or else the document, declares. */
function apiKey(config: JsonObject, scheme: SecurityScheme | undefined, value: string): StaticCredential {
  const place = optional(config, 'api_key_location') ?? scheme?.in ?? 'header';
  if (place !== 'header' && place !== 'query' && place !== 'cookie') throw notConfigured('api_key_location is unknown');
  return { kind: 'api_key', place, name: optional(config, 'api_key_name') ?? scheme?.name ?? 'X-API-Key', value };
}

function toGrant(config: JsonObject, scheme: SecurityScheme | undefined): OAuthGrant {
  const configured = optional(config, 'token_url');
  const tokenUrl = configured ?? scheme?.token_url;
  if (tokenUrl === undefined) {
    throw notConfigured(
      scheme?.interactive_only
        ? 'AUTH_FLOW_UNSUPPORTED: all flows of the scheme need user interaction; configure auth_config.token or token_url'
        : 'auth_config.token_url is missing',
    );
  }
  const scopes = Array.isArray(config.scopes) ? config.scopes.filter((item) => typeof item === 'string') : undefined;
  return {
    tokenUrl,
    isOfDocument: configured === undefined,
    clientId: required(config, 'client_id'),
    clientSecret: optional(config, 'client_secret') ?? '',
    scope: optional(config, 'scope') ?? (scopes ?? scheme?.scopes ?? []).join(' '),
    clientAuth: config.client_auth === 'body' ? 'body' : 'header',
    audience: optional(config, 'audience'),
    refreshToken: optional(config, 'refresh_token'),
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
