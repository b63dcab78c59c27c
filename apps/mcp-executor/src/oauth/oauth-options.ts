import { isJsonObject, type Json } from '@toolfleet/contracts';

/** The enterprise identity provider of an identity assertion grant (SEP-990). Values may hold `${VAR}`. */
interface IdentityOptions {
  /** Token endpoint of the identity provider. */
  tokenUrl: string;
  clientId: string;
  clientSecret?: string;
  /** OpenID Connect ID token to exchange; expanded for each exchange. */
  idToken: string;
}

/** Machine-to-machine OAuth of one server. Values may hold `${VAR}`. */
export interface OAuthOptions {
  /** Not needed where the assertion alone identifies the workload. */
  clientId?: string;
  clientSecret?: string;
  /** PKCS#8 PEM: the client authenticates with signed assertions (`private_key_jwt`, SEP-1046) instead of a secret. */
  privateKey?: string;
  /** JWS algorithm of `privateKey`. */
  signingAlgorithm: string;
  /** Token endpoint. Without it the endpoint is discovered from the server's resource metadata (requires `issuer`). */
  tokenUrl?: string;
  /** The authorization server that the credentials belong to. A discovered server with another issuer does not receive them. */
  issuer?: string;
  scope?: string;
  /** Resource indicator (RFC 8707); discovered together with the endpoint. */
  resource?: string;
  /** Use the refresh-token grant instead of client credentials. */
  refreshToken?: string;
  /** Workload identity: a JWT of the platform, exchanged for a token (RFC 7523, SEP-1933); expanded for each exchange. */
  assertion?: string;
  identity?: IdentityOptions;
  /** Whether tokens must be bound to a key of this process (DPoP: RFC 9449, SEP-1932). */
  dpop: boolean;
}

const SIGNING_ALGORITHMS = ['ES256', 'ES384', 'ES512', 'RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'];
const IDENTITY_FIELDS = ['token_url', 'client_id', 'client_secret', 'id_token'];
const TEXT_FIELDS = [
  'client_id',
  'client_secret',
  'private_key',
  'signing_algorithm',
  'token_url',
  'issuer',
  'scope',
  'resource',
  'refresh_token',
  'assertion',
];

/**
 * Reads `oauth` of a server.
 * @returns the options, or the name of the field that is wrong
 */
export function readOAuth(value: Json): OAuthOptions | string {
  if (!isJsonObject(value)) return 'oauth';
  for (const [field, given] of Object.entries(value)) {
    if (field === 'identity' || field === 'dpop') continue;
    if (!TEXT_FIELDS.includes(field)) return `oauth.${field} is unknown`;
    if (given !== null && typeof given !== 'string') return `oauth.${field}`;
  }
  const text = (field: string): string | undefined => (value[field] as string | null | undefined) || undefined;
  const [clientId, clientSecret, privateKey] = [text('client_id'), text('client_secret'), text('private_key')];
  const [refreshToken, assertion] = [text('refresh_token'), text('assertion')];
  const identity = value['identity'] ?? undefined;
  const [grant, another] = Object.entries({ refresh_token: refreshToken, assertion, identity })
    .filter(([, given]) => given !== undefined)
    .map(([name]) => name);
  if (another !== undefined) return `oauth has both ${grant} and ${another}`;
  if (clientSecret && privateKey) return 'oauth has both client_secret and private_key';
  if (!clientId && grant !== 'assertion') return 'oauth.client_id';
  const signingAlgorithm = text('signing_algorithm') ?? 'ES256';
  if (!SIGNING_ALGORITHMS.includes(signingAlgorithm)) return 'oauth.signing_algorithm';
  const dpop = value['dpop'] ?? false;
  if (typeof dpop !== 'boolean') return 'oauth.dpop';
  const identityOptions = identity === undefined ? undefined : readIdentity(identity);
  if (typeof identityOptions === 'string') return identityOptions;
  return {
    clientId,
    clientSecret,
    privateKey,
    tokenUrl: text('token_url'),
    issuer: text('issuer'),
    scope: text('scope'),
    resource: text('resource'),
    refreshToken,
    assertion,
    identity: identityOptions,
    signingAlgorithm,
    dpop,
  };
}

function readIdentity(value: Json): IdentityOptions | string {
  if (!isJsonObject(value)) return 'oauth.identity';
  for (const [field, given] of Object.entries(value)) {
    if (!IDENTITY_FIELDS.includes(field)) return `oauth.identity.${field} is unknown`;
    if (given !== null && typeof given !== 'string') return `oauth.identity.${field}`;
  }
  const text = (field: string): string => (value[field] as string | null | undefined) ?? '';
  for (const field of ['token_url', 'client_id', 'id_token']) if (text(field) === '') return `oauth.identity.${field}`;
  const clientSecret = text('client_secret');
  return {
    tokenUrl: text('token_url'),
    clientId: text('client_id'),
    idToken: text('id_token'),
    clientSecret: clientSecret || undefined,
  };
}
